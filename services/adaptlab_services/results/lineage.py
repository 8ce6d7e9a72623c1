"""The lineage of a base model: its job, its weights and its adaptations."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_answers.jobs import JobView
from adaptlab_answers.models import BaseModelView
from adaptlab_answers.results import CheckpointView
from adaptlab_db.tables import Job, Project, StudyJob
from adaptlab_services.jobs import jobs, lists
from adaptlab_services.models import base_models
from adaptlab_services.results import checkpoints

NEWEST = 10
MOST_GROUPS = 50


class AdaptedSo(Value):
    """The number of adaptations of a base model by one method to one task."""

    task: str | None
    method: str | None
    jobs: int
    succeeded: int


class Lineage(Value):
    """A base model with the job that created it, its weights and adaptations.

    `adapted` counts adaptations by task and method, the most frequent first, at most `MOST_GROUPS`.
    `newest` are the last few of them, `adaptations` counts them all, and `studies` counts the
    studies that contain them.
    """

    model: BaseModelView
    made_by: JobView
    weights: tuple[CheckpointView, ...]
    adapted: tuple[AdaptedSo, ...]
    adaptations: int
    newest: tuple[JobView, ...]
    studies: int


def of(session: Session, name: str) -> Lineage:
    """Return the lineage of a base model; raises `Absent`."""
    model = base_models.get(session, name)
    project = select(Project.id).where(Project.name == model.project)
    ours = (
        Job.base_model == name,
        Job.project_id == project.scalar_subquery(),
        Job.kind == "adapt",
    )
    total = select(func.count()).select_from(Job).where(*ours)
    studies = select(func.count(StudyJob.study_id.distinct())).join(Job, Job.id == StudyJob.job_id)
    return Lineage(
        model=model,
        made_by=jobs.get(session, model.job_id),
        weights=checkpoints.of_job(session, model.job_id).data,
        adapted=_adapted(session, ours),
        adaptations=session.execute(total).scalar_one(),
        newest=lists.newest(session, ours, NEWEST),
        studies=session.execute(studies.where(*ours)).scalar_one(),
    )


def _adapted(session: Session, ours: Sequence[ColumnElement[bool]]) -> tuple[AdaptedSo, ...]:
    succeeded = func.count().filter(Job.state == "succeeded").label("succeeded")
    groups = session.execute(
        select(Job.task, Job.method, func.count().label("jobs"), succeeded)
        .where(*ours)
        .group_by(Job.task, Job.method)
        .order_by(func.count().desc(), Job.task, Job.method)
        .limit(MOST_GROUPS)
    )
    return tuple(AdaptedSo.model_validate(row, from_attributes=True) for row in groups)
