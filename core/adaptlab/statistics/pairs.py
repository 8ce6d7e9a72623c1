"""Two methods on the same seeds and items: difference and tests."""

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from adaptlab.statistics.counts import Counting, Gap, Seeds, counts
from adaptlab.statistics.distributions import student_quantile, student_tail, where_rising
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import LEAST_ITEM_SHARE, Spread, normal_quantile
from adaptlab.statistics.unseen import (
    difference_limits,
    evidence_of_order,
    least_p_value,
    p_equal_means,
)
from adaptlab.values import Value

if TYPE_CHECKING:  # numpy is loaded on first use: a server that lists jobs saves 20 MB
    import numpy as np
    from numpy.typing import NDArray

LEAST_TAIL = 1e-12
"""Smaller tails are reported as this one: no model of seeds is accurate that far out."""

MOST_FLIPPED_SEEDS = 12
Probability = Annotated[float, Field(ge=0, le=1)]


class PairedDifference(Value):
    """The difference of `first` minus `second` on shared seeds and items.

    `difference`, `low` and `high` are shares of items (0.01 is one point). `low`, `high` and
    `p_value` concern the means **over all seeds**, including failures and successes that no seed
    showed; the limits hold at confidence `level`, for this pair alone. `seen_low`, `seen_high` and
    `seen_p` are those of the crossed analysis, about **seeds like those run**; if seeds hardly
    vary, `seen_p` rests on items and is no statement about seeds. `unseen_evidence` is the log
    likelihood ratio against equal means over all seeds (`unseen.evidence_of_order`). P-values are
    None with one seed. `sign_flip` is the exact p-value of exchanging the two methods within seeds,
    at least 2 / 2^seeds. `seed_part` is the part of the difference's variance that more seeds
    reduce, and `item_part` the part that they do not. `undone_by` is the share of the higher
    method's seeds that must fail completely for the means to be equal.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    level: float
    p_value: Probability | None
    seen_low: float
    seen_high: float
    seen_p: Probability | None
    unseen_evidence: Annotated[float, Field(ge=0)]
    undone_by: Probability
    sign_flip: Probability | None
    seeds: int
    items: int
    seed_part: float
    item_part: float

    @property
    def unseen_p(self) -> float:
        """The p-value of equal means over all seeds, from unseen failures."""
        return p_equal_means(self.unseen_evidence)


def paired_difference(
    first: Scores,
    second: Scores,
    level: float = 0.95,
    counting: Counting = counts,
    seeds: Seeds | None = None,
) -> PairedDifference:
    """Return the difference of two methods, with intervals and p-values.

    There are two models: over all seeds, and over seeds like those run. Over seeds like those run,
    it is the crossed analysis of per-item differences. The variance has a part of seeds s and a
    part of items a (`spread`). The limits are ± √(t² s + z² a), with Student's t of seeds - 1 and
    the normal z: each part has its own quantile (Howe 1974; Graybill and Wang 1980). This keeps its
    level far out in the tail too, where corrections for many comparisons read it; a single t with
    intermediate degrees of freedom is wrong there up to seven times too often. If items do not
    matter, it is the paired t-test over seeds; if all seeds agree, it is the large-sample McNemar
    test over items. The limits are at least half as far as items alone put them, and the variance
    is at least that of one item.

    Over all seeds, the p-value is the largest of three: that of the crossed analysis; that of
    failures that no seed may have shown (`unseen.evidence_of_order`, which treats seeds of the two
    methods as independent draws); and the least that an exact two-sample test on this number of
    seeds allows. The limits are the union of both analyses' limits, or as wide as the two scores
    allow if the exact test cannot decide. No limit is beyond the difference that the limits of the
    two scores allow, each at half the error.

    `counting` counts outcomes; pass a `Remembered` if a method is in many pairs. `seeds` are those
    to compare, by default all shared ones. Raises `ValueError` for scores with different numbers of
    items and for scores without common seeds.
    """
    if first.items != second.items:
        raise ValueError(
            f"{first.label} was scored on {first.items:,} items and {second.label} on "
            f"{second.items:,}; score both on the same items."
        )
    if seeds is None:
        seeds = shared_seeds(first, second)
    if not seeds:
        raise ValueError(
            f"{first.label} and {second.label} have no seed in common; run both with the same "
            "seeds."
        )
    gap = Gap(counting(first, seeds), counting(second, seeds))
    spread = gap.spread()
    item_part = max(spread.item_part, 1 / spread.items**2 - spread.seed_part)
    seen_p = None if len(seeds) == 1 else _p_value(spread, item_part)
    unseen = evidence_of_order(gap.first.evidence, gap.second.evidence)
    seen = _seen_limits(gap, spread, item_part, level, seen_p)
    p_value = _p_over_all_seeds(seen_p, p_equal_means(unseen), len(seeds))
    limits = _limits_over_all_seeds(gap, seen, level, p_value)
    return PairedDifference(
        first=first.label,
        second=second.label,
        difference=spread.mean,
        low=limits[0],
        high=limits[1],
        level=level,
        p_value=p_value,
        seen_low=seen[0],
        seen_high=seen[1],
        seen_p=seen_p,
        unseen_evidence=unseen,
        undone_by=_undone_by(gap),
        sign_flip=None if len(seeds) == 1 else sign_flip(gap.by_seed.tolist()),
        seeds=spread.seeds,
        items=spread.items,
        seed_part=spread.seed_part,
        item_part=item_part,
    )


Limits = tuple[float, float]


def _p_over_all_seeds(seen: float | None, unseen: float, seeds: int) -> float | None:
    return None if seen is None else max(seen, unseen, least_p_value(seeds))


def _seen_limits(
    gap: Gap, spread: Spread, item_part: float, level: float, p_value: float | None
) -> Limits:
    reach = difference_reach(spread, item_part, (1 - level) / 2)
    ends = (gap.first.seen_limits(_of_two(level)), gap.second.seen_limits(_of_two(level)))
    wide = (spread.mean - reach, spread.mean + reach)
    return _within_ends(wide, spread.mean, ends, keep_zero=p_value is None or p_value > 1 - level)


def _limits_over_all_seeds(gap: Gap, seen: Limits, level: float, p_value: float | None) -> Limits:
    ends = [
        (min(low, unseen_low), max(high, unseen_high))
        for one in (gap.first, gap.second)
        for low, high in (one.seen_limits(_of_two(level)),)
        for unseen_low, unseen_high in (one.evidence.limits(_of_two(level)),)
    ]
    if least_p_value(gap.seeds) > 1 - level:
        wide = (-1.0, 1.0)
    else:
        unseen = difference_limits(gap.first.evidence, gap.second.evidence, level)
        wide = (min(seen[0], unseen[0]), max(seen[1], unseen[1]))
    keep_zero = p_value is None or p_value > 1 - level
    return _within_ends(wide, gap.mean, (ends[0], ends[1]), keep_zero=keep_zero)


def _of_two(level: float) -> float:
    """Return the level of each of two intervals that hold together at `level`."""
    return (1 + level) / 2


def _within_ends(
    wide: Limits, mean: float, ends: tuple[Limits, Limits], *, keep_zero: bool
) -> Limits:
    """Return limits no wider than those of the two scores allow.

    They include 0 if `keep_zero`.
    """
    (first_low, first_high), (second_low, second_high) = ends
    low = max(wide[0], min(first_low - second_high, 0.0 if keep_zero else 1.0))
    high = min(wide[1], max(first_high - second_low, 0.0 if keep_zero else -1.0))
    return min(low, mean), max(high, mean)


def _undone_by(gap: Gap) -> float:
    """Return the share of the higher method's seeds to fail for a tie."""
    low, high = sorted((gap.first.right, gap.second.right))
    return 1 - low / high if high else 0.0


