"""From a study's spec to its plan: what fits where, and which cells are one job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.budget import Solution, budget_vector, check_method, fit, solve
from adaptlab.specs.resolve import BaseModelFacts, budget_limit, family_shape, resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec, TuningSpec
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_checks import check_jobs, planned_checks
from adaptlab.studies.study_methods import StudyEntry, label_of, study_entries, study_tasks
from adaptlab.studies.study_plan import Cell, PlannedJob, Role, SkippedCell, StudyPlan

SHARED = ("seeds", "evaluation", "capture", "resources", "labels")
"""What every job takes from the study as it stands."""
EFFORT = ("training", "tuning")
"""What a method may have otherwise."""


@dataclass(frozen=True)
class _Base:
    """A base model of the study, and the study's budgets in parameters of it."""

    place: int
    facts: BaseModelFacts
    shape: ModelShape
    limits: tuple[int, ...]


@dataclass(frozen=True)
class _Sized:
    """A method of the study as one budget of one base model makes it.

    Those of one `key` are one job on every task.
    """

    entry: StudyEntry
    budget: int
    limit: int
    key: str
    solution: Solution

    @property
    def trained(self) -> int:
        """How many parameters it trains."""
        return self.solution.budget.trainable_parameters


def expand(
    spec: StudySpec,
    bases: Sequence[BaseModelFacts],
    most_jobs: int,
    datasets: Datasets = NO_DATASETS,
) -> StudyPlan:
    """The jobs that the study takes; `bases` are the facts of its base models, in order.

    A method that cannot meet a budget is skipped. Raises `InvalidSpec` for a study with entries
    that are the same twice, with more than `most_jobs` jobs, with a task, a method or a check that
    no base model can have, and `InfeasibleBudget` for a budget that no method meets.
    """
    entries = study_entries(spec, datasets)
    _check_size(spec, entries, most_jobs)
    tasks = study_tasks(spec, datasets)
    _check_bases_and_seeds(spec, bases)
    known = [_base(spec, index, facts) for index, facts in enumerate(bases)]
    sized, skipped = _sized(spec, known, entries)
    jobs: dict[str, PlannedJob] = {}
    cells: list[Cell] = []
    for base, methods in zip(known, sized, strict=True):
        for index in range(len(tasks)):
            here = [method for method in methods if index in method.entry.tasks]
            made = _jobs(spec, base, index, here, datasets)
            for method in here:
                job = made[method.key]
                jobs.setdefault(job.digest, job)
                cells.append(_cell(base, label_of(spec.tasks[index]), method, job))
    return StudyPlan(
        base_models=tuple(base.facts.name for base in known),
        jobs=tuple(jobs.values()),
        cells=tuple(cells),
        skipped=skipped,
        checks=planned_checks(spec, bases, entries, cells, jobs, datasets),
    )


def _check_size(spec: StudySpec, entries: Sequence[StudyEntry], most_jobs: int) -> None:
    """Before anything is resolved, so that a spec that is far too large costs nothing."""
    sizes = {e.label: len(spec.budgets) if e.method.size_is_free() else 1 for e in entries}
    counts = {e.label: len(e.bases) * len(e.tasks) * sizes[e.label] for e in entries}
    checks = check_jobs(spec, counts)
    count = sum(counts.values()) + checks
    if count > most_jobs:
        of_checks = f", and {checks:,} theory checks" if checks else ""
        detail = (
            f"The study expands to {count:,} jobs: {len(spec.base_models)} base models × "
            f"{len(spec.tasks)} tasks × {sum(sizes.values())} methods and budgets{of_checks}. "
            f"The limit is {most_jobs:,} jobs. Reduce them, or create several studies."
        )
        raise InvalidSpec(Problem("", "too_many_jobs", detail, nearest=(most_jobs,)))


def _check_bases_and_seeds(spec: StudySpec, bases: Sequence[BaseModelFacts]) -> None:
    digests = [facts.digest for facts in bases]
    for index, facts in enumerate(bases):
        if facts.digest in digests[:index]:
            detail = f"{facts.name} is already among the base models. Leave one out."
            raise InvalidSpec(Problem(f"/base_models/{index}", "base_model_twice", detail))
    seeds = spec.seeds if isinstance(spec.seeds, tuple) else ()
    for index, seed in enumerate(seeds):
        if seed in seeds[:index]:
            detail = f"Seed {seed} is already among the seeds. Leave one out."
            raise InvalidSpec(Problem(f"/seeds/{index}", "seed_twice", detail))


