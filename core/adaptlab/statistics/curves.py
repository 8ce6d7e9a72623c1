"""Scores against budgets: bands, where two methods cross, and the cheapest that will do."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from adaptlab.statistics.counts import Between, Counting, Gap, counts
from adaptlab.statistics.intervals import Interval, mean_interval
from adaptlab.statistics.pairs import difference_reach, paired_difference
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import Spread
from adaptlab.values import Value

STEPS = 32
"""Places looked at between two neighbouring budgets."""


class CurvePoint(Value):
    """A method's score at one budget; the interval is the band of the curve there."""

    budget: int
    parameters: int | None
    score: Interval


class BudgetCurve(Value):
    """The scores of one method by rising budget."""

    method: str
    points: tuple[CurvePoint, ...]


class Crossing(Value):
    """Where, between tested budgets, two methods change places.

    `budget` is where the difference, drawn straight over the logarithm of the budget, is zero.
    The interval holds every budget around it at which zero is not excluded (Fieller's rule); one
    end may be None, where the tested budgets do not limit it. `higher_before` scores higher below;
    `told` says that each of the two is shown to be ahead on its side.
    """

    higher_before: str
    higher_after: str
    budget: Annotated[float, Field(gt=0)]
    low: float | None
    high: float | None
    level: float
    told: bool


class Candidate(Value):
    """A row against the reference: its difference, with limits for seeds like those run."""

    method: str
    budget: int | None
    parameters: int
    difference: float
    low: float
    high: float


class Cheapest(Value):
    """The method with fewest trained parameters that loses at most `margin` to the reference.

    `shown` is the cheapest of which the data show it; `possible` the cheapest of which they do
    not exclude it. Limits hold for all rows together (Bonferroni), so that the choice of the
    cheapest among them does not count against the confidence `level`. They are about seeds like
    those run: failures that no seed showed may put any row farther from the reference.
    """

    reference: str
    margin: float
    level: float
    shown: Candidate | None
    possible: Candidate | None


def budget_curves(
    rows: Sequence[Scores], interval: Callable[[Scores], Interval] = mean_interval
) -> tuple[BudgetCurve, ...]:
    """One curve for every method that has budgets, in the order in which methods come."""
    methods = dict.fromkeys(row.method for row in rows if row.budget is not None)
    return tuple(BudgetCurve(method=name, points=_points(name, rows, interval)) for name in methods)


def crossings(
    first: Sequence[Scores],
    second: Sequence[Scores],
    level: float = 0.95,
    counting: Counting = counts,
) -> tuple[Crossing, ...]:
    """Every place where two methods change places, from their rows at the budgets both have.

    Over the seeds that all those rows share; nothing is found without two budgets and two seeds.
    Where the tested budgets limit it on neither side, noise alone would do, and it is left out.
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
    """The cheapest of `rows` within `margin` (a share of items) of the reference's score."""
    others = [row for row in rows if row is not reference and row.parameters is not None]
    tail = (1 - level) / max(1, len(others))
    held = [_held(row, reference, 1 - 2 * tail) for row in others]
    held.sort(key=lambda one: (one.parameters, -one.difference))
    return Cheapest(
        reference=reference.label,
        margin=margin,
        level=level,
        shown=next((one for one in held if one.low >= -margin), None),
        possible=next((one for one in held if one.high >= -margin), None),
    )


def _seeds_of_all(rows: Sequence[Scores]) -> tuple[int, ...]:
    """The seeds that every row has, in the order of the first."""
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


def _held(row: Scores, reference: Scores, level: float) -> Candidate:
    pair = paired_difference(row, reference, level)
    return Candidate(
        method=row.method,
        budget=row.budget,
        parameters=row.parameters or 0,
        difference=pair.difference,
        low=pair.seen_low,
        high=pair.seen_high,
    )


def _crossings(
    names: tuple[str, str], budgets: Sequence[int], gaps: Sequence[Gap], level: float
) -> tuple[Crossing, ...]:
    """The sign changes of a difference that is drawn through `gaps` at `budgets`."""
    found: list[Crossing] = []
    if all(here.mean * there.mean >= 0 for here, there in itertools.pairwise(gaps)):
        return ()
    signs = _Signs(gaps, (1 - level) / 2)
    for start, (here, there) in enumerate(itertools.pairwise(gaps)):
        if here.mean * there.mean >= 0:
            continue
        place = start + here.mean / (here.mean - there.mean)
        before, after = signs.told_before(place), signs.told_after(place)
        if before is None and after is None:
            continue
        ahead = names if here.mean > 0 else names[::-1]
        found.append(
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
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Told:
    """A place between budgets at which the difference is told from zero, and its sign."""

    place: float
    sign: int


class _Signs:
    """Which sign the difference has, at `STEPS` places between two budgets, where it is told.

    Looked at from a crossing outwards and no farther than needed.
    """

    def __init__(self, gaps: Sequence[Gap], tail: float) -> None:
        self._tail = tail
        self._between = [Between(*two) for two in itertools.pairwise(gaps)]
        self._known: dict[int, int] = {}

    def told_before(self, place: float) -> _Told | None:
        """The nearest place below at which it is told."""
        return self._first(range(math.ceil(place * STEPS) - 1, -1, -1))

    def told_after(self, place: float) -> _Told | None:
        """The nearest place above at which it is told."""
        return self._first(range(math.floor(place * STEPS) + 1, STEPS * len(self._between) + 1))

    def _first(self, numbers: Iterable[int]) -> _Told | None:
        told = ((number, self._sign(number)) for number in numbers)
        return next((_Told(number / STEPS, sign) for number, sign in told if sign), None)

    def _sign(self, number: int) -> int:
        if number not in self._known:
            start = min(number // STEPS, len(self._between) - 1)
            found = self._between[start].spread(number / STEPS - start)
            self._known[number] = _sign(found, self._tail)
        return self._known[number]


def _sign(found: Spread, tail: float) -> int:
    """1 or -1 where the mean is told from zero, else 0."""
    item_part = max(found.item_part, 1 / found.items**2 - found.seed_part)
    sign = (found.mean > 0) - (found.mean < 0)
    return sign * (abs(found.mean) > difference_reach(found, item_part, tail))


def _budget(budgets: Sequence[int], place: float) -> float:
    """The budget at a place, straight over its logarithm."""
    start = min(int(place), len(budgets) - 2)
    low, high = math.log(budgets[start]), math.log(budgets[start + 1])
    return math.exp(low + (place - start) * (high - low))
