"""Gain and retention of the same seeds, and dominated methods."""

import math
from dataclasses import dataclass

import numpy as np

from adaptlab.statistics.leads import ERROR, lead, two_part_tail
from adaptlab.statistics.samples import Sample, item_variance, shifted
from adaptlab.values import Value

FEWEST_FOR_REGION = 4
"""With three seeds, a joint region is some 30 standard errors wide and says nothing."""


@dataclass(frozen=True, eq=False)
class Position:
    """A method's gain and retention, with the same seeds in order."""

    gain: Sample
    retention: Sample


class Region(Value):
    """An ellipse: the points z with (z - centre)' M⁻¹ (z - centre) at most 1.

    M has `gain` and `retention` on its diagonal and `joint` beside it.
    """

    gain: float
    retention: float
    joint: float

    def outline(self, points: int = 60) -> list[tuple[float, float]]:
        """Return offsets (retention, gain) of its edge from the centre, in turn."""
        matrix = np.array([[self.retention, self.joint], [self.joint, self.gain]])
        values, vectors = np.linalg.eigh(matrix)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        angles = np.linspace(0, 2 * math.pi, points)
        edge = root @ np.stack([np.cos(angles), np.sin(angles)])
        return [(float(x), float(y)) for x, y in edge.T]


def joint_region(position: Position, level: float) -> Region | None:
    """Return where the mean gain and retention of other seeds and items lie.

    Both axes share seeds, not items: the covariance of seeds gets Hotelling's T² (1931), and the
    separate item parts the quantile of chi-squared, as the parts of an interval have a quantile
    each (Graybill and Wang 1980). None with fewer than four seeds.
    """
    seeds = position.gain.seeds
    if seeds < FEWEST_FOR_REGION:
        return None
    values = np.stack([position.gain.values, position.retention.values])
    of_mean = np.cov(values) / seeds
    # F with 2 and m degrees of freedom has the tail (1 + 2 F / m)^(-m / 2).
    freedom, tail = seeds - 2, 1 - level
    quantile = freedom / 2 * (tail ** (-2 / freedom) - 1)
    by_seeds = 2 * (seeds - 1) / freedom * quantile
    by_items = -2 * math.log(tail)
    return Region(
        gain=by_seeds * float(of_mean[0, 0]) + by_items * position.gain.of_items,
        retention=by_seeds * float(of_mean[1, 1]) + by_items * position.retention.of_items,
        joint=by_seeds * float(of_mean[0, 1]),
    )


def domination(better: Position, worse: Position, margin: float) -> float:
    """Return the p-value of "`worse` is dominated by `better`".

    It is dominated if its seeds gain or retain less, and on neither axis more by the `margin`. Not
    to be better by the margin is tested on both axes, each at the whole error
    (intersection-union, Berger 1982); to be worse on one of two axes counts twice.
    """
    pairs = ((better.gain, worse.gain), (better.retention, worse.retention))
    not_better = (_tail(shifted(ours, margin), theirs) for ours, theirs in pairs)
    less = min(_leads(ours, theirs) for ours, theirs in pairs)
    return max(*not_better, min(1.0, 2 * less))


def _leads(first: Sample, second: Sample) -> float:
    """Return the tail of a lead that holds for seeds of any law, else 1."""
    tests = lead(first, second)
    return tests.two_part if tests.holds(ERROR) else 1.0


def _tail(first: Sample, second: Sample) -> float:
    if first.mean <= second.mean or min(first.seeds, second.seeds) < 2:
        return 1.0
    return two_part_tail(first, second, item_variance(first, second))
