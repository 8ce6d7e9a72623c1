"""Outcomes of items, as evaluations keep them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adaptlab.runs.events import Evaluation


def outcomes_of(scored: Sequence[Evaluation]) -> NDArray[np.float64]:
    """Return ones and zeros, [evaluation, item], of the same items."""
    packed = np.frombuffer(bytes.fromhex("".join(one.outcomes for one in scored)), np.uint8)
    items = scored[0].total
    bits = np.unpackbits(packed.reshape(len(scored), -1), axis=1, count=items)
    return bits.astype(np.float64)
