"""Linear layers and MLPs by kernels, against torch in float64."""

from collections.abc import Callable, Sequence

import pytest
import torch
from tests.engine.kernel_results import asking, drawn, near
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import fused_products
from adaptlab.engine.kernels.compiled import Kernels, forget_kernels
from adaptlab.engine.kernels.fused_products import MlpWeights, NormWeights, fused_linear, fused_mlp

pytestmark = pytest.mark.usefixtures("products")

Sizes = tuple[int, int, int, int, int]
"""Groups, replicates, rows per replicate, inputs and outputs."""
LINEAR: dict[str, Sizes] = {
    "whole tiles": (2, 2, 192, 64, 96),
    "one group": (1, 3, 70, 32, 64),
    "several replicates per group": (2, 6, 33, 40, 24),
    "nothing is whole": (3, 3, 101, 37, 83),
    "few inputs": (2, 2, 65, 1, 9),
    "several parts": (1, 2, 1100, 20, 18),
}
MLP: dict[str, Sizes] = {
    "whole tiles": (2, 2, 192, 32, 128),
    "one group": (1, 3, 70, 24, 96),
    "several replicates per group": (2, 6, 33, 8, 20),
    "nothing is whole": (3, 3, 101, 37, 83),
    "several parts": (1, 2, 1100, 12, 18),
}


def plain_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows = x.reshape(len(weight), -1, x.shape[-1])
    return (rows @ weight.transpose(1, 2) + bias.unsqueeze(1)).view(*x.shape[:-1], -1)


def plain_mlp(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor) -> Tensor:
    hidden = functional.gelu(plain_linear(x, up, up_bias), approximate="tanh")
    return plain_linear(hidden, down, down_bias)


def linear_of(sizes: Sizes) -> list[Tensor]:
    """Return x, weight and bias."""
    groups, replicates, rows, inputs, outputs = sizes
    shapes = ((replicates, rows, inputs), (groups, outputs, inputs), (groups, outputs))
    return drawn(*shapes, dtype=torch.float32)


def mlp_of(sizes: Sizes) -> list[Tensor]:
    """Return x, and weights and biases of both layers."""
    groups, replicates, rows, width, hidden = sizes
    layers = ((groups, hidden, width), (groups, hidden), (groups, width, hidden), (groups, width))
    return drawn((replicates, rows, width), *layers, dtype=torch.float32)


