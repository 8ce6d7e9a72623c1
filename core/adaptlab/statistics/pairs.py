"""Two methods on the same items: their difference, and the test of it."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from adaptlab.plugins.metric import is_share, lowest_is_best
from adaptlab.statistics.leads import two_part_tail
from adaptlab.statistics.samples import Sample, item_variance, sample_of
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.typical import typical_limits, unshared_limits
from adaptlab.values import Value

Probability = Annotated[float, Field(ge=0, le=1)]


class PairedDifference(Value):
    """The difference of `first` minus `second` on the same items.

    `difference` is that of the mean scores over shared seeds, as a share of items (0.01 is one
    point). In a table by another `metric` it is on the scale of its tests, where more is better:
    points of a share, or nats per token of a perplexity. `low` and `high` limit the difference of a
    typical seed on new items at confidence `level`, for this pair alone (`typical.typical_limits`).
    `p_value` is that of Welch's test over seeds and items, two-sided and uncorrected; None with one
    seed. `seeds` are those that both have. `seed_part` is the part of the difference's variance
    that more seeds reduce, and `item_part` the part that they do not.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    level: float
    p_value: Probability | None
    seeds: int
    items: int
    seed_part: float
    item_part: float
    metric: str | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The limits in the order of the metric's values."""
        return (self.high, self.low) if lowest_is_best(self.metric) else (self.low, self.high)

    def with_zero(self) -> "PairedDifference":
        """Return the difference with limits widened to 0: no order is shown."""
        return self.model_copy(update={"low": min(self.low, 0.0), "high": max(self.high, 0.0)})

    def up_to_zero(self) -> "PairedDifference":
        """Return the difference with limits that end at 0: the second is ahead.

        If seeds of one beat the other's more often than not, the median difference is above 0. That
        is shown by other tests than the limits come from, so the limits may still contain 0.
        """
        return self.model_copy(update={"high": min(self.high, max(self.difference, 0.0))})


def paired_difference(
    first: Scores,
    second: Scores,
    level: float = 0.95,
    sampling: Callable[[Scores], Sample] = sample_of,
    metric: str | None = None,
) -> PairedDifference:
    """Return the difference of two methods, with its limits.

    Args:
        first: the scores of the first method.
        second: those of the second, on the same items.
        level: the confidence of the limits.
        sampling: returns a method's sample; pass one that remembers if a method is in many pairs.
        metric: the metric of the samples if it is not the share of right items.

    Raises:
        ValueError: the numbers of items differ.
    """
    if first.items != second.items:
        raise ValueError(
            f"{first.label} was scored on {first.items:,} items and {second.label} on "
            f"{second.items:,}; score both on the same items."
        )
    shared = shared_seeds(first, second)
    ours, theirs = sampling(first), sampling(second)
    items = item_variance(ours, theirs)
    if shared:
        values = _by_seed(first, ours, shared) - _by_seed(second, theirs, shared)
        difference = float(values.mean())
        limits = typical_limits(values, items, ours.units, level)
        seed_part = float(values.var(ddof=1)) / len(shared) if len(shared) > 1 else 0.0
    else:
        difference = ours.mean - theirs.mean
        limits = unshared_limits(ours, theirs, level)
        seed_part = ours.of_mean + theirs.of_mean
    largest = 1.0 if is_share(metric) else math.inf
    return PairedDifference(
        first=first.label,
        second=second.label,
        metric=metric,
        difference=difference,
        low=max(-largest, min(limits[0], difference)),
        high=min(largest, max(limits[1], difference)),
        level=level,
        p_value=_p_value(ours, theirs, items),
        seeds=len(shared),
        items=first.items,
        seed_part=seed_part,
        item_part=items,
    )


def _by_seed(scores: Scores, sample: Sample, seeds: Sequence[int]) -> NDArray[np.float64]:
    return sample.values[[scores.trained.index(seed) for seed in seeds]]


def _p_value(first: Sample, second: Sample, items: float) -> float | None:
    if min(first.seeds, second.seeds) < 2:
        return None
    return min(1.0, 2 * two_part_tail(first, second, items))


def shared_seeds(first: Scores, second: Scores) -> tuple[int, ...]:
    """Return the seeds trained with both, in the order of the first."""
    return tuple(seed for seed in first.trained if seed in second.trained)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values corrected by Holm's rule (1979), in order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return tuple(corrected)
