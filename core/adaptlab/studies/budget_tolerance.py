"""The check of a study's budget tolerance."""

from collections.abc import Sequence

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import percent
from adaptlab.plugins.sizing import UNITS, BudgetAxis
from adaptlab.specs.budget import solve
from adaptlab.studies.study_methods import StudyEntry
from adaptlab.studies.study_sizes import SizedBase, SizedMethod

VERBS: dict[BudgetAxis, str] = {"trainable_parameters": "trains", "context_tokens": "takes"}
"""What a method does with its part of a budget."""


def check_tolerance(
    tolerance: float, bases: Sequence[SizedBase], fitting: Sequence[Sequence[SizedMethod]]
) -> None:
    """Raise `InvalidSpec` for methods that leave too much budget unused.

    References, and methods that use nothing of what the budgets limit, are exempt.
    """
    faults: list[Problem] = []
    for base, methods in zip(bases, fitting, strict=True):
        compared = [m for m in methods if m.entry.role == "method" and m.used]
        for method in compared:
            unused = 1 - method.used / method.limit
            if unused > tolerance:
                faults.append(_off_budget(tolerance, base, method, compared))
    if faults:
        raise InvalidSpec(*faults)


def _off_budget(
    tolerance: float, base: SizedBase, method: SizedMethod, compared: Sequence[SizedMethod]
) -> Problem:
    """Return the problem, with the nearest budgets that methods meet.

    All methods meet them or, if there are none, this method does.
    """
    entries = {one.entry.label: one.entry for one in compared if one.budget == method.budget}
    own = _sizes_around(method.entry, base, method.limit)
    sizes = {n for entry in entries.values() for n in _sizes_around(entry, base, method.limit)}
    shared = [
        size
        for size in sizes
        if all(_meets(entry, base, size, tolerance) for entry in entries.values())
    ]
    nearest = tuple(sorted(shared or own, key=lambda size: abs(size - method.limit))[:3])
    for_whom = "all methods meet" if shared else f"{method.entry.label} meets"
    detail = (
        f"{method.entry.label} {VERBS[base.axis]} {method.used:,} of {method.limit:,} "
        f"{UNITS[base.axis]} on {base.facts.name}, {percent(1 - method.used / method.limit)} less "
        f"than the budget. "
        f"The tolerance is {percent(tolerance)}. The nearest budgets that {for_whom} are "
        f"{', '.join(f'{size:,}' for size in nearest)}."
    )
    return Problem(f"/budgets/{method.budget}", "budget_not_met", detail, nearest=nearest)


def _meets(entry: StudyEntry, base: SizedBase, budget: int, tolerance: float) -> bool:
    try:
        used = _size_at(entry, base, budget)
    except InvalidSpec:
        return False
    return used >= (1 - tolerance) * budget


def _sizes_around(entry: StudyEntry, base: SizedBase, budget: int) -> set[int]:
    """Return the method's sizes just below and just above a budget."""
    below = _size_at(entry, base, budget)
    low, high = budget, 2 * budget
    if not entry.method.size_is_free() or _size_at(entry, base, high) == below:
        return {below}
    while high - low > 1:  # the size is still `below` at low, and larger at high
        halfway = (low + high) // 2
        low, high = (halfway, high) if _size_at(entry, base, halfway) == below else (low, halfway)
    return {below, _size_at(entry, base, high)}


def _size_at(entry: StudyEntry, base: SizedBase, budget: int) -> int:
    return solve(entry.method, base.shape, budget, base.axis).cost(base.shape, base.axis)
