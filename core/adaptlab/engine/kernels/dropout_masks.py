"""Masks of dropout: where values are zeroed, drawn from counters."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.kernels.counter import constant, random_bits
from adaptlab.engine.tensors import Bool, Float, Int

_BITS = 63


@dataclass(frozen=True)
class Masks:
    """The masks of one site in one step.

    A value is zeroed with probability `rate`. `step` and `seeds` are those of the step and its
    replicates, `stream` the number of the site's draws. The values are the `rows` of `length`
    positions, from item `first_item` of the batch on; a position's mask does not depend on which
    rows are computed. Replicates of one seed share masks.
    """

    rate: float
    stream: int
    step: Int[Tensor, ""]
    seeds: Int[Tensor, "R"]
    first_item: int
    length: int
    rows: slice

    @property
    def below(self) -> int:
        """The draw below which a value is zeroed."""
        return int(self.rate * 2**_BITS)

    def zeroed(self, x: Float[Tensor, "R B *H Q C"]) -> Bool[Tensor, "R B *H Q C"]:
        """Return a mask of the values of x that are zeroed."""
        shape = (*x.shape[2:-2], self.length, x.shape[-1])
        cells = torch.arange(math.prod(shape), device=x.device).view(shape)[..., self.rows, :]
        items = torch.arange(self.first_item, self.first_item + x.shape[1], device=x.device)
        wide = (1,) * cells.dim()
        bits = random_bits(
            constant(self.stream, x.device),
            self.step,
            self.seeds.view(-1, 1, *wide),
            items.view(-1, *wide),
            cells,
        )
        return bits < self.below

    def applied(self, x: Float[Tensor, "R B *H Q C"]) -> Float[Tensor, "R B *H Q C"]:
        """Return x with values zeroed and the others scaled up."""
        return (x / (1 - self.rate)).masked_fill(self.zeroed(x), 0.0)
