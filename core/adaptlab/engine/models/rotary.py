"""Rotary positions (Su et al. 2021): rotations of pairs of features."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.tensors import Float, Int


@dataclass(frozen=True)
class Rotary:
    """Cosines and sines [N, D/2] of the positions from `first` on.

    Features i and i + D/2 of a head are a pair, as in published weights.
    """

    first: int
    cosines: Float[Tensor, "N F"]
    sines: Float[Tensor, "N F"]

    @classmethod
    def over(cls, first: int, stop: int, frequencies: tuple[float, ...], like: Tensor) -> Self:
        """Return the rotations of positions `first` to `stop`.

        Dtype and device are those of `like`.
        """
        exact = torch.promote_types(like.dtype, torch.float32)  # bfloat16 is too coarse for angles
        positions = torch.arange(first, stop, device=like.device, dtype=exact)
        angles = positions.unsqueeze(1) * _turns(frequencies, like.device, exact)
        return cls(first, angles.cos().to(like.dtype), angles.sin().to(like.dtype))

    def turned(
        self, x: Float[Tensor, "*H N D"], first: int, rows: slice
    ) -> Float[Tensor, "*H N D"]:
        """Rotate x, which holds `rows` of the positions from `first` on.

        If `rows` selects a single position, all of x is rotated by it.
        """
        count = x.shape[-2]
        start = first - self.first
        cosines, sines = (t[start:][rows][:count] for t in (self.cosines, self.sines))
        return _rotated(x, cosines, sines)

    def at(self, positions: Int[Tensor, "R C"]) -> "RowTurns":
        """Return the rotations of one position of each item."""
        cosines, sines = (
            t[positions - self.first][:, :, None, None] for t in (self.cosines, self.sines)
        )
        return RowTurns(cosines, sines)


@dataclass(frozen=True)
class RowTurns:
    """Cosines and sines of one position of each item."""

    cosines: Float[Tensor, "R C 1 1 F"]
    sines: Float[Tensor, "R C 1 1 F"]

    def turned(
        self, x: Float[Tensor, "R C H 1 D"], first: int, rows: slice
    ) -> Float[Tensor, "R C H 1 D"]:
        """Rotate x, whatever its position in the stream."""
        return _rotated(x, self.cosines, self.sines)


def _rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return torch.cat([low * cosines - high * sines, high * cosines + low * sines], -1)


@lru_cache(maxsize=8)  # copied to a GPU once: every pass of a training would wait for the copy
def _turns(
    frequencies: tuple[float, ...], device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "F"]:
    """Return frequencies on a device."""
    return torch.tensor(frequencies, device=device, dtype=dtype)
