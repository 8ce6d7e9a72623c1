"""Sizes of a study's methods at its budgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sizing import PARAMETERS, UNITS, BudgetAxis
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.budget import Solution, budget_vector, check_axis, check_method, fit
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.sized_method import budget_limit
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_methods import StudyEntry
from adaptlab.studies.study_plan import Role, SkippedCell


@dataclass(frozen=True)
class SizedBase:
    """A base model of the study, with the limits of the budgets on it.

    `place` is its index in the spec, and `limits` has one entry per budget.
    """

    place: int
    facts: BaseModelFacts
    shape: ModelShape
    limits: tuple[int, ...]
    axis: BudgetAxis


@dataclass(frozen=True)
class SizedMethod:
    """A method of the study as sized by one budget of one base model.

    `budget` is the index of the budget, `limit` its number of parameters or context tokens, and
    `used` what the method needs of them. Methods with one `key` are one job per task.
    """

    entry: StudyEntry
    budget: int
    limit: int
    used: int
    key: str
    solution: Solution

    @property
    def trained(self) -> int:
        """The number of parameters that it trains."""
        return self.solution.budget.trainable_parameters


def study_base(
    spec: StudySpec, index: int, facts: BaseModelFacts, classes: int | None
) -> SizedBase:
    """Return base model `index`, with the limits of the budgets on it.

    `classes` is the number of classes of the head that the tasks train, if they do.

    Raises `InvalidSpec` for a budget without a limit, for two that are equal on this model, and for
    budgets that limit different things.
    """
    own, axis = family_shape(facts.family), spec.axis
    limits: list[int] = []
    for place, budget in enumerate(spec.budgets):
        if budget.axis != axis:
            detail = (
                f"The first budget is in {UNITS[axis]}, this one in {UNITS[budget.axis]}. Create a "
                "study for each."
            )
            raise InvalidSpec(Problem(f"/budgets/{place}", "other_axis", detail))
        try:
            limit = budget_limit(budget, own)
        except InvalidSpec as error:
            raise InvalidSpec(*moved_problems(error, {"budget": f"/budgets/{place}"})) from error
        if limit is None:
            detail = "Give trainable_parameters, fraction_of_base or context_tokens."
            raise InvalidSpec(Problem(f"/budgets/{place}", "budget_missing", detail))
        if limit in limits:
            detail = (
                f"On {facts.name} this is {limit:,} {UNITS[axis]}, the same as another budget. "
                "Leave one out."
            )
            raise InvalidSpec(Problem(f"/budgets/{place}", "budget_twice", detail))
        limits.append(limit)
    return SizedBase(index, facts, family_shape(facts.family, classes), tuple(limits), axis)


def sized_methods(
    spec: StudySpec, bases: Sequence[SizedBase], entries: Sequence[StudyEntry]
) -> tuple[list[list[SizedMethod]], tuple[SkippedCell, ...]]:
    """Return the methods that fit each base model, and those that do not.

    Raises `InvalidSpec` for a listed method that no base model can have, and `InfeasibleBudget`
    for a budget that no method meets.
    """
    skipped: list[SkippedCell] = []
    fitting: list[list[SizedMethod]] = []
    for base in bases:
        fits, refused = _sized_on(base, [entry for entry in entries if base.place in entry.bases])
        fitting.append(fits)
        skipped += refused
    if spec.compared != "all":
        _check_methods(entries, skipped)
    _check_rows(bases, entries, fitting, skipped)
    return fitting, tuple(skipped)


def _sized_on(
    base: SizedBase, entries: Sequence[StudyEntry]
) -> tuple[list[SizedMethod], list[SkippedCell]]:
    """Return the methods that fit one base model, and those that do not."""
    fitting: list[SizedMethod] = []
    skipped: list[SkippedCell] = []
    solutions: dict[str, Solution] = {}
    refused = {entry.label: _refused(base, entry) for entry in entries}
    for budget, limit in enumerate(base.limits):
        for entry in entries:
            cell = refused[entry.label]
            if cell is None:
                fitted = _fit(base, entry, budget, limit, solutions)
                if isinstance(fitted, SizedMethod):
                    fitting.append(fitted)
                else:
                    skipped.append(fitted)
            elif budget == 0:
                skipped.append(cell)
    return fitting, skipped


def _refused(base: SizedBase, entry: StudyEntry) -> SkippedCell | None:
    """Return the skipped cell of a method that no budget makes possible."""
    try:
        check_method(entry.method, base.shape)
        check_axis(entry.method, base.axis)
    except InvalidSpec as error:
        return SkippedCell(
            base_model=base.facts.name,
            method=entry.label,
            budget=None,
            problems=moved_problems(error, {"method": entry.pointer, "budget": entry.pointer}),
            nearest=(),
        )
    return None


def _fit(
    base: SizedBase, entry: StudyEntry, budget: int, limit: int, solutions: dict[str, Solution]
) -> SizedMethod | SkippedCell:
    """Return the method at one budget.

    `solutions` caches those on this base model, by key.
    """
    is_unlimited = entry.role != "method" and not entry.method.size_is_free()
    wanted = None if is_unlimited else limit
    try:
        method = fit(entry.method, base.shape, wanted, base.axis)
    except InfeasibleBudget as error:
        nearest = [value for problem in error.problems for value in problem.nearest]
        return SkippedCell(
            base_model=base.facts.name,
            method=entry.label,
            budget=limit,
            problems=moved_problems(
                error, {"method": entry.pointer, "budget": f"/budgets/{budget}"}
            ),
            nearest=tuple(value for value in nearest if isinstance(value, int)),
        )
    key = f"{entry.label}\n{method.model_dump_json()}"
    if key not in solutions:
        is_free = entry.method.size_is_free()
        requested, axis = (limit, base.axis) if is_free else (None, PARAMETERS)  # as in its job
        solutions[key] = Solution(method, budget_vector(method, base.shape, requested, axis))
    return SizedMethod(
        entry, budget, limit, method.cost(base.shape, base.axis), key, solutions[key]
    )


def _check_methods(entries: Sequence[StudyEntry], skipped: Sequence[SkippedCell]) -> None:
    """Raise `InvalidSpec` for a listed method that no base model can have."""
    faults: list[Problem] = []
    for entry in entries:
        refused = [s for s in skipped if s.method == entry.label and s.budget is None]
        if refused and len(refused) == len(entry.bases):
            faults += refused[0].problems
    if faults:
        raise InvalidSpec(*faults)


def _check_rows(
    bases: Sequence[SizedBase],
    entries: Sequence[StudyEntry],
    fitting: Sequence[Sequence[SizedMethod]],
    skipped: Sequence[SkippedCell],
) -> None:
    """Raise `InfeasibleBudget` for a budget at which only references run.

    If some methods are limited to some base models, one base model with a method is enough.
    """
    faults: list[tuple[int, Problem]] = []
    met: set[int] = set()
    for base, methods in zip(bases, fitting, strict=True):
        roles = {e.role for e in entries if base.place in e.bases} - {"control"}
        wanted: Role = "method" if "method" in roles else "reference"
        here = {method.budget for method in methods if method.entry.role == wanted}
        met |= here
        if roles:
            missing = [place for place in range(len(base.limits)) if place not in here]
            faults += [(place, _infeasible(base, place, skipped)) for place in missing]
    if any(len(entry.bases) < len(bases) for entry in entries):
        faults = [(place, fault) for place, fault in faults if place not in met]
    if faults:
        raise InfeasibleBudget(*(fault for _, fault in faults))


def _infeasible(base: SizedBase, place: int, skipped: Sequence[SkippedCell]) -> Problem:
    name, limit = base.facts.name, base.limits[place]
    refused = [cell for cell in skipped if (cell.base_model, cell.budget) == (name, limit)]
    least = tuple(sorted({value for cell in refused for value in cell.nearest})[:3])
    detail = f"No method of the study fits {limit:,} {UNITS[base.axis]} on {name}."
    hint = f" The nearest budgets are {', '.join(f'{size:,}' for size in least)}."
    return Problem(
        pointer=f"/budgets/{place}",
        code="infeasible_budget",
        detail=detail + (hint if least else " Leave this budget out, or list other methods."),
        nearest=least,
    )


def moved_problems(error: InvalidSpec, places: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems of one job with pointers into the study's spec.

    `places` maps members of a job's spec to pointers in the study's.
    """
    return tuple(_at(problem, places) for problem in error.problems)


def _at(problem: Problem, places: Mapping[str, str]) -> Problem:
    member, *below = problem.pointer.removeprefix("/").split("/")
    if below and f"{member}/{below[0]}" in places:
        member, *below = f"{member}/{below[0]}", *below[1:]
    if member not in places:
        return problem
    rest = [] if member == "budget" else below  # a budget is given as a mere number too
    return replace(problem, pointer="/".join((places[member], *rest)))
