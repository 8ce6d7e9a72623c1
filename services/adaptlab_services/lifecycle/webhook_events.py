"""Events for webhooks and trackers, written with the change itself.

Without either in the project, nothing is written. `webhooks.relay` turns events into deliveries.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Insert, exists, insert, literal, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import AttemptRow, Job, Study, Tracker, Webhook, WebhookEvent, Worker
from adaptlab_db.visibility import ACROSS_PROJECTS

Subject = type[Job] | type[Study]


def jobs_ended(session: Session, job_ids: Sequence[UUID]) -> None:
    """Record that jobs have ended, and so perhaps their studies."""
    session.execute(_of(Job, "job_id", job_ids), execution_options=ACROSS_PROJECTS)


def study_changed(session: Session, study_id: UUID) -> None:
    """Record that a study got other jobs or was cancelled, and may have ended."""
    session.execute(_of(Study, "study_id", [study_id]), execution_options=ACROSS_PROJECTS)


def workers_lost(session: Session, worker_ids: Sequence[UUID]) -> None:
    """Record that workers were lost, for the projects that they concern.

    Those of the installation concern every project with a webhook. Those of a token concern the
    projects whose jobs they have claimed: anyone who may submit can register workers of a job.
    """
    projects = select(Webhook.project_id).where(Webhook.enabled).distinct().subquery()
    has_worked = exists().where(
        AttemptRow.worker_id == Worker.id,
        AttemptRow.job_id == Job.id,
        Job.project_id == projects.c.project_id,
    )
    rows = select(projects.c.project_id, Worker.id).where(
        Worker.id.in_(worker_ids), Worker.token_id.is_(None) | has_worked
    )
    written = insert(WebhookEvent).from_select(
        ["project_id", "worker_id"], rows.join_from(Worker, projects, literal(True))
    )
    session.execute(written, execution_options=ACROSS_PROJECTS)


def _of(subject: Subject, column: str, ids: Sequence[UUID]) -> Insert:
    has_webhook = exists().where(Webhook.project_id == subject.project_id, Webhook.enabled)
    has_tracker = exists().where(Tracker.project_id == subject.project_id)
    rows = select(subject.project_id, subject.id).where(subject.id.in_(ids))
    rows = rows.where(has_webhook | has_tracker)
    return insert(WebhookEvent).from_select(["project_id", column], rows)
