"""The expansion of a study's spec to its plan of cells and jobs."""

from collections.abc import Mapping, Sequence

from adaptlab.errors import InfeasibleBudget, InvalidSpec, Problem
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.task import Task
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.budget import check_fit
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec, TuningSpec
from adaptlab.studies.budget_tolerance import check_tolerance
from adaptlab.studies.study import StudySpec, base_names
from adaptlab.studies.study_checks import check_jobs, planned_checks
from adaptlab.studies.study_methods import (
    StudyEntry,
    place_of_base,
    study_entries,
    study_tasks,
    task_labels,
)
from adaptlab.studies.study_plan import Cell, PlannedJob, SkippedCell, StudyPlan
from adaptlab.studies.study_question import check_question
from adaptlab.studies.study_sizes import (
    SizedBase,
    SizedMethod,
    moved_problems,
    sized_methods,
    study_base,
)

SHARED = ("seeds", "evaluation", "capture", "resources", "labels")
"""Members that every job takes unchanged from the study."""
EFFORT = ("training", "tuning")
"""Members that a method may override."""


def expand(
    spec: StudySpec,
    bases: Sequence[BaseModelFacts],
    most_jobs: int,
    datasets: Datasets = NO_DATASETS,
) -> StudyPlan:
    """Return the plan of the study.

    `bases` are the facts of its base models, in order. A method that cannot meet a budget is
    skipped. Raises `InvalidSpec` for duplicate entries, for more than `most_jobs` jobs, and for a
    task, method or check that no base model can have. Raises `InfeasibleBudget` for a budget that
    no method meets.
    """
    entries = study_entries(spec, datasets)
    check_question(spec, entries)
    _check_size(spec, entries, most_jobs)
    tasks = study_tasks(spec, datasets)
    _check_bases_and_seeds(spec, bases)
    classes = _common_classes(tasks)
    sized_bases = [study_base(spec, index, facts, classes) for index, facts in enumerate(bases)]
    sized, skipped = sized_methods(spec, sized_bases, entries)
    if spec.budget_tolerance is not None:
        check_tolerance(spec.budget_tolerance, sized_bases, sized)
    jobs: dict[str, PlannedJob] = {}
    cells: list[Cell] = []
    labels = task_labels(spec.tasks)
    for base, methods in zip(sized_bases, sized, strict=True):
        for index in range(len(tasks)):
            here = [method for method in methods if index in method.entry.tasks]
            planned = _jobs(spec, base, index, here, datasets, _others(spec, base, bases))
            for method in here:
                job = planned[method.key]
                if not isinstance(job, PlannedJob):
                    skipped = (*skipped, _skipped(base, method, job))
                    continue
                if (left_out := _too_large(base, method, job)) is not None:
                    skipped = (*skipped, left_out)
                    continue
                jobs.setdefault(job.digest, job)
                cells.append(_cell(base, labels[index], method, job))
    return StudyPlan(
        base_models=tuple(base.facts.name for base in sized_bases),
        jobs=tuple(jobs.values()),
        cells=tuple(cells),
        skipped=skipped,
        checks=planned_checks(spec, bases, entries, cells, jobs, datasets),
        axis=spec.axis,
    )


def _common_classes(tasks: Sequence[Task]) -> int | None:
    """Return the number of classes of the head that the tasks train.

    Raises `InvalidSpec` if they need different heads, since the sizes of methods would differ.
    """
    heads = [task.classes() for task in tasks]
    for place, classes in enumerate(heads):
        if classes != heads[0]:
            detail = (
                "The tasks of a study are answered by heads with the same number of classes, or "
                "all by the model's own head. Create a study for each kind."
            )
            raise InvalidSpec(Problem(f"/tasks/{place}", "other_head", detail))
    return heads[0] if heads else None  # theory checks alone have no tasks


def _check_size(spec: StudySpec, entries: Sequence[StudyEntry], most_jobs: int) -> None:
    """Raise `InvalidSpec` for too many jobs, before resolving any."""
    sizes = {e.label: len(spec.budgets) if e.method.size_is_free() else 1 for e in entries}
    counts = {e.label: len(e.bases) * len(e.tasks) * sizes[e.label] for e in entries}
    checks = check_jobs(spec, counts)
    count = sum(counts.values()) + checks
    if count > most_jobs:
        of_checks = f", and {checks:,} theory checks" if checks else ""
        detail = (
            f"The study expands to {count:,} jobs: {len(spec.base_models)} base models × "
            f"{len(spec.tasks)} tasks × {sum(sizes.values()):,} methods and budgets{of_checks}. "
            f"The limit is {most_jobs:,} jobs. Leave some out, or create several studies."
        )
        raise InvalidSpec(Problem("", "too_many_jobs", detail, nearest=(most_jobs,)))