def _base(spec: StudySpec, index: int, facts: BaseModelFacts) -> _Base:
    shape = family_shape(facts.family)
    limits: list[int] = []
    for place, budget in enumerate(spec.budgets):
        try:
            limit = budget_limit(budget, shape)
        except InvalidSpec as error:
            raise InvalidSpec(*_moved(error, {"budget": f"/budgets/{place}"})) from error
        if limit is None:
            detail = "Give trainable_parameters or fraction_of_base."
            raise InvalidSpec(Problem(f"/budgets/{place}", "budget_missing", detail))
        if limit in limits:
            detail = (
                f"On {facts.name} this is {limit:,} parameters, the same as another budget. "
                "Leave one out."
            )
            raise InvalidSpec(Problem(f"/budgets/{place}", "budget_twice", detail))
        limits.append(limit)
    return _Base(index, facts, shape, tuple(limits))


def _sized(
    spec: StudySpec, bases: Sequence[_Base], entries: Sequence[StudyEntry]
) -> tuple[list[list[_Sized]], tuple[SkippedCell, ...]]:
    """For every base model the methods that fit, budget by budget, and all that do not."""
    skipped: list[SkippedCell] = []
    fitting: list[list[_Sized]] = []
    for base in bases:
        found, refused = _sized_on(base, [entry for entry in entries if base.place in entry.bases])
        fitting.append(found)
        skipped += refused
    if spec.methods != "all":
        _check_methods(entries, skipped)
    _check_rows(bases, entries, fitting, skipped)
    if spec.budget_tolerance is not None:
        _check_tolerance(spec.budget_tolerance, bases, fitting)
    return fitting, tuple(skipped)


def _sized_on(base: _Base, entries: Sequence[StudyEntry]) -> tuple[list[_Sized], list[SkippedCell]]:
    """The methods that fit one base model; what no budget changes is worked out once."""
    found: list[_Sized] = []
    skipped: list[SkippedCell] = []
    solutions: dict[str, Solution] = {}
    refused = {entry.label: _refused(base, entry) for entry in entries}
    for budget, limit in enumerate(base.limits):
        for entry in entries:
            cell = refused[entry.label]
            if cell is None:
                fitted = _fit(base, entry, budget, limit, solutions)
                if isinstance(fitted, _Sized):
                    found.append(fitted)
                else:
                    skipped.append(fitted)
            elif budget == 0:
                skipped.append(cell)
    return found, skipped


def _refused(base: _Base, entry: StudyEntry) -> SkippedCell | None:
    """The fault of a method that this base model cannot have at any budget, if it has one."""
    try:
        check_method(entry.method, base.shape)
    except InvalidSpec as error:
        return SkippedCell(
            base_model=base.facts.name,
            method=entry.label,
            budget=None,
            problems=_moved(error, {"method": entry.pointer}),
            nearest=(),
        )
    return None


def _fit(
    base: _Base, entry: StudyEntry, budget: int, limit: int, solutions: dict[str, Solution]
) -> _Sized | SkippedCell:
    """The method at one budget; `solutions` are those on this base model, by key."""
    try:
        method = fit(entry.method, base.shape, None if entry.role == "reference" else limit)
    except InfeasibleBudget as error:
        nearest = [value for problem in error.problems for value in problem.nearest]
        return SkippedCell(
            base_model=base.facts.name,
            method=entry.label,
            budget=limit,
            problems=_moved(error, {"method": entry.pointer, "budget": f"/budgets/{budget}"}),
            nearest=tuple(value for value in nearest if isinstance(value, int)),
        )
    key = f"{entry.label}\n{method.model_dump_json()}"
    if key not in solutions:
        requested = limit if entry.method.size_is_free() else None  # as its job asks for it
        solutions[key] = Solution(method, budget_vector(method, base.shape, requested))
    return _Sized(entry, budget, limit, key, solutions[key])


def _check_tolerance(
    tolerance: float, bases: Sequence[_Base], fitting: Sequence[Sequence[_Sized]]
) -> None:
    """Raise `InvalidSpec` for methods that leave a larger share of a budget unused."""
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
    tolerance: float, base: _Base, method: _Sized, compared: Sequence[_Sized]
) -> Problem:
    """The budget, and the nearest ones that every method meets or, if none does, this one."""
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
        f"{base.facts.name}, {1 - method.trained / method.limit:.1%} less than the budget. The "
        f"tolerance is {tolerance:.1%}. The nearest budgets that {for_whom} are "
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
    """The method's sizes in parameters next to a budget: the largest within it, the next above."""
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


def _check_methods(entries: Sequence[StudyEntry], skipped: Sequence[SkippedCell]) -> None:
    """A method that was asked for by name and that no base model can have is a mistake."""
    faults: list[Problem] = []
    for entry in entries:
        refused = [s for s in skipped if s.method == entry.label and s.budget is None]
        if refused and len(refused) == len(entry.bases):
            faults += refused[0].problems
    if faults:
        raise InvalidSpec(*faults)


