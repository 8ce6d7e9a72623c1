"""Moving artifacts between stores while they are in use."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore, LocatedArtifact, stores_of, streamed
from adaptlab_db.errors import ArtifactGone, ArtifactNotFound, BytesMissing
from adaptlab_db.stores.store import BytesPlace, Store
from adaptlab_db.tables import Artifact


@dataclass(frozen=True, slots=True)
class MovedArtifacts:
    """Result of a move; `skipped` were deleted, moved or damaged meanwhile."""

    count: int
    size: int
    skipped: int


def move_artifacts(sessions: sessionmaker[Session], to: str, at_least: int = 0) -> MovedArtifacts:
    """Move every artifact of at least `at_least` bytes to the store `to`.

    Each artifact is copied, read back and compared with its digest before the table refers to the
    new place; only then is the old copy deleted. A reader continues at the new place. If a move is
    interrupted, the next call finishes it.

    Raises:
        StoreNotConfigured: the store is not configured here.
        StoreUnreachable: a store did not answer; earlier artifacts stay moved.
    """
    with sessions() as session:
        target = stores_of(session).named(to)
    count, size, skipped = 0, 0, 0
    for located in _elsewhere(sessions, to, at_least):
        if _move_one(sessions, located, target):
            count, size = count + 1, size + located.size
        else:
            skipped += 1
    return MovedArtifacts(count, size, skipped)


def _elsewhere(
    sessions: sessionmaker[Session], to: str, at_least: int
) -> Sequence[LocatedArtifact]:
    query = (
        select(Artifact.sha256, Artifact.size, Artifact.store, Artifact.key)
        .where(Artifact.store != to, Artifact.state == "ready", Artifact.size >= at_least)
        .order_by(Artifact.sha256)
    )
    with sessions() as session:
        rows = session.execute(query).all()
    return [LocatedArtifact(BytesPlace(row.store, row.sha256, row.key), row.size) for row in rows]


def _move_one(sessions: sessionmaker[Session], located: LocatedArtifact, target: Store) -> bool:
    """Move one artifact; return False if it was not moved."""
    old = located.place
    with sessions.begin() as session:
        try:
            new = target.put(session, old.sha256, streamed(sessions, old.sha256))
        except (ArtifactGone, ArtifactNotFound, BytesMissing):
            session.rollback()
            return False
        is_whole = _digest(session, target, new, located.size) == old.sha256
        if is_whole and _flip(session, old, new):
            ArtifactStore(session).drop(old)
            return True
        session.rollback()
    if not target.is_transactional:
        with sessions() as session:
            target.delete(session, new)
    return False


def _digest(session: Session, store: Store, place: BytesPlace, size: int) -> str:
    digest, start = hashlib.sha256(), 0
    while start < size:
        content = store.read(session, place, start, size)
        digest.update(content)
        start += len(content)
    return digest.hexdigest()


def _flip(session: Session, old: BytesPlace, new: BytesPlace) -> bool:
    """Point the artifact at its new place; return False if it has moved."""
    flipped = session.execute(
        update(Artifact)
        .where(
            Artifact.sha256 == old.sha256,
            Artifact.store == old.store,
            Artifact.key.is_not_distinct_from(old.key),
            Artifact.state == "ready",
        )
        .values(store=new.store, key=new.key, checked_at=func.clock_timestamp())
        .returning(Artifact.sha256)
        .execution_options(synchronize_session=False)
    )
    return flipped.one_or_none() is not None
