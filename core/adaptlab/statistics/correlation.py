"""Rank correlation, with limits over pairs or over replicates."""

import math
from collections.abc import Sequence

import numpy as np

from adaptlab.statistics.distributions import student_quantile

NORMAL = 1.959963984540054
"""The quantile of the normal distribution for a level of 95 %."""
LEVEL = 0.95


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rho; ties get mean ranks.

    None if all values of one side are equal.
    """
    x, y = (_ranks(np.asarray(values, float)) for values in (first, second))
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return None if scale == 0 else float(x @ y) / scale


def rho_limits(rhos: Sequence[float], pairs: int) -> tuple[float, float]:
    """Return the 95 % limits of rho over replicates like those measured.

    They are Student's, of Fisher's transform. With one replicate they are over pairs alone (Bonett
    and Wright 2000), as if pairs were independent.
    """
    # Half of the step to the next value, because the transform of 1 is infinite.
    most = 1 - 6 / (pairs**3 - pairs)
    values = [math.atanh(max(-most, min(most, rho))) for rho in rhos]
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        reach = NORMAL * math.sqrt((1 + rhos[0] ** 2 / 2) / (pairs - 3))
    else:
        variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
        quantile = student_quantile(count - 1, (1 + LEVEL) / 2)
        reach = quantile * math.sqrt(variance / count)
    return math.tanh(mean - reach), math.tanh(mean + reach)


def _ranks(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> np.ndarray:
    """Return the ranks from 1, with the mean rank for ties."""
    order = values.argsort(kind="stable")
    _, place, counts = np.unique(values[order], return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    ranks = np.empty(len(values))
    ranks[order] = ((ends - counts + 1 + ends) / 2)[place]
    return ranks
