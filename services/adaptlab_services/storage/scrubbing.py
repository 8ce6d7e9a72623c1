"""Reading what is stored and holding it against its digest, a share at a time."""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import Located, stores_of
from adaptlab_db.errors import BytesMissing, StoreNotConfigured, StoreUnreachable
from adaptlab_db.stores.store import Place
from adaptlab_db.tables import Artifact

SHARE_BYTES = 2**30
"""How much one round reads at most; what is left over comes in the next one."""

AT_ONCE = 100
KEPT = ("ready", "quarantined")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What one round found.

    Attributes:
        checked: artifacts that were read.
        size: their bytes.
        quarantined: the digests of those whose bytes are others, or not there.
        mended: how many had been quarantined before and are whole again.
    """

    checked: int
    size: int
    quarantined: tuple[str, ...]
    mended: int


@dataclass(frozen=True, slots=True)
class _Due:
    located: Located
    state: str


def scrub(
    sessions: sessionmaker[Session],
    every: timedelta | None = None,
    most_bytes: int | None = SHARE_BYTES,
) -> Scrubbed:
    """Read artifacts, the ones not looked at for longest first, and quarantine what is damaged.

    Args:
        sessions: the database, and the stores.
        every: only artifacts that were not read for so long; None reads all, those in quarantine
            too.
        most_bytes: where to stop; None is nowhere.
    """
    checked, size, mended = 0, 0, 0
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
        mended += fault is None and due.state == "quarantined"
    return Scrubbed(checked, size, tuple(quarantined), mended)


def _due(sessions: sessionmaker[Session], every: timedelta | None) -> Iterator[_Due]:
    """What was not read for longest first, some rows at a time, and none of them twice."""
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
            place = Place(row.store, row.sha256, row.key)
            yield _Due(Located(place, row.size), row.state)
        if len(rows) < AT_ONCE:
            return
        last = tuple_(rows[-1].last_read, rows[-1].sha256)
        rest = query.where(tuple_(last_read, Artifact.sha256) > last)


def _fault(sessions: sessionmaker[Session], located: Located) -> str | None:
    """What is wrong with the bytes at a place; None if they are the right ones."""
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


def _note(sessions: sessionmaker[Session], place: Place, fault: str | None) -> bool:
    """Write down what was found, unless the bytes have been moved or deleted since."""
    told = fault and (
        f"A check of the stored bytes failed: {fault} Restore them from a backup, or run the "
        "job again."
    )
    with sessions.begin() as session:
        noted = session.execute(
            update(Artifact)
            .where(
                Artifact.sha256 == place.sha256,
                Artifact.store == place.store,
                Artifact.key.is_not_distinct_from(place.key),
                Artifact.state != "collected",
            )
            .values(
                state="ready" if fault is None else "quarantined",
                reason=told,
                checked_at=func.clock_timestamp(),
            )
            .returning(Artifact.sha256)
            .execution_options(synchronize_session=False)
        )
        return noted.one_or_none() is not None