def _check_rows(
    bases: Sequence[_Base],
    entries: Sequence[StudyEntry],
    fitting: Sequence[Sequence[_Sized]],
    skipped: Sequence[SkippedCell],
) -> None:
    """A budget at which nothing but references runs compares nothing.

    Where some methods run on some of the base models only, one on which it compares is enough.
    """
    faults: list[tuple[int, Problem]] = []
    met: set[int] = set()
    for base, methods in zip(bases, fitting, strict=True):
        asked = {entry.role for entry in entries if base.place in entry.bases}
        wanted: Role = "method" if "method" in asked else "reference"
        here = {method.budget for method in methods if method.entry.role == wanted}
        met |= here
        if asked:
            missing = [place for place in range(len(base.limits)) if place not in here]
            faults += [(place, _infeasible(base, place, skipped)) for place in missing]
    if any(len(entry.bases) < len(bases) for entry in entries):
        faults = [(place, fault) for place, fault in faults if place not in met]
    if faults:
        raise InfeasibleBudget(*(fault for _, fault in faults))


def _infeasible(base: _Base, place: int, skipped: Sequence[SkippedCell]) -> Problem:
    name, limit = base.facts.name, base.limits[place]
    refused = [cell for cell in skipped if (cell.base_model, cell.budget) == (name, limit)]
    least = tuple(sorted({value for cell in refused for value in cell.nearest})[:3])
    detail = f"No method of the study fits {limit:,} parameters on {name}."
    hint = f" The nearest budgets are {', '.join(f'{n:,}' for n in least)}."
    return Problem(
        pointer=f"/budgets/{place}",
        code="infeasible_budget",
        detail=detail + (hint if least else " Leave it out, or name other methods."),
        nearest=least,
    )


def _jobs(
    spec: StudySpec, base: _Base, task: int, methods: Sequence[_Sized], datasets: Datasets
) -> Mapping[str, PlannedJob]:
    """The jobs of one task on one base model, one for each way in which a method comes out."""
    jobs: dict[str, PlannedJob] = {}
    faults: dict[Problem, None] = {}
    for method in methods:
        if method.key in jobs:
            continue
        asked = _adapt_spec(spec, base, task, method)
        try:
            resolved = resolve(asked, base.facts, datasets, method.solution)
        except InvalidSpec as error:
            faults |= dict.fromkeys(_moved(error, _places(task, method.entry)))
            continue
        jobs[method.key] = PlannedJob(spec=asked, resolved=resolved, digest=spec_digest(resolved))
    if faults:
        raise InvalidSpec(*faults)
    return jobs


def _adapt_spec(spec: StudySpec, base: _Base, task: int, method: _Sized) -> AdaptSpec:
    """The job of a cell. A method of fixed size is asked for without the budget.

    A method that trains nothing has nothing to tune, and one trial is as good as many.
    """
    entry = method.entry
    given = {name: getattr(spec, name) for name in SHARED if name in spec.model_fields_set}
    for name in EFFORT:
        if name in spec.model_fields_set or getattr(entry.given, name) is not None:
            given[name] = getattr(entry, name)
    if entry.method.size_is_free():
        given["budget"] = spec.budgets[method.budget]
    if not method.trained:
        given["tuning"] = TuningSpec(validation_samples=entry.tuning.validation_samples)
    given |= {"kind": "adapt", "base_model": base.facts.name, "task": spec.tasks[task]}
    return AdaptSpec.model_validate(given | {"method": entry.choice})


def _cell(base: _Base, task: str, method: _Sized, job: PlannedJob) -> Cell:
    trained = job.resolved.budget.trainable_parameters
    return Cell(
        base_model=base.facts.name,
        task=task,
        method=method.entry.label,
        budget=method.limit,
        role=method.entry.role,
        over_budget=trained > method.limit,
        trainable_parameters=trained,
        gap=method.limit - trained,
        digest=job.digest,
    )


def _places(task: int, entry: StudyEntry) -> Mapping[str, str]:
    """Where the study has what one of its jobs is asked for."""
    places = {"task": f"/tasks/{task}", "method": entry.pointer}
    for name in EFFORT:
        own = getattr(entry.given, name)
        for member in () if own is None else own.model_fields_set:
            places[f"{name}/{member}"] = f"{entry.pointer}/{name}/{member}"
    return places


def _moved(error: InvalidSpec, places: Mapping[str, str]) -> tuple[Problem, ...]:
    """The faults of one job, with pointers into the study's spec."""
    return tuple(_at(problem, places) for problem in error.problems)


def _at(problem: Problem, places: Mapping[str, str]) -> Problem:
    member, *below = problem.pointer.removeprefix("/").split("/")
    if below and f"{member}/{below[0]}" in places:
        member, *below = f"{member}/{below[0]}", *below[1:]
    if member not in places:
        return problem
    rest = [] if member == "budget" else below  # a budget is given as a mere number too
    return replace(problem, pointer="/".join((places[member], *rest)))
