"""The GELU of bfloat16 against torch's, at every bfloat16 number.

Torch computes in float64.
"""

import pytest
import torch
from torch.nn import functional

from adaptlab.engine.kernels import activations
from adaptlab.engine.kernels.activations import gelu

HALF_STEP = 2.0**-8
"""The largest relative error of rounding to eight binary digits."""


def every_number() -> torch.Tensor:
    """All finite bfloat16 numbers below 10^12, whose cube float32 still holds."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(torch.bfloat16)
    return numbers[numbers.float().abs() < 1e12]


@pytest.mark.parametrize("at_once", [1000, 2**16])
def test_value_and_slope_are_rounded_once(monkeypatch: pytest.MonkeyPatch, at_once: int):
    monkeypatch.setattr(activations, "AT_ONCE", at_once)
    x = every_number()
    exact = x.double().requires_grad_()
    expected = functional.gelu(exact, approximate="tanh")
    (slope,) = torch.autograd.grad(expected.sum(), exact)
    x.requires_grad_()
    found = gelu(x)
    (found_slope,) = torch.autograd.grad(found, x, torch.ones_like(found))
    # float32 loses the difference of 1 and tanh where that is small: beyond -4 nothing is left.
    near = 1e-6 + 1.01 * HALF_STEP * expected.detach().abs()
    assert bool(((found.double() - expected).abs() <= near).all())
    near = 1e-6 + 1.01 * HALF_STEP * slope.abs()
    assert bool(((found_slope.double() - slope).abs() <= near).all())


def test_the_gradient_is_what_comes_in_times_the_slope():
    generator = torch.Generator().manual_seed(5)
    x, incoming = (torch.randn(3, 40, generator=generator).bfloat16() for _ in range(2))
    exact = x.double().requires_grad_()
    (expected,) = torch.autograd.grad(
        functional.gelu(exact, approximate="tanh"), exact, incoming.double()
    )
    x.requires_grad_()
    (found,) = torch.autograd.grad(gelu(x.transpose(0, 1)).transpose(0, 1), x, incoming)
    assert torch.allclose(found.double(), expected, rtol=3 * HALF_STEP, atol=1e-6)


def test_without_a_gradient_the_value_is_the_same():
    x = torch.linspace(-5, 5, 101).bfloat16().requires_grad_()
    with torch.no_grad():
        alone = gelu(x)
    assert not alone.requires_grad
    assert torch.equal(alone, gelu(x).detach())
