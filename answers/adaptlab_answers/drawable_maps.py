"""Checks on stored attention maps before they are drawn.

Earlier versions stored maps without checking their shape.
"""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, TypeVar

from adaptlab.runs.reported_attention import NUMBER_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = TypeVar("Number", "np.float16", "np.float64")

AXES = 5
MOST_CHOICES = 1024
"""Maximum number of samples, of layers and of heads that a page offers."""
MOST_CELLS = 2**20
"""Maximum number of weights in one pattern: one head on one sample."""


def is_drawable(shape: Sequence[int], size: int, learned: int, target_start: int) -> bool:
    """Return True if a map of this shape can be drawn and fits `size` bytes."""
    if len(shape) != AXES or min(shape) < 1 or max(shape[:3]) > MOST_CHOICES:
        return False
    rows, keys = shape[3:]
    is_whole = NUMBER_BYTES * prod(shape) < size
    is_small = rows * keys <= MOST_CELLS
    return is_whole and is_small and 0 <= learned <= keys - 1 and 0 <= target_start < rows


def without_padding(weights: "NDArray[Number]") -> "NDArray[Number]":
    """Return the weights of one sample without the zeros behind a text.

    The last axes are query and key; every other row sums to one.
    """
    rows, keys = weights.shape[-2:]
    totals = weights.reshape(-1, rows, keys).sum((0, 2)).tolist()
    padding = next((n for n, total in enumerate(reversed(totals)) if total), 0)
    return weights[..., : rows - padding, : keys - padding]


def has_samples(shape: Sequence[int], learned: int, tokens: Sequence[Sequence[int]]) -> bool:
    """Return True if every sample has tokens, one per position at most."""
    samples, _, _, _, keys = shape
    return len(tokens) == samples and all(0 < len(row) <= keys - learned for row in tokens)
