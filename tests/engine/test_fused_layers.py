"""Layers that read the same input by one kernel, against torch in float64."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from tests.engine.kernel_results import asking, drawn, near
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import fused_products
from adaptlab.engine.kernels.fused_products import LinearWeights, NormWeights, fused_layers

pytestmark = pytest.mark.usefixtures("products")

EPSILON = 1e-3


@dataclass(frozen=True)
class Case:
    """Sizes, and the rows that the last layer and what is passed on are of."""

    groups: int
    replicates: int
    items: int
    length: int
    inputs: int
    outputs: tuple[int, ...]
    some: slice
    factor: float = 1.0
    has_norm: bool = True
    has_biases: bool = True

    def given(self) -> list[Tensor]:
        """x, scale and shift of its norm, and weight and bias of every layer."""
        of_norm = (self.groups, self.inputs)
        layers = [
            shape
            for outputs in self.outputs
            for shape in ((self.groups, outputs, self.inputs), (self.groups, outputs))
        ]
        x = (self.replicates, self.items, self.length, self.inputs)
        return drawn(x, of_norm, of_norm, *layers, dtype=torch.float32)

    def asked(self, given: Sequence[Tensor]) -> list[Tensor]:
        """Of what is given, those that the results depend on."""
        of_norm = given[1:3] if self.has_norm else ()
        return [given[0], *of_norm, *(given[3:] if self.has_biases else given[3::2])]

    def results(self, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Those of the kernel."""
        x, scale, shift, *weights = given
        last = len(self.outputs) - 1
        layers = [
            LinearWeights(
                weight,
                bias if self.has_biases else None,
                self.factor if number == last else 1.0,
                reads_some=number == last and last > 0,
            )
            for number, (weight, bias) in enumerate(zip(weights[::2], weights[1::2], strict=True))
        ]
        norm = NormWeights(scale, shift, EPSILON) if self.has_norm else None
        found = fused_layers(x, layers, norm, self.some)
        assert found is not None
        return found

    def plain(self, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Those of torch, in the precision of what is given."""
        x, scale, shift, *weights = given
        rows = x.reshape(self.groups, -1, self.inputs)
        if self.has_norm:
            rows = functional.layer_norm(rows, (self.inputs,), eps=EPSILON)
            rows = rows * scale.unsqueeze(1) + shift.unsqueeze(1)
        found = [x[:, :, self.some]]
        for weight, bias in zip(weights[::2], weights[1::2], strict=True):
            product = rows @ weight.transpose(1, 2)
            product = product + bias.unsqueeze(1) if self.has_biases else product
            found.append(product.view(*x.shape[:-1], -1))
        if len(self.outputs) > 1:
            found[-1] = found[-1][:, :, self.some]
        found[-1] = found[-1] * self.factor
        return tuple(found)


CASES = {
    "whole tiles": Case(2, 2, 10, 19, 64, (64, 64, 64), slice(9, None), 0.125),
    "nothing is whole": Case(3, 3, 11, 7, 37, (19, 21, 83), slice(2, None), 0.3),
    "rows from the middle": Case(2, 2, 40, 13, 24, (16, 16, 24), slice(4, 9), 3.0),
    "the last row": Case(2, 4, 50, 9, 16, (8, 8, 16), slice(8, 9), 0.5),
    "all rows": Case(2, 2, 9, 19, 40, (24, 24, 48), slice(None), 0.25),
    "several parts, which divide items": Case(1, 2, 130, 17, 16, (8, 9, 12), slice(5, None), 0.7),
    "several replicates per group": Case(2, 6, 9, 11, 24, (24, 24, 24), slice(3, None), 0.2),
    "no norm": Case(2, 2, 20, 7, 24, (24, 24, 40), slice(3, None), 0.2, has_norm=False),
    "no norm, all rows": Case(2, 2, 20, 7, 24, (24, 40), slice(None), 0.2, has_norm=False),
    "no biases": Case(2, 2, 20, 7, 24, (24, 24, 40), slice(3, None), 0.2, has_biases=False),
    "one layer": Case(2, 2, 20, 7, 24, (40,), slice(3, None), 0.2),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


@each_case
def test_results_and_gradients_are_those_of_torch(case: Case):
    exact = [each.double() for each in asking(case.given())]
    expected = case.plain(exact)
    incoming = drawn(*(tuple(each.shape) for each in expected), dtype=torch.float32)
    slopes = torch.autograd.grad(expected, case.asked(exact), [g.double() for g in incoming])
    own = asking(case.given())
    results = case.results(own)
    for found, right in zip(results, expected, strict=True):
        assert near(found, right.detach(), 4)
    for found, right in zip(
        torch.autograd.grad(results, case.asked(own), incoming), slopes, strict=True
    ):
        assert near(found, right, 8)


@each_case
def test_results_that_nothing_depends_on_add_nothing_to_gradients(case: Case):
    for used in range(1 + len(case.outputs)):
        exact = asking([each.double() for each in case.given()])
        own = asking(case.given())
        right = torch.autograd.grad(
            case.plain(exact)[used].square().sum(), case.asked(exact), allow_unused=True
        )
        found = torch.autograd.grad(
            case.results(own)[used].square().sum(), case.asked(own), allow_unused=True
        )
        for one, expected in zip(found, right, strict=True):
            if expected is None:
                assert one is None or not one.any()
            else:
                assert one is not None
                assert near(one, expected, 16)


@each_case
def test_one_gradient_alone_is_the_same(case: Case):
    own = asking(case.given())
    together = torch.autograd.grad([each.sum() for each in case.results(own)], case.asked(own))
    for index, expected in enumerate(together):
        alone = [each.clone() for each in case.given()]
        asked = case.asked(alone)[index].requires_grad_()
        (slope,) = torch.autograd.grad([each.sum() for each in case.results(alone)], asked)
        assert torch.equal(slope, expected)


@each_case
def test_nothing_depends_on_the_threads(case: Case):
    ends: list[list[Tensor]] = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        own = asking(case.given())
        results = case.results(own)
        loss = torch.stack([each.sin().sum() for each in results]).sum()
        ends.append([*results, *torch.autograd.grad(loss, case.asked(own))])
    torch.set_num_threads(1)
    for others in ends[1:]:
        assert all(map(torch.equal, ends[0], others))


def test_weights_in_a_flat_buffer_are_read_where_they_are():
    case = CASES["nothing is whole"]
    x, *weights = case.given()
    flat = torch.cat([each.flatten(1) for each in weights], 1)
    starts = flat.split([each[0].numel() for each in weights], 1)
    views = [part.view(each.shape) for part, each in zip(starts, weights, strict=True)]
    assert not any(view.is_contiguous() for view in views)
    assert all(fused_products._by_group(view) is view for view in views)
    assert all(map(torch.equal, case.results([x, *views]), case.results([x, *weights])))


@pytest.mark.parametrize("some", [slice(None, None, 2), slice(3, 3), slice(5, 2)])
def test_rows_that_are_apart_or_none_are_left_to_torch(some: slice):
    x, weight, bias = drawn((2, 20, 7, 24), (2, 40, 24), (2, 40), dtype=torch.float32)
    assert fused_layers(x, [LinearWeights(weight, bias)], None, some) is None


def test_weights_that_differ_in_their_groups_are_left_to_torch():
    x, one, other = drawn((2, 20, 7, 24), (2, 40, 24), (1, 40, 24), dtype=torch.float32)
    layers = [LinearWeights(one, None), LinearWeights(other, None)]
    assert fused_layers(x, layers, None, slice(None)) is None
