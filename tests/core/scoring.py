"""Scores from matrices, or from nothing but a number of right items."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics import Scores


def scores(
    right: NDArray[np.bool_] | Sequence[Sequence[int]],
    method: str = "lora",
    *,
    budget: int | None = None,
    parameters: int | None = None,
    trials: int | None = None,
    first_seed: int = 0,
) -> Scores:
    """Return the scores of a method.

    `right` [seed, item] says what the method got right.
    """
    rows = np.asarray(right, dtype=bool)
    return Scores(
        method=method,
        budget=budget,
        parameters=parameters,
        trials=trials,
        seeds=tuple(range(first_seed, first_seed + len(rows))),
        items=rows.shape[1],
        outcomes=tuple(np.packbits(row).tobytes().hex() for row in rows),
    )


def drawn(
    accuracies: Sequence[float], items: int = 1000, method: str = "lora", key: int = 0, **more: int
) -> Scores:
    """Scores of seeds with the given chances, from a generator of that key."""
    generator = np.random.Generator(np.random.Philox(key=key))
    chances = np.asarray(accuracies)[:, None]
    return scores(generator.random((len(accuracies), items)) < chances, method, **more)
