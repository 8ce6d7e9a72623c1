"""How much is stored, where, and in which state."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_db.artifacts import is_referenced
from adaptlab_db.tables import Artifact
from adaptlab_services.moments import Moment


class StoredShare(Value):
    """The artifacts in one store and one state."""

    store: str
    state: str
    artifacts: int
    bytes: int
    least_recently_checked: Moment | None


class StorageStatus(Value):
    """All artifacts, by store and state, and those that nothing refers to."""

    shares: tuple[StoredShare, ...]
    unreferenced: int
    unreferenced_bytes: int


def status(session: Session) -> StorageStatus:
    """What there is at this moment; an artifact never checked counts from when it was stored."""
    last_read = func.coalesce(Artifact.checked_at, Artifact.created_at)
    rows = session.execute(
        select(
            Artifact.store,
            Artifact.state,
            func.count(),
            func.sum(Artifact.size),
            func.min(last_read),
        )
        .group_by(Artifact.store, Artifact.state)
        .order_by(Artifact.store, Artifact.state)
    )
    shares = tuple(
        StoredShare(
            store=store,
            state=state,
            artifacts=count,
            bytes=int(size),
            least_recently_checked=oldest,
        )
        for store, state, count, size, oldest in rows
    )
    count, size = session.execute(
        select(func.count(), func.coalesce(func.sum(Artifact.size), 0)).where(~is_referenced())
    ).one()
    return StorageStatus(shares=shares, unreferenced=count, unreferenced_bytes=int(size))
