"""Content that the server itself writes, over many units of work."""

import hashlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore, StoredArtifact
from adaptlab_db.session import allow_pauses
from adaptlab_db.staging import UNHURRIED, put_rows, stage, unstage
from adaptlab_db.stores.postgres import of_equal_size
from adaptlab_services.storage.uploads import LONGEST_PAUSE, LONGEST_WAIT


@dataclass(frozen=True, slots=True)
class StagedContent:
    """Content that is written and not an artifact yet."""

    name: str
    artifact: StoredArtifact

    def settle(self, session: Session) -> None:
        """Make the content an artifact, in the caller's unit of work."""
        # Another request may be storing equal content, and a slow store can cause long pauses.
        session.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT}'"))
        allow_pauses(session, LONGEST_PAUSE)
        ArtifactStore(session).settle(self.name, self.artifact)


@contextmanager
def staged(sessions: sessionmaker[Session], pieces: Iterable[bytes]) -> Generator[StagedContent]:
    """Write content piece by piece; delete it at the end unless settled.

    Each row of 1 MiB is its own unit of work, so the pieces can come slowly. After a crash, the
    rows are collected like unreferenced artifacts.
    """
    name = f"content:{uuid4()}"
    with sessions.begin() as session:
        stage(session, name, 0)
    try:
        digest, size = hashlib.sha256(), 0
        for number, row in enumerate(of_equal_size(pieces)):
            digest.update(row)
            size += len(row)
            with sessions.begin() as session:
                session.execute(select(UNHURRIED))
                put_rows(session, name, number, [row])
        yield StagedContent(name, StoredArtifact(digest.hexdigest(), size))
    finally:
        with sessions.begin() as session:
            unstage(session, name)
