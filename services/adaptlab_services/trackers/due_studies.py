"""Studies that are due on a tracker, taken by one process at a time.

A tracker gets one study at a time, because it could not tell two that create the same run at once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import case, exists, func, null, select, true, update
from sqlalchemy.orm import Session

from adaptlab_answers.trackers.views import TrackerKind
from adaptlab_db.tables import TrackedStudy, Tracker
from adaptlab_services.pace import Backoff

HOLD = timedelta(minutes=2)
"""How long a process has a tracker without a sign of life, longer than any request lasts."""
DELAYS = Backoff(timedelta(seconds=10), 2, timedelta(hours=1))
"""After refusals: about 10 s, 20 s, 40 s and so on, up to an hour, without end."""


@dataclass(frozen=True, slots=True)
class ClaimedStudy:
    """A study that this process sends now; `number` is the sending.

    `changes` and `sent` are those of the study's row when it was claimed.
    """

    tracker_id: int
    number: int
    project_id: int
    kind: TrackerKind
    url: str
    experiment: str
    sealed: bytes | None
    study_id: UUID
    changes: int
    sent: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sending:
    """The outcome of sending a study.

    Attributes:
        sent: the stamps of its ended jobs that the tracker has.
        pause: time until it is sent again; None if the tracker has all of it.
        error: why the tracker refused it, if it did.
    """

    sent: Mapping[str, str]
    pause: timedelta | None
    error: str | None = None


class TrackerNotHeld(Exception):
    """The tracker was removed, or another process has taken it over."""


def is_anything_due(session: Session) -> bool:
    """Return True if a study is due on a tracker that can be asked."""
    now = func.clock_timestamp()
    due = TrackedStudy.due_at <= now, Tracker.next_attempt_at <= now
    joined = exists().where(Tracker.id == TrackedStudy.tracker_id, *due)
    return session.scalars(select(joined)).one()


def claim(session: Session, busy: Collection[int] = ()) -> ClaimedStudy | None:
    """Take the study that is due for longest, of projects that are not busy."""
    now, row = func.clock_timestamp(), TrackedStudy
    oldest = (
        select(row.study_id, row.due_at)
        .where(row.tracker_id == Tracker.id, row.due_at <= now)
        .order_by(row.due_at)
        .limit(1)
        .correlate(Tracker)
        .lateral()
    )
    found = session.execute(
        select(Tracker, oldest.c.study_id)
        .join(oldest, true())
        .where(Tracker.next_attempt_at <= now, Tracker.project_id.not_in(busy))
        .order_by(oldest.c.due_at)
        .limit(1)
        .with_for_update(of=Tracker, skip_locked=True)
    ).one_or_none()
    if found is None:
        return None
    tracker: Tracker = found[0]
    tracker.claims += 1
    session.flush()
    hold(session, tracker.id, tracker.claims)
    study = session.get_one(TrackedStudy, (tracker.id, found[1]))
    kind: TrackerKind = "mlflow" if tracker.kind == "mlflow" else "trackio"
    return ClaimedStudy(
        tracker_id=tracker.id,
        number=tracker.claims,
        project_id=tracker.project_id,
        kind=kind,
        url=tracker.url,
        experiment=tracker.experiment,
        sealed=tracker.sealed,
        study_id=study.study_id,
        changes=study.changes,
        sent=study.sent,
    )


def hold(session: Session, tracker_id: int, number: int) -> None:
    """Hold a tracker for longer; raises `TrackerNotHeld`."""
    _change(session, tracker_id, number, next_attempt_at=func.clock_timestamp() + HOLD)


def record(session: Session, claimed: ClaimedStudy, sending: Sending) -> None:
    """Record the outcome of a sending; raises `TrackerNotHeld`."""
    now, row, tracker = func.clock_timestamp(), TrackedStudy, Tracker
    key = (claimed.tracker_id, claimed.number)
    if sending.error is None:
        _change(session, *key, failures=0, next_attempt_at=now, sent_at=now)
        later = null() if sending.pause is None else now + sending.pause
        due = case((row.changes != claimed.changes, now), else_=later)
        failures: object = 0
    else:
        query = select(tracker.failures).where(tracker.id == claimed.tracker_id)
        number = 1 + (session.scalars(query).one_or_none() or 0)
        _change(session, *key, failures=number, next_attempt_at=now + DELAYS.after(number))
        due = now + DELAYS.after(1 + _failures(session, claimed))
        failures = row.failures + 1
    values = {"due_at": due, "failures": failures, "error": sending.error, "sent": sending.sent}
    session.execute(
        update(row)
        .where(row.tracker_id == claimed.tracker_id, row.study_id == claimed.study_id)
        .values(values)
        .execution_options(synchronize_session=False)
    )


def _failures(session: Session, claimed: ClaimedStudy) -> int:
    key = (claimed.tracker_id, claimed.study_id)
    study = session.get(TrackedStudy, key)
    return 0 if study is None else study.failures


def _change(session: Session, tracker_id: int, number: int, **values: object) -> None:
    changed = session.execute(
        update(Tracker)
        .where(Tracker.id == tracker_id, Tracker.claims == number)
        .values(values)
        .returning(Tracker.id)
        .execution_options(synchronize_session=False)
    )
    if changed.one_or_none() is None:
        raise TrackerNotHeld
