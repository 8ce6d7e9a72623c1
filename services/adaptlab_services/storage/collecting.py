"""Garbage collection: unreferenced artifacts, and files past retention."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice

from sqlalchemy import ColumnElement, and_, delete, exists, false, func, or_, select, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore, is_referenced, references, stores_of
from adaptlab_db.errors import StoreUnreachable
from adaptlab_db.job_states import ACTIVE_STATES, TERMINAL_STATES
from adaptlab_db.stores.store import POSTGRES, BytesPlace, KeptKey, Store, owner_in, owner_of
from adaptlab_db.tables import (
    Artifact,
    AttentionMapRow,
    BaseModel,
    CheckpointRow,
    Job,
)
from adaptlab_services.lifecycle import awaiting
from adaptlab_services.storage import uploads

UNREFERENCED_FOR = timedelta(hours=24)
"""How long unreferenced bytes stay, as a reference may be about to follow."""
AT_ONCE = 100
AT_ONCE_BYTES = 2**30
"""Most bytes deleted by one statement, unless one artifact is larger."""
KEEP = "keep"
"""Label of jobs whose files are never collected, whatever its value."""
Collector = Callable[[Session], list[int]]


@dataclass(frozen=True, slots=True)
class Retention:
    """Days after a job's end for which its files are kept; None is forever."""

    attention_days: float | None = None
    checkpoint_days: float | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Result of a collection.

    Attributes:
        unreferenced: number of artifacts without references.
        expired: number of artifacts past retention; their rows stay, with the reason.
        strays: number of files outside the database that belong to no artifact.
        size: bytes of the artifacts.
        uploads: number of uploads that were not completed or not used in time.
    """

    unreferenced: int = 0
    expired: int = 0
    strays: int = 0
    size: int = 0
    uploads: int = 0


def collect(
    sessions: sessionmaker[Session],
    retention: Retention = Retention(),
    unreferenced_for: timedelta = UNREFERENCED_FOR,
    strays_after: timedelta = UNREFERENCED_FOR,
) -> Collected:
    """Delete everything that can be collected; safe to run concurrently.

    Args:
        sessions: the database and the stores.
        retention: how long jobs' files are kept.
        unreferenced_for: how long artifacts without references stay.
        strays_after: how long files that belong to no artifact stay; must be longer than the
            longest write takes.
    """
    ended = _until_none_is_left(sessions, uploads.expire)
    expired = _until_none_is_left(sessions, lambda session: _expire(session, retention))
    gone = _until_none_is_left(
        sessions, lambda session: _delete_unreferenced(session, unreferenced_for)
    )
    return Collected(
        unreferenced=len(gone),
        expired=len(expired),
        strays=_delete_strays(sessions, strays_after),
        size=sum(gone) + sum(expired),
        uploads=len(ended),
    )


def _until_none_is_left(sessions: sessionmaker[Session], collect_some: Collector) -> list[int]:
    """Collect batch by batch, each in a unit of work; return all sizes."""
    sizes: list[int] = []
    while True:
        with sessions.begin() as session:
            some = collect_some(session)
        sizes += some
        if not some:
            return sizes


def _delete_unreferenced(session: Session, older_than: timedelta) -> list[int]:
    age = func.clock_timestamp() - older_than
    may_go = and_(Artifact.last_referenced_at < age, ~is_referenced())
    rows = session.execute(
        delete(Artifact)
        # Checked again under the lock, because a reference may have been committed between the
        # query that found them and the lock.
        .where(Artifact.sha256.in_(_locked(session, may_go)), may_go)
        .returning(Artifact.sha256, Artifact.size, Artifact.store, Artifact.key)
        .execution_options(synchronize_session=False)
    ).all()
    for row in rows:
        ArtifactStore(session).drop(BytesPlace(row.store, row.sha256, row.key))
    return [row.size for row in rows]


def _expire(session: Session, retention: Retention) -> list[int]:
    may_go = and_(Artifact.state == "ready", is_referenced(), _only_by_expired(retention))
    chosen = _locked(session, may_go)
    places = session.execute(
        select(Artifact.sha256, Artifact.size, Artifact.store, Artifact.key).where(
            Artifact.sha256.in_(chosen), may_go
        )
    ).all()
    session.execute(
        update(Artifact)
        .where(Artifact.sha256.in_([row.sha256 for row in places]))
        .values(state="collected", store=POSTGRES, key=None, reason=_reason(retention))
        .execution_options(synchronize_session=False)
    )
    for row in places:
        ArtifactStore(session).drop(BytesPlace(row.store, row.sha256, row.key))
    return [row.size for row in places]


def _locked(session: Session, may_go: ColumnElement[bool]) -> Sequence[str]:
    """Return some artifacts, locked so that no reference to them can be added."""
    rows = session.execute(
        select(Artifact.sha256, Artifact.size)
        .where(may_go)
        .order_by(Artifact.sha256)
        .limit(AT_ONCE)
        .with_for_update(skip_locked=True)
    ).all()
    sums = accumulate(row.size for row in rows)
    few = sum(1 for size in sums if size <= AT_ONCE_BYTES)
    return [row.sha256 for row in rows[: max(few, 1)]]


def _only_by_expired(retention: Retention) -> ColumnElement[bool]:
    """Return the condition that only jobs past retention refer to an artifact."""
    limits = {
        AttentionMapRow.__tablename__: retention.attention_days,
        CheckpointRow.__tablename__: retention.checkpoint_days,
    }
    needed: list[ColumnElement[bool]] = []
    for column in references():
        days = limits.get(column.class_.__tablename__)
        if days is None:
            needed.append(exists().where(column == Artifact.sha256))
            continue
        job = column.class_.job_id == Job.id
        needed.append(exists().where(column == Artifact.sha256, job, ~_is_expired(days)))
    return ~or_(false(), *needed)


def _is_expired(days: float) -> ColumnElement[bool]:
    """Return the condition that a job is past retention and no longer needed."""
    base_model_jobs = select(BaseModel.job_id)
    return and_(
        Job.state.in_(TERMINAL_STATES),
        Job.finished_at < func.clock_timestamp() - timedelta(days=days),
        ~Job.labels.has_key(KEEP),
        Job.id.not_in(base_model_jobs),
        Job.id.not_in(awaiting.measured_by(ACTIVE_STATES)),
    )


def _reason(retention: Retention) -> str:
    limits = {"attention maps": retention.attention_days, "checkpoints": retention.checkpoint_days}
    days = " and ".join(
        f"{files} {limit:g}" for files, limit in limits.items() if limit is not None
    )
    return (
        f"This server keeps files for a limited number of days after the end of a job: {days}. "
        f"Run the job again to get them back. Jobs with the label {KEEP!r} keep their files."
    )


def _delete_strays(sessions: sessionmaker[Session], older_than: timedelta) -> int:
    """Delete files that an interrupted write left outside the database.

    Other databases may keep artifacts in the same folder or bucket; theirs stay.
    """
    with sessions() as session:
        known, owner = stores_of(session).known, owner_of(session)
    before = datetime.now(UTC) - older_than
    return sum(_delete_strays_of(sessions, store, owner, before) for store in known.values())


def _delete_strays_of(
    sessions: sessionmaker[Session], store: Store, owner: str, before: datetime
) -> int:
    mine = (kept for kept in store.kept() if owner_in(kept.key) == owner)
    old = (kept for kept in mine if kept.modified_at < before)
    count = 0
    try:
        while some := list(islice(old, AT_ONCE)):
            with sessions() as session:
                for key in _without_artifact(session, store, some):
                    # Keys are never reused, so no artifact can take this one in the meantime.
                    store.delete(session, BytesPlace(store.name, "", key))
                    count += 1
    except StoreUnreachable:
        return count  # the next round continues
    return count


def _without_artifact(session: Session, store: Store, some: Sequence[KeptKey]) -> Iterator[str]:
    keys = [kept.key for kept in some]
    taken = session.scalars(
        select(Artifact.key).where(Artifact.store == store.name, Artifact.key.in_(keys))
    )
    return iter(set(keys) - set(taken))