def plain_normal(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    normal = functional.layer_norm(x, x.shape[-1:], eps=EPSILON).reshape(
        len(scale), -1, x.shape[-1]
    )
    return (normal * scale.unsqueeze(1) + shift.unsqueeze(1)).view(x.shape)


def fused_normal_linear(
    x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor
) -> Tensor | None:
    return fused_linear(x, weight, bias, NormWeights(scale, shift, EPSILON))


def plain_normal_linear(
    x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    return plain_linear(plain_normal(x, scale, shift), weight, bias)


def fused_mlp_alone(x: Tensor, *weights: Tensor) -> Tensor | None:
    return fused_mlp(x, MlpWeights(*weights), None, adds=False)


def fused_block(x: Tensor, scale: Tensor, shift: Tensor, *weights: Tensor) -> Tensor | None:
    return fused_mlp(x, MlpWeights(*weights), NormWeights(scale, shift, EPSILON), adds=True)


def plain_block(x: Tensor, scale: Tensor, shift: Tensor, *weights: Tensor) -> Tensor:
    return x + plain_mlp(plain_normal(x, scale, shift), *weights)


def with_norm(given: list[Tensor]) -> list[Tensor]:
    """Return x, scale and shift of its norm, and the weights."""
    x, *weights = given
    shape = (len(weights[0]), x.shape[-1])
    return [x, *drawn(shape, shape, dtype=torch.float32), *weights]


EPSILON = 1e-3
KINDS: dict[str, tuple[Callable[..., Tensor | None], Callable[..., Tensor], bool, bool]] = {
    "linear": (fused_linear, plain_linear, False, False),
    "norm and linear": (fused_normal_linear, plain_normal_linear, False, True),
    "MLP": (fused_mlp_alone, plain_mlp, True, False),
    "norm, MLP and sum": (fused_block, plain_block, True, True),
}
CASES = {
    f"{kind}, {name}": (fused, plain, with_norm(made) if normal else made)
    for kind, (fused, plain, is_mlp, normal) in KINDS.items()
    for name, sizes in (MLP if is_mlp else LINEAR).items()
    for made in [mlp_of(sizes) if is_mlp else linear_of(sizes)]
    if made[0].shape[-1] > 1 or not normal
}
each_case = pytest.mark.parametrize(("fused", "plain", "given"), CASES.values(), ids=list(CASES))


def computed(fused: Callable[..., Tensor | None], given: Sequence[Tensor]) -> Tensor:
    result = fused(*given)
    assert result is not None
    return result


@each_case
def test_results_and_gradients_are_those_of_torch(
    fused: Callable[..., Tensor | None], plain: Callable[..., Tensor], given: list[Tensor]
):
    exact = asking([each.double() for each in given])
    expected = plain(*exact)
    (incoming,) = drawn(tuple(expected.shape), dtype=torch.float32)
    slopes = torch.autograd.grad(expected, exact, incoming.double())
    own = asking(given)
    found = computed(fused, own)
    assert near(found, expected.detach(), 4)
    for one, right in zip(torch.autograd.grad(found, own, incoming), slopes, strict=True):
        assert near(one, right, 8)


@each_case
def test_nothing_depends_on_the_threads(
    fused: Callable[..., Tensor | None], plain: Callable[..., Tensor], given: list[Tensor]
):
    del plain
    results: list[list[Tensor]] = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        own = asking(given)
        found = computed(fused, own)
        results.append([found, *torch.autograd.grad(found.sin().sum(), own)])
    torch.set_num_threads(1)
    for others in results[1:]:
        assert all(map(torch.equal, results[0], others))


@each_case
def test_one_gradient_alone_is_the_same(
    fused: Callable[..., Tensor | None], plain: Callable[..., Tensor], given: list[Tensor]
):
    del plain
    own = asking(given)
    found = computed(fused, own)
    together = torch.autograd.grad(found.sum(), own)
    for index, expected in enumerate(together):
        alone = [each.clone() for each in given]
        alone[index].requires_grad_()
        (slope,) = torch.autograd.grad(computed(fused, alone).sum(), alone[index])
        assert torch.equal(slope, expected)
    with torch.no_grad():
        assert torch.equal(computed(fused, given), found)


def test_parts_of_larger_tensors_are_read_as_they_are():
    x, weight, bias = linear_of((2, 2, 80, 24, 40))
    wide = functional.pad(x, (3, 5))[..., 3:-5]
    turned = weight.transpose(1, 2).contiguous().transpose(1, 2)
    found = computed(fused_linear, [wide, turned, bias])
    assert not wide.is_contiguous()
    assert torch.equal(found, computed(fused_linear, [x, weight, bias]))


def test_a_layer_without_bias_has_none():
    x, weight, bias = linear_of((2, 2, 80, 24, 40))
    found = computed(fused_linear, [x, weight, None])  # pyright: ignore[reportArgumentType]
    assert near(found, plain_linear(x.double(), weight.double(), torch.zeros_like(bias)), 4)


def test_what_is_no_number_stays_in_its_rows():
    given = mlp_of((1, 1, 64, 24, 32))
    given[0][0, 5, 3] = torch.nan
    found = computed(fused_mlp_alone, given)
    assert found.isnan().any(-1).flatten().nonzero().tolist() == [[5]]


def layer(sizes: Sizes, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [each.to(dtype) for each in linear_of(sizes)]


@pytest.mark.parametrize(
    "given",
    [
        layer((2, 2, 80, 24, 40), torch.bfloat16),
        layer((2, 2, 80, 24, 40), torch.float64),
        layer((2, 2, fused_products.LEAST_ROWS - 1, 24, 40)),
        layer((2, 2, 80, 24, fused_products.LEAST_OUTPUTS - 1)),
        [linear_of((1, 1, 80, 24, 40))[0], *linear_of((2, 2, 80, 24, 40))[1:]],
    ],
    ids=["bfloat16", "float64", "few rows", "few outputs", "rows that replicates share"],
)
def test_what_the_kernels_are_not_made_for_is_left_to_torch(given: list[Tensor]):
    x, weight, bias = given
    assert fused_linear(x, weight, bias) is None


def test_large_weights_are_left_to_torch_if_they_are_trained():
    rows, inputs, outputs = 64, 1024, fused_products.LARGEST_TRAINED // 1024 + 1
    x, weight, _ = linear_of((1, 1, rows, inputs, outputs))
    assert fused_linear(x, weight.requires_grad_(), None) is None
    with torch.no_grad():
        assert fused_linear(x, weight, None) is not None
    assert fused_linear(x, weight.detach(), None) is not None


def test_on_a_processor_with_narrow_vectors_torch_computes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Kernels, "has_products", False)
    x, weight, bias = linear_of((2, 2, 80, 24, 40))
    assert fused_linear(x, weight, bias) is None


def test_without_kernels_torch_computes():
    forget_kernels()
    x, weight, bias = linear_of((2, 2, 80, 24, 40))
    assert fused_linear(x, weight, bias) is None
    assert fused_mlp_alone(*mlp_of((2, 2, 80, 24, 40))) is None
