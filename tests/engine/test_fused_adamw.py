"""A step of AdamW by a kernel, against the same step in float64."""

import math

import pytest
import torch
from tests.engine.kernel_results import drawn, near
from torch import Tensor

from adaptlab.engine.kernels.compiled import forget_kernels
from adaptlab.engine.kernels.fused_adamw import has_kernel
from adaptlab.engine.training.allocate import Gradient, Trainables
from adaptlab.engine.training.optim import AdamW

pytestmark = pytest.mark.usefixtures("kernels")

CLIP, STEPS = 1.0, 4
Shapes = tuple[tuple[int, ...], ...]
SHAPES: dict[str, Shapes] = {
    "one part": ((60,),),
    "several parts": ((3, 7), (1,), (40,), (2, 2, 2)),
    "parts within a block and across blocks": ((20, 1000), (5,), (123, 100), (7,)),
}


def gradients(replicates: int, shapes: Shapes) -> list[list[Tensor]]:
    """Return parts for every step.

    Norms are 2 and 1/2 in turn, by replicate and by step, so that only some are clipped.
    """
    scalars = sum(math.prod(shape) for shape in shapes)
    (drawn_ones,) = drawn((STEPS, replicates, scalars), dtype=torch.float32)
    norms = 2.0 ** (1 - 2 * ((torch.arange(STEPS)[:, None] + torch.arange(replicates)) % 2))
    found: list[list[Tensor]] = []
    for whole in drawn_ones * (norms / drawn_ones.norm(dim=-1)).unsqueeze(-1):
        columns = whole.split([math.prod(shape) for shape in shapes], 1)
        found.append([c.reshape(-1, *shape) for c, shape in zip(columns, shapes, strict=True)])
    return found


def moving(replicates: int, scalars: int, dtype: torch.dtype = torch.float32) -> AdamW:
    """Return the optimiser of drawn weights, some of which do not decay."""
    (weights,) = drawn((replicates, scalars), dtype=torch.float32)
    decays = (torch.arange(scalars) % 3 > 0).to(dtype)
    of_replicates = torch.linspace(0.1, 1.0, replicates).to(dtype)
    return AdamW(Trainables(weights.to(dtype), decays, {}), of_replicates, CLIP)


def after(steps: list[list[Tensor]], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return weights and moments after steps along these parts."""
    replicates = len(steps[0][0])
    optimiser = moving(replicates, sum(part[0].numel() for part in steps[0]), dtype)
    for parts in steps:
        optimiser.begin(torch.linspace(0.1, 0.3, replicates).to(dtype))
        optimiser.move(Gradient([part.to(dtype) for part in parts]))
    return [optimiser.trainables.flat, *optimiser.moments]


@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_weights_and_moments_are_those_of_float64(shapes: Shapes, replicates: int):
    steps = gradients(replicates, shapes)
    expected = after(steps, torch.float64)
    for found, exact in zip(after(steps), expected, strict=True):
        assert near(found, exact)


def test_a_gradient_may_have_any_strides():
    steps = gradients(2, ((3, 7), (4,)))
    turned = [[parts[0].transpose(1, 2).contiguous().transpose(1, 2), parts[1]] for parts in steps]
    assert not turned[0][0].is_contiguous()
    assert all(torch.equal(*pair) for pair in zip(after(turned), after(steps), strict=True))


def test_some_rows_are_moved_and_no_others():
    (parts,) = gradients(3, ((50,),))[:1]
    whole, some = moving(3, 50), moving(3, 50)
    rates = torch.tensor([0.1, 0.2, 0.3])
    whole.step(parts[0], rates)
    some.begin(rates)
    before = some.trainables.flat.clone()
    some.move(Gradient([parts[0][1:]]), slice(1, 3))
    assert torch.equal(some.trainables.flat[1:], whole.trainables.flat[1:])
    assert torch.equal(some.trainables.flat[0], before[0])


def test_what_is_not_a_number_stays_in_its_replicate():
    steps = gradients(2, ((20, 1000),))
    whole = after(steps)
    steps[-1][0][1, 3, 4] = torch.nan
    found = after(steps)
    assert all(torch.equal(f[0], w[0]) for f, w in zip(found, whole, strict=True))
    assert found[0][1].isnan().all(), "as torch: the norm of its gradient is none"


def test_nothing_depends_on_the_threads():
    steps, ends = (
        gradients(3, SHAPES["parts within a block and across blocks"]),
        list[list[Tensor]](),
    )
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        ends.append(after(steps))
    torch.set_num_threads(1)
    for others in ends[1:]:
        assert all(torch.equal(*pair) for pair in zip(ends[0], others, strict=True))


def test_only_float32_with_a_compiler_has_a_kernel():
    weights = torch.zeros(2, 3)
    assert has_kernel(weights)
    assert not has_kernel(weights.double())
    assert not has_kernel(weights.bfloat16())
    forget_kernels()
    assert not has_kernel(weights)
