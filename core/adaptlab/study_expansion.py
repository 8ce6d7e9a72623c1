"""From a study's spec to its plan: what fits where, and which cells are one job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adaptlab.budget import solve
from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.method import METHODS, Method
from adaptlab.resolve import (
    BaseModelFacts,
    budget_limit,
    family_shape,
    resolve,
    resolve_method,
    resolve_task,
    spec_digest,
)
from adaptlab.shapes import ModelShape
from adaptlab.spec import AdaptSpec, Choice, TuningSpec
from adaptlab.study import StudyMethod, StudySpec
from adaptlab.study_plan import Cell, PlannedJob, Role, SkippedCell, StudyPlan

SHARED = ("seeds", "training", "tuning", "evaluation", "capture", "resources", "labels")
"""What every job takes from the study as it stands."""


@dataclass(frozen=True)
class _Entry:
    """A method of the study: its label, what a job asks for, and the method without a size."""

    pointer: str
    label: str
    choice: Choice
    method: Method

    @property
    def role(self) -> Role:
        is_fixed = not self.method.size_is_free()
        return "reference" if self.method.is_reference and is_fixed else "method"


@dataclass(frozen=True)
class _Base:
    """A base model of the study, and the study's budgets in parameters of it."""

    facts: BaseModelFacts
    shape: ModelShape
    limits: tuple[int, ...]


@dataclass(frozen=True)
class _Sized:
    """A method of the study as one budget of one base model makes it."""

    entry: _Entry
    budget: int
    method: Method
    limit: int


def expand(spec: StudySpec, bases: Sequence[BaseModelFacts], most_jobs: int) -> StudyPlan:
    """The jobs that the study takes; `bases` are the facts of its base models, in order.

    A method that cannot meet a budget is skipped. Raises `InvalidSpec` for a study with entries
    that are the same twice, with more than `most_jobs` jobs, with a task or a method that no base
    model can have, and `InfeasibleBudget` for a budget that no method meets.
    """
    entries = _entries(spec)
    _check_size(spec, entries, most_jobs)
    tasks = _task_labels(spec)
    _check_bases_and_seeds(spec, bases)
    known = [_base(spec, index, facts) for index, facts in enumerate(bases)]
    sized, skipped = _sized(spec, known, entries)
    jobs: dict[str, PlannedJob] = {}
    cells: list[Cell] = []
    for base, methods in zip(known, sized, strict=True):
        for index, task in enumerate(tasks):
            made = _jobs(spec, base, index, methods)
            for method in methods:
                job = made[_key(method)]
                jobs.setdefault(job.digest, job)
                cells.append(_cell(base, task, method, job))
    return StudyPlan(
        base_models=tuple(base.facts.name for base in known),
        jobs=tuple(jobs.values()),
        cells=tuple(cells),
        skipped=skipped,
    )


def label_of(choice: Choice) -> str:
    """How a choice is called where it stands among others: its name and the knobs given."""
    knobs = (choice.model_extra or {}).items()
    given = ", ".join(f"{name}={json.dumps(value)}" for name, value in knobs).replace('"', "")
    return f"{choice.name}({given})" if given else choice.name


def _entries(spec: StudySpec) -> tuple[_Entry, ...]:
    """The methods with their knobs checked; raises for one that is there twice."""
    if spec.methods == "all":
        chosen = tuple(("/methods", StudyMethod(name=name)) for name in METHODS.names())
    else:
        chosen = tuple((f"/methods/{index}", entry) for index, entry in enumerate(spec.methods))
    entries = [
        _Entry(pointer, method.label or label_of(choice), choice, resolve_method(choice, pointer))
        for pointer, method in chosen
        for choice in (method.choice(),)
    ]
    faults: list[Problem] = []
    for index, entry in enumerate(entries):
        for earlier in entries[:index]:
            if entry.method == earlier.method:
                detail = f"{entry.label} is the same as {earlier.label}; leave one of them out."
                faults.append(Problem(entry.pointer, "method_twice", detail))
            elif entry.label == earlier.label:
                detail = f"Two methods are labelled {entry.label!r}; give one another label."
                faults.append(Problem(f"{entry.pointer}/label", "label_twice", detail))
    if faults:
        raise InvalidSpec(*faults)
    return tuple(entries)


