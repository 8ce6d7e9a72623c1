"""The interval of a weighted mean over several tasks' items."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.intervals import Interval, interval_of
from adaptlab.statistics.scores import Outcomes
from adaptlab.statistics.spread import spread
from adaptlab.statistics.unseen import evidence

ROUNDING = 1e-6


def group_interval(outcomes: Sequence[Outcomes], *, by_size: bool, level: float = 0.95) -> Interval:
    """Return the mean score over tasks, with its interval.

    It is that of `mean_interval` for all tasks' items together, each with the weight that it has in
    the mean. Tasks differ, which the items then do too, so the interval is rather too wide.

    Args:
        outcomes: ones and zeros, [seed, item], of each task for the same seeds.
        by_size: whether tasks weigh by their items; otherwise they are equal.
        level: the confidence.
    """
    sizes = [rows.shape[1] for rows in outcomes]
    weights = [float(size) if by_size else 1.0 for size in sizes]
    means = np.array([_mean(seed, weights) for seed in zip(*outcomes, strict=True)])
    of_item = np.repeat(np.array(weights) / np.array(sizes), sizes)
    of_item *= of_item.size / of_item.sum()
    deviations = of_item * (np.concatenate(outcomes, axis=1) - means[:, None])
    found = spread(means[:, None] + deviations)
    items = _effective_items(of_item, deviations, means)
    return interval_of(
        replace(found, mean=float(means.mean()), items=items), means, evidence(means), level
    )


def _mean(of_tasks: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> float:
    """Return the weighted mean over tasks, rounded as lm-eval rounds it."""
    shares = [float(items.sum()) / len(items) for items in of_tasks]
    weighted = [share * weight for share, weight in zip(shares, weights, strict=True)]
    return sum(weighted) / sum(weights)


def _effective_items(
    weights: NDArray[np.float64], deviations: NDArray[np.float64], means: NDArray[np.float64]
) -> int:
    """Return the number of equal items that tell as much (Kish 1965).

    Those of a single seed are at most as many as have the variance of its mean.
    """
    items = weights.size**2 / float(weights @ weights)
    if len(means) == 1 and 0 < (mean := float(means[0])) < 1:
        squares = float(np.square(deviations).sum())
        items = min(items, mean * (1 - mean) * weights.size**2 / squares)
    return max(1, math.floor(items + ROUNDING))
