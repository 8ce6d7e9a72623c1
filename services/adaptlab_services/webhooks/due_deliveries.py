"""Deliveries that are due: taken by one worker at a time, and recorded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, select, true, update
from sqlalchemy.orm import Session, aliased

from adaptlab_answers.webhooks import MessageType
from adaptlab_db.tables import Webhook, WebhookDelivery
from adaptlab_services.pace import Backoff
from adaptlab_services.webhooks.sending import DeliveryOutcome

MOST_ATTEMPTS = 10
DELAYS = Backoff(timedelta(seconds=10), 4, timedelta(hours=6))
"""About 10 s, 40 s, 160 s and so on, up to 6 hours."""
HOLD = timedelta(minutes=5)
"""How long a worker has for an attempt; after that another one may try."""
MOST_AT_ONCE = 200
MOST_PER_PROJECT = 10
"""Deliveries of one project that a process sends at once, so that none keeps others waiting."""
MOST_PER_WEBHOOK = 10
KEPT_DAYS = 30
"""Days for which ended deliveries are kept."""


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that this worker sends now; `number` is the attempt."""

    id: UUID
    number: int
    webhook_id: int
    project_id: int
    url: str
    format: str
    secret: str
    event: MessageType
    job_id: UUID | None
    study_id: UUID | None
    worker_id: UUID | None
    created_at: datetime


def claim(
    session: Session, in_flight: Mapping[int, int] = MappingProxyType({})
) -> Sequence[ClaimedDelivery]:
    """Take deliveries that are due, of every project some.

    `in_flight` are the numbers that this process is sending, by project.
    """
    due = aliased(WebhookDelivery)
    oldest = (
        select(due.id, due.next_attempt_at)
        .where(
            due.webhook_id == Webhook.id,
            due.state == "pending",
            due.next_attempt_at <= func.clock_timestamp(),
        )
        .order_by(due.next_attempt_at)
        .limit(MOST_PER_WEBHOOK)
        .with_for_update(skip_locked=True)
        .correlate(Webhook)
        .lateral()
    )
    busy = [project for project, count in in_flight.items() if count >= MOST_PER_PROJECT]
    found = session.execute(
        select(Webhook.project_id, oldest.c.id)
        .select_from(Webhook)
        .join(oldest, true())
        .where(Webhook.enabled, Webhook.project_id.not_in(busy))
        .order_by(oldest.c.next_attempt_at)
    )
    ids = _in_turn([(row[0], row[1]) for row in found], in_flight)
    if not ids:
        return ()
    row = WebhookDelivery
    session.execute(
        update(row)
        .where(row.id.in_(ids))
        .values(attempts=row.attempts + 1, next_attempt_at=func.clock_timestamp() + HOLD)
        .execution_options(synchronize_session=False)
    )
    query = select(row, Webhook).join(Webhook, Webhook.id == row.webhook_id).where(row.id.in_(ids))
    return tuple(_claimed(*pair) for pair in session.execute(query))


def _in_turn(due: Sequence[tuple[int, UUID]], in_flight: Mapping[int, int]) -> list[UUID]:
    """Return the first deliveries, one of each project in turn.

    A project gets fewer by those that are being sent.
    """
    places: Counter[int] = Counter(in_flight)
    placed: list[tuple[int, UUID]] = []
    for project, delivery in due:
        placed.append((places[project], delivery))
        places[project] += 1
    placed.sort(key=lambda one: one[0])  # stable: the oldest first
    room = max(0, MOST_AT_ONCE - sum(in_flight.values()))
    return [delivery for place, delivery in placed if place < MOST_PER_PROJECT][:room]


def record(session: Session, claimed: ClaimedDelivery, outcome: DeliveryOutcome) -> None:
    """Record the outcome of an attempt, unless a later attempt has begun."""
    row = WebhookDelivery
    session.execute(
        update(row)
        .where(row.id == claimed.id, row.attempts == claimed.number, row.state == "pending")
        .values(_ended(claimed.number, outcome))
        .execution_options(synchronize_session=False)
    )


def forget_old(session: Session) -> int:
    """Delete ended deliveries after `KEPT_DAYS`; return their number."""
    old = WebhookDelivery.ended_at < func.clock_timestamp() - timedelta(days=KEPT_DAYS)
    gone = session.execute(
        delete(WebhookDelivery)
        .where(old)
        .returning(WebhookDelivery.id)
        .execution_options(synchronize_session=False)
    )
    return len(gone.all())


def _claimed(row: WebhookDelivery, webhook: Webhook) -> ClaimedDelivery:
    event: Any = row.event  # one of those that `relay` and `send_test` write
    return ClaimedDelivery(
        id=row.id,
        number=row.attempts,
        webhook_id=webhook.id,
        project_id=webhook.project_id,
        url=webhook.url,
        format=webhook.format,
        secret=webhook.secret,
        event=event,
        job_id=row.job_id,
        study_id=row.study_id,
        worker_id=row.worker_id,
        created_at=row.created_at,
    )


def _ended(number: int, outcome: DeliveryOutcome) -> dict[str, Any]:
    values: dict[str, Any] = {"status": outcome.status, "error": outcome.error}
    if outcome.error is None:
        return values | {"state": "delivered", "ended_at": func.clock_timestamp()}
    if number >= MOST_ATTEMPTS:
        return values | {"state": "failed", "ended_at": func.clock_timestamp()}
    return values | {"next_attempt_at": func.clock_timestamp() + DELAYS.after(number)}
