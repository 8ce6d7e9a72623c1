"""Quotas per owner: queue hours in thirty days, and stored bytes.

A quota never stops running jobs. An owner who has used it up cannot submit or upload until part of
it is free again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Self

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_answers.people import QueueUse, Quotas, UserUsage
from adaptlab_db.session import informed
from adaptlab_db.tables import UsageCount, User
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import QuotaReached
from adaptlab_services.limits import usage_counts
from adaptlab_services.limits.usage_counts import DAYS, Counted
from adaptlab_services.settings import Settings

_QUOTAS = "quotas"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The quotas that apply to a user: their own, otherwise the server's."""

    queue_hours: Mapping[str, float]
    stored_bytes: int | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the quotas of a server."""
        return cls(settings.max_queue_hours, settings.max_stored_bytes)

    def with_own(self, own: Quotas) -> "Allowed":
        """Return these quotas, replaced by a user's own where those are set."""
        most = self.stored_bytes if own.stored_bytes is None else own.stored_bytes
        return Allowed(dict(self.queue_hours) | own.queue_hours, most)


_NONE = Allowed({}, None)


def bounded(sessions: sessionmaker[Session], allowed: Allowed) -> sessionmaker[Session]:
    """Return the same sessions, which enforce these quotas."""
    return informed(sessions, _QUOTAS, allowed)


def own_of(row: User) -> Quotas:
    """Return the quotas that an admin has set for a user."""
    return Quotas(queue_hours=row.max_queue_hours or {}, stored_bytes=row.max_stored_bytes)


def check_jobs(session: Session, owner_id: int, queues: Collection[str]) -> None:
    """Raise `QuotaReached` if the owner has no hours or no room left.

    Without quotas this takes one statement; with quotas it takes a few more.
    """
    if not queues:
        return
    current = allowance_of(session, owner_id)
    allowed = current.allowed
    limited = {name: allowed.queue_hours[name] for name in queues if name in allowed.queue_hours}
    if not limited and allowed.stored_bytes is None:
        return
    counted = current.counted(session, owner_id)
    for queue in sorted(limited):
        used = _queue_use(counted, queue, limited[queue])
        if used.frees_at is not None:
            raise QuotaReached.of_hours(queue, used.hours, limited[queue], DAYS, used.frees_at)
    if allowed.stored_bytes is not None:
        stored = counted.job_bytes + usage_counts.other_bytes(session, owner_id)
        if stored >= allowed.stored_bytes:
            raise QuotaReached.of_bytes(stored, allowed.stored_bytes)


def check_room(session: Session, owner_id: int, more_bytes: int) -> None:
    """Raise `QuotaReached` if the owner has no room for this many more bytes.

    With `more_bytes` 0, it raises only if the owner is already above the quota.
    """
    current = allowance_of(session, owner_id)
    allowed = current.allowed
    if allowed.stored_bytes is None:
        return
    counted = current.counted(session, owner_id)
    stored = counted.job_bytes + usage_counts.other_bytes(session, owner_id) + more_bytes
    if stored > allowed.stored_bytes:
        raise QuotaReached.of_bytes(stored, allowed.stored_bytes)


def usage(session: Session, user_id: int) -> UserUsage:
    """Return a user's hours and stored bytes in all projects."""
    current = allowance_of(session, user_id)
    allowed, counted = current.allowed, current.counted(session, user_id)
    queues = sorted({*counted.queues(), *allowed.queue_hours})
    return UserUsage(
        days=DAYS,
        queues=tuple(_queue_use(counted, name, allowed.queue_hours.get(name)) for name in queues),
        stored_bytes=counted.job_bytes + usage_counts.other_bytes(session, user_id),
        most_stored_bytes=allowed.stored_bytes,
        counted_at=counted.counted_at,
    )


_USERS = User.metadata.tables[User.__tablename__]
_COUNTS = UsageCount.metadata.tables[UsageCount.__tablename__]
_LOOKED_AT = (
    _USERS.c.max_queue_hours,
    _USERS.c.max_stored_bytes,
    _COUNTS.c.counted_at,
    _COUNTS.c.hours,
    _COUNTS.c.job_bytes,
    (_COUNTS.c.counted_until > func.clock_timestamp()).label("is_fresh"),
)


_OF_USERS = _USERS.outerjoin(_COUNTS, _COUNTS.c.user_id == _USERS.c.id)
_LOOK = select(*_LOOKED_AT).select_from(_OF_USERS).where(_USERS.c.id == bindparam("user_id"))


@dataclass(frozen=True, slots=True)
class Allowance:
    """A user's quotas, and the last count of their use, if any."""

    allowed: Allowed
    last: Counted | None
    is_fresh: bool

    def counted(self, session: Session, user_id: int) -> Counted:
        """Return the last count, or count again if it is stale.

        The stale count is returned if another request is counting.
        """
        if self.last is None:
            return usage_counts.count(session, user_id)
        if self.is_fresh or not usage_counts.is_first_to_count(session, user_id):
            return self.last
        # Another request may have counted since this was read, because creating jobs can wait.
        now = allowance_of(session, user_id)
        if now.last is not None and now.is_fresh:
            return now.last
        return usage_counts.count(session, user_id)


def allowance_of(session: Session, user_id: int) -> Allowance:
    """Return a user's quotas and the last count of their use."""
    row = session.execute(_LOOK, {"user_id": user_id}, execution_options=ACROSS_PROJECTS).one()
    server = session.info.get(_QUOTAS, _NONE)
    assert isinstance(server, Allowed)
    own = Quotas(queue_hours=row.max_queue_hours or {}, stored_bytes=row.max_stored_bytes)
    last = None
    if row.counted_at is not None:
        last = Counted.stored(row.counted_at, row.hours, row.job_bytes)
    return Allowance(server.with_own(own), last, bool(row.is_fresh))


def _queue_use(counted: Counted, queue: str, most: float | None) -> QueueUse:
    by_day = counted.by_day(queue)
    hours = sum(by_day.values())
    frees_at = _frees_at(by_day, most) if most is not None and hours >= most else None
    return QueueUse(queue=queue, hours=round(hours, 4), most_hours=most, frees_at=frees_at)


def _frees_at(by_day: Mapping[date, float], most: float) -> datetime:
    """Return the first midnight at which the use until now is below the limit."""
    left = sum(by_day.values())
    last = max(by_day, default=datetime.now(UTC).date())
    for day in sorted(by_day):
        left -= by_day[day]
        if left < most:
            last = day
            break
    return datetime.combine(last + timedelta(days=DAYS), time(), UTC)
