"""The number of more seeds after which one method should be the only best.

It is predicted: scores of further seeds are drawn from what the seeds that were run leave possible
(their means from Student's t, their variances from the inverse chi-square), and the number is the
least one at which four of five of these futures leave one method in the set.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from adaptlab.statistics.distributions import student_quantile
from adaptlab.statistics.leads import FEWEST_SEEDS, unit_quantile
from adaptlab.statistics.samples import Sample, item_variance

POWER = 0.8
MOST_SEEDS = 64
"""The seeds that one job can have; an order that needs more is not worth the attempt."""
FUTURES = 400
FEWEST_MEASURED = 3
"""Fewer seeds say too little about their variance."""
LEAST_DEVIATION = 1e-3
"""Seeds that all score alike may still differ by a tenth of a point."""


def more_seeds(candidates: Sequence[Sample], tail: float) -> int | None:
    """Return the further seeds that should leave one best method.

    Args:
        candidates: the methods that may be the best, at least two.
        tail: the error of one comparison.

    Returns:
        None if 64 seeds in all are not expected to settle it, or if too few were run to tell.
    """
    run = min(one.seeds for one in candidates)
    if run < FEWEST_MEASURED:
        return max(1, FEWEST_SEEDS - run)
    generator = np.random.Generator(np.random.Philox(0))
    futures = [_futures(one, generator) for one in candidates]
    items = _items(candidates)
    least = max(1, FEWEST_SEEDS - run)
    for more in _steps(least, MOST_SEEDS - run):
        if _settled(candidates, futures, items, more, tail) >= POWER:
            return more
    return None


def _steps(least: int, most: int) -> list[int]:
    """Return the numbers that are tried: all small ones, then ever fewer."""
    steps = [least]
    while steps[-1] < most:
        steps.append(min(most, steps[-1] + 1 + steps[-1] // 8))
    return [step for step in steps if step <= most]


def _futures(sample: Sample, generator: Generator) -> NDArray[np.float64]:
    """Return possible means, deviations and noise of a method, [3, future]."""
    freedom = sample.seeds - 1
    variance = max(float(sample.values.var(ddof=1)), LEAST_DEVIATION**2)
    variances = variance * freedom / generator.chisquare(freedom, FUTURES)
    means = sample.mean + np.sqrt(variances / sample.seeds) * generator.standard_normal(FUTURES)
    # Further seeds are drawn once for every number of them: the same noise, scaled.
    return np.stack([means, np.sqrt(variances), generator.standard_normal(FUTURES)])


def _settled(
    candidates: Sequence[Sample],
    futures: Sequence[NDArray[np.float64]],
    items: NDArray[np.float64],
    more: int,
    tail: float,
) -> float:
    """Return the share of futures in which the highest beats all others."""
    means = np.stack([_later_means(*two, more) for two in zip(candidates, futures, strict=True)])
    seeds = np.array([[one.seeds + more] for one in candidates])
    of_means = np.stack([future[1] for future in futures]) ** 2 / seeds
    first = means.argmax(axis=0)
    place = np.arange(FUTURES)
    lead = means[first, place] - means  # [candidate, future]
    reach = _reach(min(one.seeds for one in candidates) + more, candidates[0].units, tail)
    seed_part = reach[0] ** 2 * (of_means[first, place] + of_means)
    shown = lead**2 > seed_part + reach[1] ** 2 * items[:, first]
    shown[first, place] = True
    return float(shown.all(axis=0).mean())


def _later_means(sample: Sample, future: NDArray[np.float64], more: int) -> NDArray[np.float64]:
    """Return the means over all seeds once `more` have been run, [future]."""
    new = future[0] + future[1] * future[2] / math.sqrt(more)
    return (sample.seeds * sample.mean + more * new) / (sample.seeds + more)


def _items(candidates: Sequence[Sample]) -> NDArray[np.float64]:
    """Return the variance of items of each pair, [candidate, candidate]."""
    return np.array([[item_variance(a, b) for b in candidates] for a in candidates])


@functools.lru_cache(maxsize=1024)
def _reach(seeds: int, units: int, tail: float) -> tuple[float, float]:
    """Return the quantiles of seeds and of units that a lead must exceed."""
    return student_quantile(2 * seeds - 2, 1 - tail), unit_quantile(units, tail)
