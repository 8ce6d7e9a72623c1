"""The theory checks of a study: what each measures, and its jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from uuid import UUID

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.theory_check import THEORY_CHECKS, MeasuredAdaptation, TheoryCheck
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.choices import configured
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolve_theory import adaptation_of, resolve_theory
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.sized_method import budget_limit
from adaptlab.specs.spec import Choice, TheorySpec
from adaptlab.studies.study import StudyCheck, StudySpec, base_names
from adaptlab.studies.study_methods import (
    StudyEntry,
    check_budget,
    label_of,
    place_of_base,
    place_of_task,
    task_labels,
)
from adaptlab.studies.study_plan import Cell, PlannedCheck, PlannedJob

SHARED = ("resources", "labels")
"""Members that the job of a check takes from the study."""


@dataclass(frozen=True)
class _Entry:
    """A check of the study: its pointer, label and resolved check."""

    pointer: str
    label: str
    given: StudyCheck
    check: TheoryCheck
    bases: tuple[int, ...]
    task: int | None


def check_jobs(spec: StudySpec, of_methods: Mapping[str, int]) -> int:
    """Return the largest number of jobs of the checks.

    `of_methods` has the jobs of each method.
    """
    return sum(
        of_methods.get(check.of, 1) if check.of else len(check.base_models or spec.base_models) or 1
        for check in spec.checks
    )


def planned_checks(
    spec: StudySpec,
    bases: Sequence[BaseModelFacts],
    entries: Sequence[StudyEntry],
    cells: Sequence[Cell],
    jobs: Mapping[str, PlannedJob],
    datasets: Datasets,
) -> tuple[PlannedCheck, ...]:
    """Return the checks as they will run.

    `jobs` are those of the cells, by digest. Raises `InvalidSpec` for a check that occurs twice,
    that cannot run, or that names a method, task or base model that the study does not have.
    """
    by_digest: dict[str, PlannedCheck] = {}
    for entry in _entries(spec, [entry.label for entry in entries], datasets):
        for check in _planned(spec, entry, bases, cells, jobs, datasets):
            same = by_digest.setdefault(spec_digest(check.resolved), check)
            if same is not check:
                detail = f"{check.label} measures the same as {same.label}. Leave one of them out."
                raise InvalidSpec(Problem(entry.pointer, "check_twice", detail))
    return tuple(by_digest.values())


def theory_spec(
    spec: StudySpec, check: StudyCheck, base: str | None, adaptations: Sequence[UUID] = ()
) -> TheorySpec:
    """Return the spec of a job of the check."""
    given = {name: getattr(spec, name) for name in SHARED if name in spec.model_fields_set}
    given |= {"kind": "theory", "checks": (_choice(check),)}
    if base is not None and not adaptations:
        given["base_model"] = base
    if adaptations:
        given |= measuring(adaptations)
        if "replicates" in check.model_fields_set:
            given["replicates"] = check.replicates
    return TheorySpec.model_validate(given)


def measuring(adaptations: Sequence[UUID]) -> dict[str, object]:
    """Return the member of a spec that names one adaptation or several."""
    return {"adaptation": adaptations[0] if len(adaptations) == 1 else tuple(adaptations)}


def _entries(spec: StudySpec, methods: Sequence[str], datasets: Datasets) -> Iterator[_Entry]:
    """Yield the checks with checked knobs.

    Raises `InvalidSpec` for a label that occurs twice.
    """
    labels: list[str] = []
    for index, given in enumerate(spec.checks):
        entry = _entry(spec, f"/checks/{index}", given, methods, datasets)
        if entry.label in labels:
            detail = f"Two checks have the label {entry.label!r}. Change one of them."
            raise InvalidSpec(Problem(f"{entry.pointer}/label", "label_twice", detail))
        labels.append(entry.label)
        yield entry


def _entry(
    spec: StudySpec,
    pointer: str,
    given: StudyCheck,
    methods: Sequence[str],
    datasets: Datasets,
) -> _Entry:
    kind, names = THEORY_CHECKS.get(given.name, f"{pointer}/name"), base_names(spec)
    choice = _choice(given)
    check = configured(kind, choice, pointer)
    bases = tuple(
        place_of_base(names, name, f"{pointer}/base_models/{index}")
        for index, name in enumerate(given.base_models or names)
    )
    task = None
    if given.task is not None and not _has_own_task(given.name):
        task = place_of_task(spec, given.task, f"{pointer}/task", datasets)
    if given.budget is not None:
        check_budget(spec, given.budget, f"{pointer}/budget")
    if faults := tuple(_faults(pointer, given, check, methods)):
        raise InvalidSpec(*faults)
    return _Entry(pointer, given.label or label_of(choice), given, check, bases, task)


def _choice(given: StudyCheck) -> Choice:
    """Return the check of a job's spec.

    A `task` is the check's own if it has one, and otherwise limits what is measured.
    """
    own = {"name"}
    if "task" in given.model_fields_set and _has_own_task(given.name):
        own.add("task")
    return Choice.model_validate(given.model_dump(include=own) | (given.model_extra or {}))


def _has_own_task(name: str) -> bool:
    check = THEORY_CHECKS.get(name)
    return not check.needs_adaptation and "task" in check.model_fields


def _faults(
    pointer: str, given: StudyCheck, check: TheoryCheck, methods: Sequence[str]
) -> Iterator[Problem]:
    """Yield a problem per member that a check cannot use or that it lacks."""
    name = check.name
    if check.needs_adaptation:
        if given.of is None:
            detail = f"The check {name!r} measures adaptations. Give a method's label in `of`."
            yield Problem(f"{pointer}/of", "adaptation_needed", detail, allowed=tuple(methods))
        elif given.of not in methods:
            detail = f"No method of the study has the label {given.of!r}. Give one that is there."
            near = tuple(get_close_matches(given.of, methods, n=3, cutoff=0.3))
            yield Problem(f"{pointer}/of", "not_a_method_of_the_study", detail, (*methods,), near)
        return
    unused = given.model_fields_set - ({"task"} if _has_own_task(given.name) else set())
    for member in ("of", "task", "budget", "together", "replicates"):
        if member in unused:
            detail = f"The check {name!r} does not measure adaptations. Leave `{member}` out."
            yield Problem(f"{pointer}/{member}", "measures_no_adaptation", detail)
    if given.base_models is not None and not check.needs_base:
        detail = f"The check {name!r} builds its own model. Leave `base_models` out."
        yield Problem(f"{pointer}/base_models", "measures_no_base", detail)


def _planned(
    spec: StudySpec,
    entry: _Entry,
    bases: Sequence[BaseModelFacts],
    cells: Sequence[Cell],
    jobs: Mapping[str, PlannedJob],
    datasets: Datasets,
) -> Iterator[PlannedCheck]:
    if not entry.check.needs_base and not entry.check.needs_adaptation:
        yield _check(spec, entry, None, (), jobs, datasets)
        return
    is_empty = True
    for place in entry.bases:
        base = bases[place]
        groups = _groups(spec, entry, base, cells) if entry.check.needs_adaptation else ((),)
        for group in groups:
            is_empty = False
            yield _check(spec, entry, base, group, jobs, datasets)
    if is_empty:
        what = "adaptation" if entry.check.needs_adaptation else "base model"
        detail = f"The study has no {what} for this check to measure. Leave the check out."
        raise InvalidSpec(Problem(entry.pointer, "nothing_to_measure", detail))


def _groups(
    spec: StudySpec, entry: _Entry, base: BaseModelFacts, cells: Sequence[Cell]
) -> tuple[tuple[Cell, ...], ...]:
    """Return the cells per job of the check.

    Of cells with the same job, only the first counts.
    """
    matches = [
        cell for cell in cells if (cell.base_model, cell.method) == (base.name, entry.given.of)
    ]
    if entry.task is not None:
        task = task_labels(spec.tasks)[entry.task]
        matches = [cell for cell in matches if cell.task == task]
    if entry.given.budget is not None:
        limit = budget_limit(entry.given.budget, family_shape(base.family))
        matches = [cell for cell in matches if cell.budget == limit]
    first = {cell.digest: cell for cell in reversed(matches)}
    different = tuple(cell for cell in matches if first[cell.digest] is cell)
    if entry.given.together:
        return (different,) if different else ()
    return tuple((cell,) for cell in different)


def _check(
    spec: StudySpec,
    entry: _Entry,
    base: BaseModelFacts | None,
    cells: tuple[Cell, ...],
    jobs: Mapping[str, PlannedJob],
    datasets: Datasets,
) -> PlannedCheck:
    adaptations = [provisional_adaptation(jobs[cell.digest]) for cell in cells]
    name = None if base is None else base.name
    job_spec = theory_spec(spec, entry.given, name, [one.job for one in adaptations])
    try:
        resolved = resolve_theory(job_spec, base, adaptations, datasets)
    except InvalidSpec as error:
        problems = (_at(problem, entry, adaptations) for problem in error.problems)
        raise InvalidSpec(*problems) from error
    return PlannedCheck(
        label=entry.label,
        pointer=entry.pointer,
        base=base,
        of=entry.given.of,
        cells=cells,
        together=entry.given.together,
        spec=job_spec,
        resolved=resolved,
    )


def provisional_adaptation(job: PlannedJob) -> MeasuredAdaptation:
    """Return the adaptation of a planned job, with a provisional id."""
    return adaptation_of(UUID(job.digest[:32]), job.digest, job.resolved)


def _at(problem: Problem, entry: _Entry, adaptations: Sequence[MeasuredAdaptation]) -> Problem:
    """Return a job's problem in terms of the study's spec."""
    detail = problem.detail
    for one in adaptations:
        detail = detail.replace(f"job {one.job}", f"{entry.given.of!r} on {one.base_model}")
    member, *below = problem.pointer.removeprefix("/").split("/")
    if member == "checks":
        return replace(problem, detail=detail, pointer="/".join((entry.pointer, *below[1:])))
    place = {"adaptation": "of", "base_model": "base_models"}.get(member)
    pointer = entry.pointer if place is None else f"{entry.pointer}/{place}"
    return replace(problem, detail=detail, pointer=pointer)
