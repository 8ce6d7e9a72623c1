"""Scrubbing: reading stored bytes and comparing them with their digests."""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import LocatedArtifact, stores_of
from adaptlab_db.errors import BytesMissing, StoreNotConfigured, StoreUnreachable
from adaptlab_db.stores.store import BytesPlace
from adaptlab_db.tables import Artifact

SHARE_BYTES = 2**30
"""Most bytes that one round reads; the rest follows in the next round."""

AT_ONCE = 100
KEPT = ("ready", "quarantined")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """Result of one round.

    Attributes:
        checked: number of artifacts that were read.
        size: their bytes.
        quarantined: digests of artifacts whose bytes are damaged or missing.
        repaired: number of quarantined artifacts whose bytes are intact again.
    """

    checked: int
    size: int
    quarantined: tuple[str, ...]
    repaired: int


@dataclass(frozen=True, slots=True)
class _Due:
    located: LocatedArtifact
    state: str


def scrub(
    sessions: sessionmaker[Session],
    every: timedelta | None = None,
    most_bytes: int | None = SHARE_BYTES,
) -> Scrubbed:
    """Check artifacts, the least recently checked first.

    Those whose bytes are damaged or missing are quarantined.

    Args:
        sessions: the database and the stores.
        every: only artifacts that were not read for this long; None reads all, quarantined ones
            included.
        most_bytes: bytes after which to stop; None for no limit.
    """
    checked, size, repaired = 0, 0, 0
    quarantined: list[str] = []
    for due in _due(sessions, every):
        if most_bytes is not None and size >= most_bytes:
            break
        try:
            fault = _fault(sessions, due.located)
        except (StoreUnreachable, StoreNotConfigured) as error:
            log.warning("artifact %s was not checked: %s", due.located.place.sha256, error)
            continue
        checked, size = checked + 1, size + due.located.size
        if not _note(sessions, due.located.place, fault):
            continue
        if fault is not None:
            log.error("artifact %s is quarantined: %s", due.located.place.sha256, fault)
            quarantined.append(due.located.place.sha256)
        repaired += fault is None and due.state == "quarantined"
    return Scrubbed(checked, size, tuple(quarantined), repaired)


def _due(sessions: sessionmaker[Session], every: timedelta | None) -> Iterator[_Due]:
    """Yield each artifact to check, the least recently checked first."""
    with sessions() as session:
        began = session.scalars(select(func.clock_timestamp())).one()
    last_read = func.coalesce(Artifact.checked_at, Artifact.created_at)
    columns = (Artifact.sha256, Artifact.size, Artifact.store, Artifact.key, Artifact.state)
    query = (
        select(*columns, last_read.label("last_read"))
        .where(Artifact.state.in_(KEPT), last_read < (began if every is None else began - every))
        .order_by(last_read, Artifact.sha256)
        .limit(AT_ONCE)
    )
    if every is not None:
        query = query.where(Artifact.state == "ready")
    rest = query
    while True:
        with sessions() as session:
            rows = session.execute(rest).all()
        for row in rows:
            place = BytesPlace(row.store, row.sha256, row.key)
            yield _Due(LocatedArtifact(place, row.size), row.state)
        if len(rows) < AT_ONCE:
            return
        last = tuple_(rows[-1].last_read, rows[-1].sha256)
        rest = query.where(tuple_(last_read, Artifact.sha256) > last)


def _fault(sessions: sessionmaker[Session], located: LocatedArtifact) -> str | None:
    """Return what is wrong with the bytes at a place, or None."""
    digest, start = hashlib.sha256(), 0
    while start < located.size:
        with sessions() as session:
            store = stores_of(session).named(located.place.store)
            try:
                content = store.read(session, located.place, start, located.size)
            except BytesMissing:
                return f"only {start} of its {located.size} bytes are in the store {store.name}."
        digest.update(content)
        start += len(content)
    if digest.hexdigest() != located.place.sha256:
        return f"its bytes in the store {located.place.store} have another SHA-256."
    return None


def _note(sessions: sessionmaker[Session], place: BytesPlace, fault: str | None) -> bool:
    """Record the result, unless the bytes were moved or deleted meanwhile."""
    reason = fault and (
        f"A check of the stored bytes failed: {fault} Restore them from a backup, or run the "
        "job again."
    )
    with sessions.begin() as session:
        updated = session.execute(
            update(Artifact)
            .where(
                Artifact.sha256 == place.sha256,
                Artifact.store == place.store,
                Artifact.key.is_not_distinct_from(place.key),
                Artifact.state != "collected",
            )
            .values(
                state="ready" if fault is None else "quarantined",
                reason=reason,
                checked_at=func.clock_timestamp(),
            )
            .returning(Artifact.sha256)
            .execution_options(synchronize_session=False)
        )
        return updated.one_or_none() is not None
