"""Count and size of stored artifacts, by store and state."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from adaptlab_answers.storage import StorageStatus, StoredShare
from adaptlab_db.artifacts import is_referenced
from adaptlab_db.tables import Artifact


def status(session: Session) -> StorageStatus:
    """Return the current counts and sizes of stored artifacts.

    An artifact that was never checked counts as checked when it was stored.
    """
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
