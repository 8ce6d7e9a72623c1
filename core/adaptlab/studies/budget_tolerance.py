"""The check of a study's budget tolerance."""

from collections.abc import Sequence

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import percent
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.budget import solve
from adaptlab.studies.study_methods import StudyEntry
from adaptlab.studies.study_sizes import SizedMethod, StudyBase


def check_tolerance(
    tolerance: float, bases: Sequence[StudyBase], fitting: Sequence[Sequence[SizedMethod]]
) -> None:
    """Raise `InvalidSpec` for methods that leave too much budget unused."""
    faults: list[Problem] = []
    for base, methods in zip(bases, fitting, strict=True):
        compared = [method for method in methods if method.entry.role == "method"]
        for method in compared:
            unused = 1 - method.trained / method.limit
            if unused > tolerance:
                faults.append(_off_budget(tolerance, base, method, compared))
    if faults:
        raise InvalidSpec(*faults)


def _off_budget(
    tolerance: float, base: StudyBase, method: SizedMethod, compared: Sequence[SizedMethod]
) -> Problem:
    """Return the problem, with the nearest budgets that methods meet.

    All methods meet them or, if there are none, this method does.
    """
    entries = {one.entry.label: one.entry for one in compared if one.budget == method.budget}
    own = _sizes_around(method.entry, base.shape, method.limit)
    sizes = {
        n for entry in entries.values() for n in _sizes_around(entry, base.shape, method.limit)
    }
    shared = [
        size
        for size in sizes
        if all(_meets(entry, base.shape, size, tolerance) for entry in entries.values())
    ]
    nearest = tuple(sorted(shared or own, key=lambda size: abs(size - method.limit))[:3])
    for_whom = "all methods meet" if shared else f"{method.entry.label} meets"
    detail = (
        f"{method.entry.label} trains {method.trained:,} of {method.limit:,} parameters on "
        f"{base.facts.name}, {percent(1 - method.trained / method.limit)} less than the budget. "
        f"The tolerance is {percent(tolerance)}. The nearest budgets that {for_whom} are "
        f"{', '.join(f'{size:,}' for size in nearest)}."
    )
    return Problem(f"/budgets/{method.budget}", "budget_not_met", detail, nearest=nearest)


def _meets(entry: StudyEntry, shape: ModelShape, budget: int, tolerance: float) -> bool:
    try:
        trained = solve(entry.method, shape, budget).trained_scalars(shape)
    except InvalidSpec:
        return False
    return trained >= (1 - tolerance) * budget


def _sizes_around(entry: StudyEntry, shape: ModelShape, budget: int) -> set[int]:
    """Return the method's sizes just below and just above a budget."""
    below = solve(entry.method, shape, budget).trained_scalars(shape)
    low, high = budget, 2 * budget
    if not entry.method.size_is_free() or _size_at(entry, shape, high) == below:
        return {below}
    while high - low > 1:  # the size is still `below` at low, and larger at high
        halfway = (low + high) // 2
        low, high = (halfway, high) if _size_at(entry, shape, halfway) == below else (low, halfway)
    return {below, _size_at(entry, shape, high)}


def _size_at(entry: StudyEntry, shape: ModelShape, budget: int) -> int:
    return solve(entry.method, shape, budget).trained_scalars(shape)
