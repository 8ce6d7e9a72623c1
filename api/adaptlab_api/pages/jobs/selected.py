"""What the buttons above the list do with the selected jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.annotations import JobAnnotations
from adaptlab_api.pages.rendering.annotation_form import changed_labels
from adaptlab_services.errors import Absent, Forbidden, LimitReached, StateConflict
from adaptlab_services.jobs import annotations, control, job_deletion, jobs
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.people import audit
from adaptlab_services.people.tokens import Principal

Change = Literal["cancel", "retry", "archive", "unarchive", "label"]
Act = Literal[Change, "delete"]
DONE: Mapping[Act, str] = {
    "cancel": "cancelled",
    "retry": "retried",
    "archive": "archived",
    "unarchive": "listed again",
    "label": "labelled",
    "delete": "deleted",
}
MOST_FIELDS = 64
"""More than the jobs of a page, with the other fields of the form."""


@dataclass(frozen=True, slots=True)
class ChangedJobs:
    """The jobs that were changed, and why others were not.

    `queues` have new work.
    """

    changed: tuple[UUID, ...]
    refused: tuple[Problem, ...]
    queues: tuple[str, ...]

    def heading(self, act: Act) -> str:
        """Return what happened, in words."""
        total = len(self.changed) + len(self.refused)
        return f"{len(self.changed)} of {total} selected jobs {DONE[act]}"


def apply(
    session: Session,
    principal: Principal,
    act: Act,
    fields: Mapping[str, Sequence[str]],
    most_queued: int | None,
    roots: ModelRoots,
) -> ChangedJobs:
    """Change every selected job that can be changed.

    Raises `InvalidSpec` if none is selected, an id is invalid, or the label is.
    """
    selected = _selected(fields)
    if act == "delete":
        return _deleted(session, selected)
    change = _change(session, principal, act, fields, most_queued, roots)
    changed: list[UUID] = []
    refused: list[Problem] = []
    queues: list[str] = []
    for job_id in selected:
        try:
            # A refusal undoes what was written for this job only.
            with session.begin_nested():
                queues += change(job_id)
        except (StateConflict, Forbidden, InvalidSpec, LimitReached, Absent) as refusal:
            refused.append(Problem(str(job_id), "not_changed", str(refusal)))
        else:
            changed.append(job_id)
    audit.note(session, jobs=[str(job_id) for job_id in changed])
    return ChangedJobs(tuple(changed), tuple(refused), tuple(dict.fromkeys(queues)))


def _deleted(session: Session, selected: Sequence[UUID]) -> ChangedJobs:
    deleted, refused = job_deletion.delete_selected(session, selected)
    audit.note(session, jobs=[str(job_id) for job_id in deleted])
    problems = (Problem(str(job_id), "not_changed", text) for job_id, text in refused.items())
    return ChangedJobs(deleted, tuple(problems), ())


def _selected(fields: Mapping[str, Sequence[str]]) -> tuple[UUID, ...]:
    try:
        selected = tuple(dict.fromkeys(UUID(text) for text in fields.get("job", ())))
    except ValueError as error:
        raise InvalidSpec(Problem("/job", "invalid_id", "A selected id is not one.")) from error
    if not selected:
        raise InvalidSpec(Problem("/job", "missing", "No job is selected. Tick some in the list."))
    return selected


def _change(
    session: Session,
    principal: Principal,
    act: Change,
    fields: Mapping[str, Sequence[str]],
    most_queued: int | None,
    roots: ModelRoots,
) -> Callable[[UUID], tuple[str, ...]]:
    """Return the function that changes one job and returns the queues to ring."""

    def cancel(job_id: UUID) -> tuple[str, ...]:
        job = jobs.cancel(session, principal, job_id).job
        if job.terminal and job.state != "cancelled":
            raise StateConflict(
                f"It is {job.state}. Only a job that has not ended can be cancelled."
            )
        return ()

    def retry(job_id: UUID) -> tuple[str, ...]:
        copied = control.retry(session, principal, job_id, most_queued=most_queued, roots=roots)
        return copied.queues

    def annotate(changes: JobAnnotations, job_id: UUID) -> tuple[str, ...]:
        annotations.annotate(session, job_id, changes)
        return ()

    match act:
        case "cancel":
            return cancel
        case "retry":
            return retry
        case "archive" | "unarchive":
            return partial(annotate, JobAnnotations(archived=act == "archive"))
        case "label":
            given = fields.get("label", ("",))[0]
            if not given.strip():
                detail = "There is no label. Write one as name = value, or -name to remove it."
                raise InvalidSpec(Problem("/label", "missing", detail))
            return partial(annotate, changed_labels(given))
