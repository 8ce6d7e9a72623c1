"""The preview of a draft, or its errors."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import cast

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab.comparisons.comparability import ComparedJob, comparability
from adaptlab.errors import AdaptlabError, InvalidSpec, Problem
from adaptlab.specs.spec import AnySpec, JobSpec
from adaptlab.studies.study import StudySpec
from adaptlab_answers.jobs import Preview
from adaptlab_answers.studies import PlannedCell, StudyPreview
from adaptlab_api.answers.problems import Refused
from adaptlab_api.pages.submitting.draft import Draft
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.errors import (
    Absent,
    Forbidden,
    IdempotencyMismatch,
    LimitReached,
    StateConflict,
)
from adaptlab_services.jobs import jobs
from adaptlab_services.models import size_steps, task_files
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.models.size_steps import SizeSteps
from adaptlab_services.people import access, projects
from adaptlab_services.people.access import Access, Role, is_at_least
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

REFUSALS = (
    InvalidSpec,
    Refused,
    StateConflict,
    Forbidden,
    LimitReached,
    Absent,
    IdempotencyMismatch,
)
"""Errors of a service for a spec that it refuses."""
SHOWN_FOR_EFFORT = ("voids", "effort")

_JOB: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
_STUDY = TypeAdapter(StudySpec)


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """The preview of a job with neighbouring sizes, or its errors."""

    preview: Preview | None = None
    sizes: SizeSteps | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodSizes:
    """One method of a study on one base model, at each budget."""

    base_model: str
    method: str
    cells: tuple[PlannedCell | None, ...]


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """The preview of a study, or its errors.

    `replicates` are those of new jobs. `effort` lists the differences that would make the effort of
    methods unequal, in words.
    """

    preview: StudyPreview | None = None
    replicates: int = 0
    budgets: tuple[int, ...] = ()
    sizes: tuple[MethodSizes, ...] = ()
    effort: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def job_spec(draft: Draft) -> AnySpec:
    """Return the spec of a job; raise `InvalidSpec` or `Refused`."""
    if draft.unread:
        raise InvalidSpec(*draft.unread)
    return valid(_JOB, draft.body)


def study_spec(draft: Draft) -> StudySpec:
    """Return the spec of a study; raise `InvalidSpec` or `Refused`."""
    if draft.unread:
        raise InvalidSpec(*draft.unread)
    return valid(_STUDY, draft.body)


def job_answer(session: Session, rights: Access, draft: Draft, roots: ModelRoots) -> JobAnswer:
    """Return the preview of a job, as with `?validate_only=true`."""
    try:
        with in_project(session, rights, draft.project):
            spec = task_files.with_fetched(session, job_spec(draft))
            preview = jobs.preview(session, spec, roots=roots)
    except REFUSALS as refusal:
        return JobAnswer(problems=problems_of(refusal))
    return JobAnswer(preview, size_steps.size_steps(preview.resolved_spec))


def study_answer(session: Session, rights: Access, draft: Draft, rules: Rules) -> StudyAnswer:
    """Return the preview of a study, as with `?validate_only=true`."""
    try:
        with in_project(session, rights, draft.project):
            spec = task_files.with_fetched(session, study_spec(draft))
            preview = studies.preview(session, spec, rules)
    except REFUSALS as refusal:
        return StudyAnswer(problems=problems_of(refusal))
    budgets = tuple(sorted({cell.budget for cell in preview.cells}))
    return StudyAnswer(
        preview=preview,
        replicates=sum(job.replicates for job in preview.jobs if job.reused is None),
        budgets=budgets,
        sizes=_sizes(preview.cells, budgets),
        effort=_effort(preview),
    )


def problems_of(refusal: AdaptlabError) -> tuple[Problem, ...]:
    """Return the errors of a refusal, at their places in the spec."""
    match refusal:
        case InvalidSpec():
            return refusal.problems
        case Refused() if refusal.faults:
            return tuple(refusal.faults)
        case StateConflict():
            return (Problem("/name", "conflict", str(refusal)),)
        case Absent(kind="project"):
            return (
                Problem(
                    "/project",
                    "unknown_project",
                    "You are not a member of a project with this name.",
                ),
            )
        case _:
            return (Problem("", "refused", str(refusal)),)


def in_project(session: Session, rights: Access, name: str) -> AbstractContextManager[None]:
    """Create resources in the project `name`, if not empty; raises `Absent`."""
    if not name:
        return nullcontext()
    return access.inside(session, projects.id_of(session, rights, name))


def projects_to_submit_to(session: Session, rights: Access) -> tuple[str, ...]:
    """Return the names of the projects to which the caller can submit."""
    views = projects.listed(session, rights).data
    # Answers have the role as a text.
    roles: dict[str, Role | None] = {view.name: cast("Role | None", view.role) for view in views}
    return tuple(name for name, role in roles.items() if is_at_least(role, "submitter"))


def _sizes(cells: Sequence[PlannedCell], budgets: Sequence[int]) -> tuple[MethodSizes, ...]:
    """Return the sizes by base model and method, equal for all tasks."""
    rows: dict[tuple[str, str], dict[int, PlannedCell]] = {}
    for cell in cells:
        rows.setdefault((cell.base_model, cell.method), {}).setdefault(cell.budget, cell)
    return tuple(
        MethodSizes(base, method, tuple(row.get(budget) for budget in budgets))
        for (base, method), row in rows.items()
    )


def _effort(preview: StudyPreview) -> tuple[str, ...]:
    """Return differences in effort between methods on a task and base model."""
    specs = {job.spec_digest: job.resolved_spec for job in preview.jobs}
    compared: dict[tuple[str, str], dict[str, ComparedJob]] = {}
    for cell in preview.cells:
        job = ComparedJob(label=cell.method, spec=specs[cell.jobs[0]])
        compared.setdefault((cell.base_model, cell.task), {}).setdefault(cell.method, job)
    texts = (
        difference.text
        for group in compared.values()
        for difference in comparability(tuple(group.values()))
        if difference.weight in SHOWN_FOR_EFFORT
    )
    return tuple(dict.fromkeys(texts))