def _check_size(spec: StudySpec, entries: Sequence[_Entry], most_jobs: int) -> None:
    """Before anything is resolved, so that a spec that is far too large costs nothing."""
    sizes = sum(len(spec.budgets) if e.method.size_is_free() else 1 for e in entries)
    count = len(spec.base_models) * len(spec.tasks) * sizes
    if count > most_jobs:
        detail = (
            f"The study expands to {count:,} jobs: {len(spec.base_models)} base models × "
            f"{len(spec.tasks)} tasks × {sizes} methods and budgets. The limit is {most_jobs:,}: "
            "take fewer, or make several studies."
        )
        raise InvalidSpec(Problem("", "too_many_jobs", detail, nearest=(most_jobs,)))


def _task_labels(spec: StudySpec) -> tuple[str, ...]:
    tasks = [resolve_task(task, f"/tasks/{index}") for index, task in enumerate(spec.tasks)]
    for index, task in enumerate(tasks):
        if task in tasks[:index]:
            detail = f"{label_of(spec.tasks[index])} is among the tasks already; leave one out."
            raise InvalidSpec(Problem(f"/tasks/{index}", "task_twice", detail))
    return tuple(label_of(task) for task in spec.tasks)


def _check_bases_and_seeds(spec: StudySpec, bases: Sequence[BaseModelFacts]) -> None:
    digests = [facts.digest for facts in bases]
    for index, facts in enumerate(bases):
        if facts.digest in digests[:index]:
            detail = f"{facts.name} is among the base models already; leave one out."
            raise InvalidSpec(Problem(f"/base_models/{index}", "base_model_twice", detail))
    seeds = spec.seeds if isinstance(spec.seeds, tuple) else ()
    for index, seed in enumerate(seeds):
        if seed in seeds[:index]:
            detail = f"{seed} is among the seeds already, and would count twice."
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
            detail = f"On {facts.name} this is {limit:,} parameters, as another budget is."
            raise InvalidSpec(Problem(f"/budgets/{place}", "budget_twice", detail))
        limits.append(limit)
    return _Base(facts, shape, tuple(limits))


def _sized(
    spec: StudySpec, bases: Sequence[_Base], entries: Sequence[_Entry]
) -> tuple[list[list[_Sized]], tuple[SkippedCell, ...]]:
    """For every base model the methods that fit, budget by budget, and all that do not."""
    skipped: list[SkippedCell] = []
    fitting: list[list[_Sized]] = []
    for base in bases:
        found: list[_Sized] = []
        for budget, limit in enumerate(base.limits):
            for entry in entries:
                made = _fit(base, entry, budget, limit)
                if isinstance(made, _Sized):
                    found.append(made)
                elif made not in skipped:  # a fault that has nothing to do with the budget
                    skipped.append(made)
        fitting.append(found)
    if spec.methods != "all":
        _check_methods(entries, bases, skipped)
    _check_rows(bases, entries, fitting, skipped)
    return fitting, tuple(skipped)


def _fit(base: _Base, entry: _Entry, budget: int, limit: int) -> "_Sized | SkippedCell":
    is_reference = entry.role == "reference"
    try:
        method = solve(entry.method, base.shape, None if is_reference else limit)
    except InvalidSpec as error:
        too_large = isinstance(error, InfeasibleBudget)
        places = {"method": entry.pointer, "budget": f"/budgets/{budget}"}
        nearest = [value for problem in error.problems for value in problem.nearest]
        return SkippedCell(
            base_model=base.facts.name,
            method=entry.label,
            budget=limit if too_large else None,
            problems=_moved(error, places),
            nearest=tuple(v for v in nearest if isinstance(v, int)) if too_large else (),
        )
    return _Sized(entry, budget, method, limit)


