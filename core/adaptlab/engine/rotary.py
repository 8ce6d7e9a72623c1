"""Rotary positions (Su et al. 2021): pairs of features turn by angles that grow with position."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rotary:
    """Cosines and sines [N, D/2] of the positions from `first` on.

    The features i and i + D/2 of a head make a pair, as in published weights.
    """

    first: int
    cosines: Tensor
    sines: Tensor

    @classmethod
    def over(cls, first: int, stop: int, frequencies: tuple[float, ...], like: Tensor) -> Self:
        """The angles of the positions `first` to `stop`, in the dtype and place of `like`."""
        exact = torch.promote_types(like.dtype, torch.float32)  # angles are many digits long
        positions = torch.arange(first, stop, device=like.device, dtype=exact)
        turns = torch.tensor(frequencies, device=like.device, dtype=exact)
        angles = positions.unsqueeze(1) * turns
        return cls(first, angles.cos().to(like.dtype), angles.sin().to(like.dtype))

    def turned(self, x: Tensor, first: int, rows: slice) -> Tensor:
        """Turn x [..., N, D], which holds `rows` of the positions from `first` on.

        A single row of positions is taken for all of x.
        """
        count = x.shape[-2]
        start = first - self.first
        cosines, sines = (t[start:][rows][:count] for t in (self.cosines, self.sines))
        low, high = x.chunk(2, -1)
        return torch.cat([low * cosines - high * sines, high * cosines + low * sines], -1)
