"""Scores against budgets: bands, where two methods cross, and the cheapest that will do."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from adaptlab.statistics.intervals import Interval, mean_interval
from adaptlab.statistics.pairs import difference_reach, paired_difference
from adaptlab.statistics.scores import Outcomes, Scores
from adaptlab.statistics.spread import spread
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
    """A row held against the reference: its difference and the limits of it."""

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
    cheapest among them does not count against the confidence `level`.
    """

    reference: str
    margin: float
    level: float
    shown: Candidate | None
    possible: Candidate | None


def budget_curves(rows: Sequence[Scores], level: float = 0.95) -> tuple[BudgetCurve, ...]:
    """One curve for every method that has budgets, in the order in which methods come."""
    methods = dict.fromkeys(row.method for row in rows if row.budget is not None)
    return tuple(BudgetCurve(method=name, points=_points(name, rows, level)) for name in methods)


def crossings(
    first: Sequence[Scores], second: Sequence[Scores], level: float = 0.95
) -> tuple[Crossing, ...]:
    """Every place where two methods change places, from their rows at the budgets both have.

    Over the seeds that all those rows share; nothing is found without two budgets and two seeds.
    Where the tested budgets limit it on neither side, noise alone would do, and it is left out.
    """
    ours, theirs = _by_budget(first), _by_budget(second)
    budgets = sorted(ours.keys() & theirs.keys())
    rows = [row for budget in budgets for row in (ours[budget], theirs[budget])]
    seeds = (
        [seed for seed in rows[0].seeds if all(seed in row.seeds for row in rows)] if rows else []
    )
    if len(budgets) < 2 or len(seeds) < 2 or len({row.items for row in rows}) > 1:
        return ()
    gaps = [ours[budget].matrix(seeds) - theirs[budget].matrix(seeds) for budget in budgets]
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


def _points(method: str, rows: Sequence[Scores], level: float) -> tuple[CurvePoint, ...]:
    chosen = _by_budget([row for row in rows if row.method == method])
    return tuple(
        CurvePoint(budget=budget, parameters=row.parameters, score=mean_interval(row, level))
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
        low=pair.low,
        high=pair.high,
    )


def _crossings(
    names: tuple[str, str], budgets: Sequence[int], gaps: Sequence[Outcomes], level: float
) -> tuple[Crossing, ...]:
    """The sign changes of a difference that is drawn through `gaps` [seed, item] at `budgets`."""
    import numpy as np  # only for those who compute

    means = [float(gap.mean()) for gap in gaps]
    if all(here * there >= 0 for here, there in itertools.pairwise(means)):
        return ()
    places = np.linspace(0, len(budgets) - 1, STEPS * (len(budgets) - 1) + 1).tolist()
    signs = [_sign(_between(gaps, place), (1 - level) / 2) for place in places]
    told = [(place, sign) for place, sign in zip(places, signs, strict=True) if sign]
    found: list[Crossing] = []
    for start, (here, there) in enumerate(itertools.pairwise(means)):
        if here * there >= 0:
            continue
        place = start + here / (here - there)
        before = next((one for one in reversed(told) if one[0] < place), None)
        after = next((one for one in told if one[0] > place), None)
        if before is None and after is None:
            continue
        ahead = names if here > 0 else names[::-1]
        found.append(
            Crossing(
                higher_before=ahead[0],
                higher_after=ahead[1],
                budget=_budget(budgets, place),
                low=_budget(budgets, before[0]) if before else None,
                high=_budget(budgets, after[0]) if after else None,
                level=level,
                told=before is not None and after is not None and before[1] * after[1] < 0,
            )
        )
    return tuple(found)


def _between(gaps: Sequence[Outcomes], place: float) -> Outcomes:
    """The difference at a place between two budgets, for every seed and item."""
    start = min(int(place), len(gaps) - 2)
    share = place - start
    return (1 - share) * gaps[start] + share * gaps[start + 1]


def _sign(gap: Outcomes, tail: float) -> int:
    """1 or -1 where the mean is told from zero, else 0."""
    found = spread(gap)
    item_part = max(found.item_part, 1 / found.items**2 - found.seed_part)
    sign = (found.mean > 0) - (found.mean < 0)
    return sign * (abs(found.mean) > difference_reach(found, item_part, tail))


def _budget(budgets: Sequence[int], place: float) -> float:
    """The budget at a place, straight over its logarithm."""
    start = min(int(place), len(budgets) - 2)
    low, high = math.log(budgets[start]), math.log(budgets[start + 1])
    return math.exp(low + (place - start) * (high - low))