def shared_seeds(first: Scores, second: Scores) -> tuple[int, ...]:
    """Return the seeds that both have, in the order of the first."""
    return tuple(seed for seed in first.seeds if seed in second.seeds)


def projected_reach(pair: PairedDifference, seeds: int, tail: float, power_tail: float) -> float:
    """Return the least difference that `seeds` seeds would detect.

    The variances are as measured. `tail` is that of the test, `power_tail` the chance of missing
    it; 0.5 gives the limits alone.
    """
    part = pair.seed_part * pair.seeds / seeds
    student = _quantile(seeds - 1, tail) + _quantile(seeds - 1, power_tail)
    normal = normal_quantile(tail) + normal_quantile(power_tail)
    return math.sqrt(student**2 * part + normal**2 * pair.item_part)


def sign_flip(differences: Sequence[float]) -> float:
    """Return the exact two-sided p-value of the sign-flip test.

    It compares a mean with all exchanges of signs (Fisher 1935). `differences` are the seeds' mean
    differences. At most the first `MOST_FLIPPED_SEEDS` are used, which costs power but not
    validity.
    """
    import numpy as np  # loaded only when something is computed

    values = np.asarray(differences[:MOST_FLIPPED_SEEDS], dtype=np.float64)
    sums = np.abs(_signs(len(values)) @ values)
    return float(np.mean(sums >= abs(float(values.sum())) - 1e-12))


