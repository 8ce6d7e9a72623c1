"""Deliveries from events: which webhooks get a message about a change.

A job's end and its event are committed together, and an event and its deliveries are exchanged in
one transaction. So nothing is lost if a process dies, and the key of a delivery keeps an event from
being reported twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab_answers.webhooks import WebhookEventName
from adaptlab_db.tables import Job, Study, StudyJob, Webhook, WebhookDelivery, WebhookEvent, Worker
from adaptlab_services.studies.study_views import counted, study_state
from adaptlab_services.webhooks import tracked_studies

MOST_EVENTS = 200
"""Events that are read in one transaction."""
Subject = Mapping[str, UUID]


def relay(session: Session) -> int:
    """Write the deliveries of some events; return the number of events."""
    oldest = select(WebhookEvent).order_by(WebhookEvent.id).limit(MOST_EVENTS)
    events = session.scalars(oldest.with_for_update(skip_locked=True)).all()
    if not events:
        return 0
    webhooks = _webhooks(session, {event.project_id for event in events})
    studies = {event.id: _studies(session, event) for event in events}
    rows = [
        _delivery(webhook, name, key, subject)
        for event in events
        for name, key, subject in _meanings(session, event, studies[event.id])
        for webhook in webhooks
        if webhook.project_id == event.project_id
        and name in webhook.events
        and webhook.created_at <= event.at
    ]
    if rows:
        session.execute(insert(WebhookDelivery).on_conflict_do_nothing(), rows)
    changed = {study.id for concerned in studies.values() for study in concerned}
    tracked_studies.note_changes(session, changed)
    session.execute(
        delete(WebhookEvent)
        .where(WebhookEvent.id.in_([event.id for event in events]))
        .execution_options(synchronize_session=False)
    )
    return len(events)


def _webhooks(session: Session, projects: set[int]) -> list[Webhook]:
    wanted = select(Webhook).where(Webhook.project_id.in_(projects), Webhook.enabled)
    return list(session.scalars(wanted))


def _delivery(webhook: Webhook, name: str, key: str, subject: Subject) -> dict[str, Any]:
    about = {"job_id": None, "study_id": None, "worker_id": None}  # all rows alike, in one insert
    return about | {
        "id": uuid4(),
        "webhook_id": webhook.id,
        "project_id": webhook.project_id,
        "event": name,
        "key": key,
        **subject,
    }


def _meanings(
    session: Session, event: WebhookEvent, studies: Sequence[Study]
) -> Iterator[tuple[WebhookEventName, str, Subject]]:
    """Yield what an event is for webhooks: name, key and subject."""
    if event.worker_id is not None:
        worker = session.get_one(Worker, event.worker_id)
        key = f"worker:{worker.id}:{_text(worker.lost_at)}"
        yield "worker.lost", key, {"worker_id": worker.id}
    if event.job_id is not None:
        yield "job.ended", f"job:{event.job_id}", {"job_id": event.job_id}
    for study in studies:
        if (key := _end_of(session, study)) is not None:
            yield "study.ended", key, {"study_id": study.id}


def _studies(session: Session, event: WebhookEvent) -> list[Study]:
    if event.study_id is not None:
        return [session.get_one(Study, event.study_id)]
    if event.job_id is None:
        return []
    belongs = select(StudyJob.study_id).where(StudyJob.job_id == event.job_id)
    return list(session.scalars(select(Study).where(Study.id.in_(belongs))))


def _end_of(session: Session, study: Study) -> str | None:
    """Return the key of a study's end; None if it has not ended.

    A study that was extended can end again. Two transactions that end the last two jobs see one
    another's job as running, so this is asked after both, for the event of each.
    """
    if study_state(study, counted(session, [study.id])[study.id]) == "running":
        return None
    if study.cancelled_at is not None:
        return f"study:{study.id}:cancelled"
    last = session.execute(
        select(func.count(Job.id), func.max(Job.finished_at))
        .join(StudyJob, StudyJob.job_id == Job.id)
        .where(StudyJob.study_id == study.id)
    ).one()
    return f"study:{study.id}:{last[0]}:{_text(last[1])}"


def _text(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()
