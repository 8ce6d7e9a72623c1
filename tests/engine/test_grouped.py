"""Products and sums with a group axis against the plain formula."""

import pytest
import torch

from adaptlab.engine.kernels import grouped


@pytest.mark.parametrize("rows", [3, 512])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("bias_groups", [2, 4])
def test_linear_is_one_product_a_group(rows: int, with_bias: bool, bias_groups: int):
    generator = torch.Generator().manual_seed(3)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in ((4, rows, 256), (2, 256, 256), (bias_groups, 256))
    )
    expected = torch.einsum("rni,roi->rno", x, weight.repeat_interleave(2, 0))
    if with_bias:
        expected = expected + bias.repeat_interleave(4 // bias_groups, 0).unsqueeze(1)
    found = grouped.linear(x, weight, bias if with_bias else None)
    assert torch.allclose(found, expected, rtol=0, atol=1e-10)


def test_shared_rows_meet_the_matrices_of_all_who_share_them():
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(2, 3, 5, 7, dtype=torch.float64, generator=generator)
    weight = torch.randn(6, 4, 7, dtype=torch.float64, generator=generator)
    expected = torch.einsum("rbni,roi->rbno", x.repeat_interleave(3, 0), weight)
    assert torch.allclose(grouped.linear(x, weight, None), expected, rtol=0, atol=1e-12)


def test_sums_of_shared_and_single_rows():
    shared, single = torch.arange(2.0).view(2, 1), torch.arange(6.0).view(6, 1)
    expected = shared.repeat_interleave(3, 0) + single
    assert torch.equal(grouped.plus(shared, single), expected)
    assert torch.equal(grouped.plus(single, shared), expected)
    assert torch.equal(grouped.plus(single[:1], shared), shared)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scaled_and_shifted_rows_have_the_gradients_of_torch(dtype: torch.dtype):
    generator = torch.Generator().manual_seed(5)
    x, weight, bias, upstream = (
        torch.randn(*shape, generator=generator).to(dtype).requires_grad_()
        for shape in ((4, 3, 5, 8), (2, 8), (2, 8), (4, 3, 5, 8))
    )
    found = grouped.layer_norm(x, weight, bias)
    rows = torch.nn.functional.layer_norm(x, (8,)).view(2, -1, 8)
    expected = torch.addcmul(bias.unsqueeze(1), rows, weight.unsqueeze(1)).view(x.shape)
    assert torch.equal(found, expected)
    gradients = (torch.autograd.grad(y, (x, weight, bias), upstream) for y in (found, expected))
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