def _check_bases_and_seeds(spec: StudySpec, bases: Sequence[BaseModelFacts]) -> None:
    digests = [facts.digest for facts in bases]
    for index, facts in enumerate(bases):
        if facts.digest in digests[:index]:
            same = bases[digests.index(facts.digest)].name
            detail = f"{facts.name} is the same base model as {same}. Leave one of them out."
            raise InvalidSpec(Problem(f"/base_models/{index}", "base_model_twice", detail))
    seeds = spec.seeds if isinstance(spec.seeds, tuple) else ()
    for index, seed in enumerate(seeds):
        if seed in seeds[:index]:
            detail = f"Seed {seed} is already among the seeds. Leave one out."
            raise InvalidSpec(Problem(f"/seeds/{index}", "seed_twice", detail))


def _jobs(
    spec: StudySpec,
    base: SizedBase,
    task: int,
    methods: Sequence[SizedMethod],
    datasets: Datasets,
    others: Sequence[BaseModelFacts],
) -> Mapping[str, PlannedJob | InfeasibleBudget]:
    """Return the jobs of one task on one base model, by size.

    A method that is too large because of the task has an error in place of a job. `others` are the
    base models on which they are evaluated, if their method allows it.
    """
    jobs: dict[str, PlannedJob | InfeasibleBudget] = {}
    faults: dict[Problem, None] = {}
    for method in methods:
        if method.key in jobs:
            continue
        carried = tuple(others) if method.entry.method.carries else ()
        job_spec = _adapt_spec(spec, base, task, method, [other.name for other in carried])
        try:
            resolved = resolve(job_spec, base.facts, datasets, method.solution, carried)
        except InfeasibleBudget as error:
            jobs[method.key] = error
            continue
        except InvalidSpec as error:
            faults |= dict.fromkeys(moved_problems(error, _places(task, method.entry)))
            continue
        digest = spec_digest(resolved)
        jobs[method.key] = PlannedJob(spec=job_spec, resolved=resolved, digest=digest)
    if faults:
        raise InvalidSpec(*faults)
    return jobs


def _others(
    spec: StudySpec, base: SizedBase, bases: Sequence[BaseModelFacts]
) -> tuple[BaseModelFacts, ...]:
    """Return the base models on which jobs of another one are evaluated.

    Raises:
        InvalidSpec: one of them is not among the study's.
    """
    names, given = [facts.name for facts in bases], base_names(spec)
    places = [
        place_of_base(given, name, f"/evaluation/base_models/{index}")
        for index, name in enumerate(spec.evaluation.base_models)
    ]
    return tuple(bases[place] for place in dict.fromkeys(places) if names[place] != base.facts.name)


def _adapt_spec(
    spec: StudySpec, base: SizedBase, task: int, method: SizedMethod, others: Sequence[str]
) -> AdaptSpec:
    """Return the spec of a cell's job.

    A method of fixed size has no budget in it. A method that trains nothing has nothing to tune, so
    it has one trial.
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
    if spec.evaluation.base_models:
        given["evaluation"] = spec.evaluation.model_copy(update={"base_models": tuple(others)})
    given |= {"kind": "adapt", "base_model": base.facts.name, "task": spec.tasks[task]}
    return AdaptSpec.model_validate(given | {"method": entry.choice})


def _too_large(base: SizedBase, method: SizedMethod, job: PlannedJob) -> SkippedCell | None:
    """Return a method's skipped cell if the task makes it too large.

    Only demonstrations can be: their length depends on the task.
    """
    resolved = job.resolved.method
    if method.entry.role != "method" or resolved == method.solution.method:
        return None
    try:
        check_fit(resolved, base.shape, method.limit, base.axis)
    except InfeasibleBudget as error:
        return _skipped(base, method, error)
    return None


def _skipped(base: SizedBase, method: SizedMethod, error: InfeasibleBudget) -> SkippedCell:
    """Return the skipped cell of a method that a task makes too large."""
    nearest = (value for problem in error.problems for value in problem.nearest)
    return SkippedCell(
        base_model=base.facts.name,
        method=method.entry.label,
        budget=method.limit,
        problems=moved_problems(error, {"budget": f"/budgets/{method.budget}"}),
        nearest=tuple(value for value in nearest if isinstance(value, int)),
    )


def _cell(base: SizedBase, task: str, method: SizedMethod, job: PlannedJob) -> Cell:
    trained = job.resolved.budget.trainable_parameters
    used = job.resolved.method.cost(base.shape, base.axis)
    return Cell(
        base_model=base.facts.name,
        task=task,
        method=method.entry.label,
        budget=method.limit,
        role=method.entry.role,
        over_budget=used > method.limit,
        trainable_parameters=trained,
        gap=method.limit - used,
        digest=job.digest,
        demonstrations=job.resolved.method.demonstrated(),
    )


def _places(task: int, entry: StudyEntry) -> Mapping[str, str]:
    """Return the pointers in the study's spec for the members of a job's spec."""
    places = {"task": f"/tasks/{task}", "method": entry.pointer}
    for name in EFFORT:
        own = getattr(entry.given, name)
        for member in () if own is None else own.model_fields_set:
            places[f"{name}/{member}"] = f"{entry.pointer}/{name}/{member}"
    return places