def _check_methods(
    entries: Sequence[_Entry], bases: Sequence[_Base], skipped: Sequence[SkippedCell]
) -> None:
    """A method that was asked for by name and that no base model can have is a mistake."""
    faults: list[Problem] = []
    for entry in entries:
        refused = [s for s in skipped if s.method == entry.label and s.budget is None]
        if len(refused) == len(bases):
            faults += refused[0].problems
    if faults:
        raise InvalidSpec(*faults)


def _check_rows(
    bases: Sequence[_Base],
    entries: Sequence[_Entry],
    fitting: Sequence[Sequence[_Sized]],
    skipped: Sequence[SkippedCell],
) -> None:
    """A budget at which nothing but references runs compares nothing."""
    asked = {entry.role for entry in entries}
    wanted: Role = "method" if "method" in asked else "reference"
    faults: list[Problem] = []
    for base, methods in zip(bases, fitting, strict=True):
        for budget, limit in enumerate(base.limits):
            if any(m.budget == budget and m.entry.role == wanted for m in methods):
                continue
            near = {
                value
                for cell in skipped
                if (cell.base_model, cell.budget) == (base.facts.name, limit)
                for value in cell.nearest
            }
            detail = f"No method of the study fits {limit:,} parameters on {base.facts.name}."
            least = tuple(sorted(near)[:3])
            hint = f" The nearest budgets are {', '.join(f'{n:,}' for n in least)}."
            faults.append(
                Problem(
                    pointer=f"/budgets/{budget}",
                    code="infeasible_budget",
                    detail=detail + (hint if least else " Leave it out, or name other methods."),
                    nearest=least,
                )
            )
    if faults:
        raise InfeasibleBudget(*faults)


def _jobs(
    spec: StudySpec, base: _Base, task: int, methods: Sequence[_Sized]
) -> Mapping[str, PlannedJob]:
    """The jobs of one task on one base model, one for each way in which a method comes out."""
    jobs: dict[str, PlannedJob] = {}
    faults: dict[Problem, None] = {}
    for method in methods:
        if _key(method) in jobs:
            continue
        asked = _adapt_spec(spec, base, task, method)
        try:
            resolved = resolve(asked, base.facts)
        except InvalidSpec as error:
            places = {"task": f"/tasks/{task}", "method": method.entry.pointer}
            faults |= dict.fromkeys(_moved(error, places))
            continue
        jobs[_key(method)] = PlannedJob(spec=asked, resolved=resolved, digest=spec_digest(resolved))
    if faults:
        raise InvalidSpec(*faults)
    return jobs


def _adapt_spec(spec: StudySpec, base: _Base, task: int, method: _Sized) -> AdaptSpec:
    """The job of a cell. A method of fixed size is asked for without the budget.

    A method that trains nothing has nothing to tune, and one trial is as good as many.
    """
    given = {name: getattr(spec, name) for name in SHARED if name in spec.model_fields_set}
    if method.entry.method.size_is_free():
        given["budget"] = spec.budgets[method.budget]
    if not method.method.trained_scalars(base.shape):
        given["tuning"] = TuningSpec(validation_samples=spec.tuning.validation_samples)
    given |= {"kind": "adapt", "base_model": base.facts.name, "task": spec.tasks[task]}
    return AdaptSpec.model_validate(given | {"method": method.entry.choice})


def _key(method: _Sized) -> str:
    return f"{method.entry.label}\n{method.method.model_dump_json()}"


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


def _moved(error: InvalidSpec, places: Mapping[str, str]) -> tuple[Problem, ...]:
    """The faults of one job, with pointers into the study's spec."""
    return tuple(_at(problem, places) for problem in error.problems)


def _at(problem: Problem, places: Mapping[str, str]) -> Problem:
    member, *below = problem.pointer.removeprefix("/").split("/")
    if member not in places:
        return problem
    rest = [] if member == "budget" else below  # a budget is given as a mere number too
    return replace(problem, pointer="/".join((places[member], *rest)))
