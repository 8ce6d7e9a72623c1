"""Scores against budgets: curves, crossings and the cheapest method."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from adaptlab.statistics.counts import Between, Counting, Gap, counts
from adaptlab.statistics.intervals import Interval, mean_interval
from adaptlab.statistics.limits import difference_reach
from adaptlab.statistics.pairs import paired_difference
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import Spread
from adaptlab.values import Value

STEPS = 32
"""Number of intervals between two neighbouring budgets."""


class CurvePoint(Value):
    """A method's score at one budget; the interval is the curve's band."""

    budget: int
    parameters: int | None
    score: Interval


class BudgetCurve(Value):
    """The scores of one method, by increasing budget."""

    method: str
    points: tuple[CurvePoint, ...]


class Crossing(Value):
    """A budget, between tested ones, at which two methods change places.

    At `budget`, the difference is zero if interpolated linearly over the logarithm of the budget.
    The interval contains all budgets around it at which zero is not excluded (Fieller's rule); one
    end is None if the tested budgets do not limit it. `higher_before` scores higher below `budget`.
    `told` is True if each of the two is shown to be ahead on its side.
    """

    higher_before: str
    higher_after: str
    budget: Annotated[float, Field(gt=0)]
    low: float | None
    high: float | None
    level: float
    told: bool


class CurveDifference(Value):
    """The difference of a row from the reference, with its limits.

    Limits are those of a typical seed.
    """

    method: str
    budget: int | None
    parameters: int
    difference: float
    low: float
    high: float


class Cheapest(Value):
    """The cheapest method within `margin` of the reference.

    Cheapest means with the fewest trained parameters. `shown` is the cheapest method that is shown
    to be within the margin, `possible` the cheapest for which this is not excluded. Limits hold for
    all rows together (Bonferroni), so choosing the cheapest does not reduce the confidence `level`.
    They concern a typical seed: failures that no seed showed are the subject of the failing seeds.
    """

    reference: str
    margin: float
    level: float
    shown: CurveDifference | None
    possible: CurveDifference | None


def budget_curves(
    rows: Sequence[Scores], interval: Callable[[Scores], Interval] = mean_interval
) -> tuple[BudgetCurve, ...]:
    """Return one curve for every method with budgets, in order."""
    methods = dict.fromkeys(row.method for row in rows if row.budget is not None)
    return tuple(BudgetCurve(method=name, points=_points(name, rows, interval)) for name in methods)


def crossings(
    first: Sequence[Scores],
    second: Sequence[Scores],
    level: float = 0.95,
    counting: Counting = counts,
) -> tuple[Crossing, ...]:
    """Return the crossings of two methods at the budgets both have.

    Only seeds that all these rows share are used; without two budgets and two seeds there are no
    crossings. A crossing that the tested budgets limit on neither side is left out, because noise
    alone produces such crossings.
    """
    ours, theirs = _by_budget(first), _by_budget(second)
    budgets = sorted(ours.keys() & theirs.keys())
    rows = [row for budget in budgets for row in (ours[budget], theirs[budget])]
    seeds = _seeds_of_all(rows)
    if len(budgets) < 2 or len(seeds) < 2 or len({row.items for row in rows}) > 1:
        return ()
    gaps = [
        Gap(counting(ours[budget], seeds), counting(theirs[budget], seeds)) for budget in budgets
    ]
    names = (rows[0].method, rows[1].method)
    return _crossings(names, budgets, gaps, level)


def cheapest_within(
    rows: Sequence[Scores], reference: Scores, margin: float, level: float = 0.95
) -> Cheapest:
    """Return the cheapest of `rows` within `margin` of the reference.

    The margin is a share of items.
    """
    others = [row for row in rows if row is not reference and row.parameters is not None]
    tail = (1 - level) / max(1, len(others))
    candidates = [_candidate(row, reference, 1 - 2 * tail) for row in others]
    candidates.sort(key=lambda one: (one.parameters, -one.difference))
    return Cheapest(
        reference=reference.label,
        margin=margin,
        level=level,
        shown=next((one for one in candidates if one.low >= -margin), None),
        possible=next((one for one in candidates if one.high >= -margin), None),
    )


def _seeds_of_all(rows: Sequence[Scores]) -> tuple[int, ...]:
    """Return the seeds that every row has, in the order of the first row."""
    if not rows:
        return ()
    shared = set(rows[0].seeds).intersection(*(row.seeds for row in rows))
    return tuple(seed for seed in rows[0].seeds if seed in shared)


def _points(
    method: str, rows: Sequence[Scores], interval: Callable[[Scores], Interval]
) -> tuple[CurvePoint, ...]:
    chosen = _by_budget([row for row in rows if row.method == method])
    return tuple(
        CurvePoint(budget=budget, parameters=row.parameters, score=interval(row))
        for budget, row in sorted(chosen.items())
    )


def _by_budget(rows: Sequence[Scores]) -> dict[int, Scores]:
    return {row.budget: row for row in rows if row.budget is not None}


def _candidate(row: Scores, reference: Scores, level: float) -> CurveDifference:
    pair = paired_difference(row, reference, level)
    return CurveDifference(
        method=row.method,
        budget=row.budget,
        parameters=row.parameters or 0,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
    )


def _crossings(
    names: tuple[str, str], budgets: Sequence[int], gaps: Sequence[Gap], level: float
) -> tuple[Crossing, ...]:
    """Return the sign changes of the interpolated difference."""
    crossed: list[Crossing] = []
    if all(here.mean * there.mean >= 0 for here, there in itertools.pairwise(gaps)):
        return ()
    signs = _Signs(gaps, (1 - level) / 2)
    for start, (here, there) in enumerate(itertools.pairwise(gaps)):
        if here.mean * there.mean >= 0:
            continue
        place = start + here.mean / (here.mean - there.mean)
        before, after = signs.significant_before(place), signs.significant_after(place)
        if before is None and after is None:
            continue
        ahead = names if here.mean > 0 else names[::-1]
        crossed.append(
            Crossing(
                higher_before=ahead[0],
                higher_after=ahead[1],
                budget=_budget(budgets, place),
                low=_budget(budgets, before.place) if before else None,
                high=_budget(budgets, after.place) if after else None,
                level=level,
                told=before is not None and after is not None and before.sign * after.sign < 0,
            )
        )
    return tuple(crossed)


@dataclass(frozen=True, slots=True)
class _SignedPlace:
    """A place between budgets with a significant difference, and its sign."""

    place: float
    sign: int


class _Signs:
    """Significant signs of the difference between budgets.

    There are `STEPS` places between two budgets. Places are computed from a crossing outwards, and
    no farther than needed.
    """

    def __init__(self, gaps: Sequence[Gap], tail: float) -> None:
        self._tail = tail
        self._between = [Between(*two) for two in itertools.pairwise(gaps)]
        self._signs: dict[int, int] = {}

    def significant_before(self, place: float) -> _SignedPlace | None:
        """Return the nearest significant place below."""
        return self._first(range(math.ceil(place * STEPS) - 1, -1, -1))

    def significant_after(self, place: float) -> _SignedPlace | None:
        """Return the nearest significant place above."""
        return self._first(range(math.floor(place * STEPS) + 1, STEPS * len(self._between) + 1))

    def _first(self, numbers: Iterable[int]) -> _SignedPlace | None:
        signs = ((number, self._sign(number)) for number in numbers)
        return next((_SignedPlace(number / STEPS, sign) for number, sign in signs if sign), None)

    def _sign(self, number: int) -> int:
        if number not in self._signs:
            start = min(number // STEPS, len(self._between) - 1)
            difference = self._between[start].spread(number / STEPS - start)
            self._signs[number] = _sign(difference, self._tail)
        return self._signs[number]


def _sign(difference: Spread, tail: float) -> int:
    """Return 1 or -1 if the mean differs significantly from zero, otherwise 0."""
    item_part = max(difference.item_part, 1 / difference.items**2 - difference.seed_part)
    sign = (difference.mean > 0) - (difference.mean < 0)
    return sign * (abs(difference.mean) > difference_reach(difference, item_part, tail))


def _budget(budgets: Sequence[int], place: float) -> float:
    """Return the budget at a place, by linear interpolation of its logarithm."""
    start = min(int(place), len(budgets) - 2)
    low, high = math.log(budgets[start]), math.log(budgets[start + 1])
    return math.exp(low + (place - start) * (high - low))
