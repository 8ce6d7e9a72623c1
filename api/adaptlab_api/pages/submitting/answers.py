"""What would become of a draft: the solver's answer, or what is wrong with it."""

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
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    LimitReached,
    NotFound,
)
from adaptlab_services.jobs import jobs
from adaptlab_services.models import size_steps
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.models.size_steps import SizeSteps
from adaptlab_services.people import access, projects
from adaptlab_services.people.access import Access, Role, is_at_least
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

REFUSALS = (
    InvalidSpec, Refused, Conflict, Forbidden, LimitReached, NotFound, IdempotencyMismatch
)  # fmt: skip
"""What a service says of a spec that it does not take."""
SHOWN_FOR_EFFORT = ("voids", "effort")

_JOB: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
_STUDY = TypeAdapter(StudySpec)


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """What would become of a job, with the sizes beside the solved one; or the problems."""

    preview: Preview | None = None
    sizes: SizeSteps | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodSizes:
    """One method of a study on one base model: what it trains at each budget."""

    base_model: str
    method: str
    cells: tuple[PlannedCell | None, ...]


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """What would become of a study; or the problems.

    `replicates` are trained by new jobs. `effort` are differences by which methods would not be
    compared with equal effort, in words.
    """

    preview: StudyPreview | None = None
    replicates: int = 0
    budgets: tuple[int, ...] = ()
    sizes: tuple[MethodSizes, ...] = ()
    effort: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def job_spec(draft: Draft) -> AnySpec:
    """The spec of a job; raises `InvalidSpec` and `Refused`."""
    if draft.unread:
        raise InvalidSpec(*draft.unread)
    return valid(_JOB, draft.body)


def study_spec(draft: Draft) -> StudySpec:
    """The spec of a study; raises `InvalidSpec` and `Refused`."""
    if draft.unread:
        raise InvalidSpec(*draft.unread)
    return valid(_STUDY, draft.body)


def job_answer(session: Session, found: Access, draft: Draft, roots: ModelRoots) -> JobAnswer:
    """Ask for a job as `?validate_only=true` does."""
    try:
        with in_project(session, found, draft.project):
            preview = jobs.preview(session, job_spec(draft), roots=roots)
    except REFUSALS as refusal:
        return JobAnswer(problems=problems_of(refusal))
    return JobAnswer(preview, size_steps.size_steps(preview.resolved_spec))


def study_answer(session: Session, found: Access, draft: Draft, rules: Rules) -> StudyAnswer:
    """Ask for a study as `?validate_only=true` does."""
    try:
        with in_project(session, found, draft.project):
            preview = studies.preview(session, study_spec(draft), rules)
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
    """What is wrong, each at its place in the spec; that of a taken name is the name's."""
    match refusal:
        case InvalidSpec():
            return refusal.problems
        case Refused() if refusal.faults:
            return tuple(refusal.faults)
        case Conflict():
            return (Problem("/name", "conflict", str(refusal)),)
        case NotFound(kind="project"):
            return (
                Problem(
                    "/project",
                    "unknown_project",
                    "You are not a member of a project with this name.",
                ),
            )
        case _:
            return (Problem("", "refused", str(refusal)),)


def in_project(session: Session, found: Access, name: str) -> AbstractContextManager[None]:
    """Let what is made go into the project that was chosen, where one was; raises `NotFound`."""
    if not name:
        return nullcontext()
    return access.inside(session, projects.id_of(session, found, name))


def projects_to_submit_to(session: Session, found: Access) -> tuple[str, ...]:
    """The names of the projects in which the asker may make something."""
    listed = projects.listed(session, found).data
    # The view has the role as a text, as answers of the API do.
    roles: dict[str, Role | None] = {one.name: cast("Role | None", one.role) for one in listed}
    return tuple(name for name, role in roles.items() if is_at_least(role, "submitter"))


def _sizes(cells: Sequence[PlannedCell], budgets: Sequence[int]) -> tuple[MethodSizes, ...]:
    """The sizes by base model and method; they are the same on every task."""
    rows: dict[tuple[str, str], dict[int, PlannedCell]] = {}
    for cell in cells:
        rows.setdefault((cell.base_model, cell.method), {}).setdefault(cell.budget, cell)
    return tuple(
        MethodSizes(base, method, tuple(row.get(budget) for budget in budgets))
        for (base, method), row in rows.items()
    )


def _effort(preview: StudyPreview) -> tuple[str, ...]:
    """In what the methods of one task and base model would differ besides what is compared."""
    specs = {job.spec_digest: job.resolved_spec for job in preview.jobs}
    compared: dict[tuple[str, str], dict[str, ComparedJob]] = {}
    for cell in preview.cells:
        job = ComparedJob(label=cell.method, spec=specs[cell.jobs[0]])
        compared.setdefault((cell.base_model, cell.task), {}).setdefault(cell.method, job)
    told = (
        difference.text
        for group in compared.values()
        for difference in comparability(tuple(group.values()))
        if difference.weight in SHOWN_FOR_EFFORT
    )
    return tuple(dict.fromkeys(told))
