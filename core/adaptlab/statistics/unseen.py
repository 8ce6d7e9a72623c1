"""Evidence about a mean over all seeds, with unseen failures.

A seed's score lies between 0 and 1. If seeds of one method can fail, a few of them can all succeed
by chance, and their mean then exceeds the true one by any amount. The likelihood ratio below
compares the seeds that were run with the most likely distribution of scores on [0, 1] with a given
mean, of any shape. It is Owen's (Empirical Likelihood, 2001), with 0 and 1 added to the support.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELLS = 256
"""Intervals between the means at which evidence is tabulated, narrower towards 0 and 1."""
HALVINGS = 15
NEWTON_STEPS = 3
NEAREST_END = 1e-7


@dataclass(frozen=True, eq=False)
class LikelihoodRatios:
    """Log likelihood ratios of seeds' scores against means, [mean].

    The means are those of `means()`. `above` is against means of at most this value, `below`
    against means of at least this value. With n equal scores a, `above` is n ln(a / μ) for μ < a:
    under the most likely explanation, a share μ / a of all seeds scores a, and the others fail
    unseen.
    """

    mean: float
    above: NDArray[np.float64]
    below: NDArray[np.float64]

    def limits(self, level: float) -> tuple[float, float]:
        """Return the limits of the mean over all seeds at confidence `level`."""
        most = math.log(2 / (1 - level))
        return (
            min(self.mean, _first_below(self.above, most)),
            max(self.mean, 1 - _first_below(self.below[::-1], most)),
        )


def evidence(scores: NDArray[np.float64]) -> LikelihoodRatios:
    """Return the evidence of seeds' scores [seed], each between 0 and 1."""
    return LikelihoodRatios(
        mean=float(scores.mean()),
        above=_log_ratios(scores),
        below=_log_ratios(1 - scores)[::-1],  # the means are symmetric about one half
    )


@functools.cache
def means() -> NDArray[np.float64]:
    """Return the means at which evidence is tabulated, inside (0, 1)."""
    inside = np.sin(np.linspace(0, math.pi / 2, CELLS + 1)) ** 2
    return np.clip(inside, NEAREST_END, 1 - NEAREST_END)


def _log_ratios(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log likelihood ratio of scores for each mean μ.

    It is the largest sum of ln(1 - λ + λ x / μ) over λ in [0, 1]; 0 from x̄ on.
    """
    gains = scores[None, :] / means()[:, None] - 1  # [mean, seed]
    share = np.where(gains.sum(axis=1) > 0, 1.0, 0.0)
    with np.errstate(divide="ignore"):  # at λ = 1 a score of 0 has the slope -∞
        is_inside = (share == 1) & ((gains / (1 + gains)).sum(axis=1) < 0)
    share[is_inside] = _best_shares(gains[is_inside])
    return np.maximum(0.0, np.log1p(share[:, None] * gains).sum(axis=1))


def _best_shares(gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the λ [mean] at which the sum of ln(1 + λ gain) is largest.

    The slope of the sum falls from above 0 at λ = 0 to below 0 at λ = 1. Halvings come near its
    zero, from where Newton's steps converge; one that would leave the last interval is not taken.

    Args:
        gains: [mean, seed].
    """
    low, high = np.zeros(len(gains)), np.ones(len(gains))
    share = last = high / 2
    for step in range(HALVINGS + NEWTON_STEPS):
        slopes = gains / (1 + share[:, None] * gains)
        slope = slopes.sum(axis=1)
        low, high = np.where(slope > 0, share, low), np.where(slope > 0, high, share)
        share = (low + high) / 2
        if step >= HALVINGS:
            newton = last + slope / (slopes**2).sum(axis=1)
            share = np.where((newton > low) & (newton < high), newton, share)
        last = share
    return share


def _first_below(falling: NDArray[np.float64], most: float) -> float:
    """Return the mean from which on the evidence is at most `most`.

    The evidence falls along `means()`.
    """
    if falling[0] <= most:
        return 0.0
    return float(np.interp(-most, -falling, means()))