@functools.lru_cache(maxsize=MOST_FLIPPED_SEEDS)
def _signs(seeds: int) -> "NDArray[np.float64]":
    """Return every exchange of two methods within seeds, [flip, seed].

    It takes 400 kB for twelve seeds.
    """
    import numpy as np

    numbers = np.arange(2**seeds, dtype=np.int64)[:, None]
    return 1.0 - 2.0 * ((numbers >> np.arange(seeds, dtype=np.int64)) & 1).astype(np.float64)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values corrected by Holm's rule (1979), in order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return tuple(corrected)


def difference_reach(spread: Spread, item_part: float, tail: float) -> float:
    """Return the largest plausible error of a difference.

    `tail` is left out on each side.
    """
    normal = normal_quantile(tail)
    if spread.seeds == 1:
        return normal * math.sqrt(item_part)
    student = _quantile(spread.seeds - 1, tail)
    least = LEAST_ITEM_SHARE * normal * math.sqrt(spread.rest + item_part)
    return max(least, math.sqrt(student**2 * spread.seed_part + normal**2 * item_part))


@functools.lru_cache(maxsize=4096)
def _quantile(freedom: int, tail: float) -> float:
    return student_quantile(freedom, 1 - tail) if tail < 0.5 else 0.0


def _p_value(spread: Spread, item_part: float) -> float:
    """Return twice the tail at which the limits just reach zero."""
    if spread.mean == 0:
        return 1.0
    square, freedom = spread.mean**2, spread.seeds - 1
    least = LEAST_ITEM_SHARE**2 * (spread.rest + item_part)

    def reached(student: float) -> float:
        normal = normal_quantile(student_tail(freedom, student)) ** 2
        return max(student**2 * spread.seed_part + normal * item_part, normal * least)

    # The normal quantile of a tail is never beyond Student's.
    low = math.sqrt(square / max(spread.seed_part + item_part, least))
    high = _far(freedom)
    if spread.seed_part > 0:
        high = min(high, math.sqrt(square / spread.seed_part))
    if low >= high or reached(high) <= square:
        student = high
    else:
        student = low if reached(low) >= square else where_rising(reached, square, low, high)
    return min(1.0, 2 * max(LEAST_TAIL, student_tail(freedom, student)))


@functools.lru_cache(maxsize=64)
def _far(freedom: int) -> float:
    """Return a value that Student's t exceeds below `LEAST_TAIL`."""
    value = 8.0
    while student_tail(freedom, value) > LEAST_TAIL:
        value *= 2
    return value
