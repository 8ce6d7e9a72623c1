"""Content-addressed bytes, read and written as streams.

One piece is in memory at a time. The table of artifacts records the store of the bytes; see
`adaptlab_db.stores`.
"""

import hashlib
import tempfile
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from sqlalchemy import ColumnElement, delete, event, exists, func, insert, or_, select, update
from sqlalchemy import ForeignKey as Reference
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import InstrumentedAttribute, Session, sessionmaker

from adaptlab_db.errors import (
    ArtifactGone,
    ArtifactNotFound,
    BytesMissing,
    StoreUnreachable,
    WrongBytes,
)
from adaptlab_db.staging import staged_bytes
from adaptlab_db.stores.postgres import CHUNK_BYTES, PostgresStore, of_equal_size
from adaptlab_db.stores.store import POSTGRES, BytesPlace, Stores
from adaptlab_db.tables import Artifact, ArtifactChunk, Table

__all__ = ["CHUNK_BYTES", "ArtifactStore", "LocatedArtifact", "StoredArtifact", "streamed"]

HELD_BYTES = 2**20
"""Bytes of an incoming artifact that are kept in memory; more go to a file."""


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """The digest and size of stored bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class LocatedArtifact:
    """The place and size of an artifact when it was looked up.

    The bytes may have moved since.
    """

    place: BytesPlace
    size: int


class ArtifactStore:
    """Artifacts in the caller's unit of work, in the stores of its session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stores = stores_of(session)

    def write(self, chunks: Iterable[bytes]) -> StoredArtifact:
        """Store the concatenation of `chunks`, and equal content only once.

        `chunks` can be cut anywhere. Another writer of equal content waits for this unit of work to
        end. Write one artifact per unit of work, or several in the order of their digests. Content
        that had been collected or quarantined is ready again afterwards.
        """
        if self._stores.large == POSTGRES:
            return self._write_rows(chunks)
        with _set_aside(chunks) as (file, stored):
            store = self._stores.for_size(stored.size)
            if store.name == POSTGRES:
                return self._write_rows(_pieces(file))
            if not self._touch(stored):
                # Before the first statement, so that no transaction waits for a slow store.
                place = store.put(self._session, stored.sha256, _pieces(file))
                self._adopt(stored, place)
            return stored

    def settle(self, staged: str, announced: StoredArtifact) -> None:
        """Turn staged bytes into the announced artifact.

        It is put into the store for its size. The caller deletes the staged name afterwards, and
        rolls back if this raises `WrongBytes` or `BytesMissing`.
        """
        store = self._stores.for_size(announced.size)
        goes_out = store.name != POSTGRES and not self._touch(announced)
        read = staged_bytes(self._session, staged, announced.size, in_haste=not goes_out)
        # Closed explicitly, because the session would wait for ever for an unfinished generator.
        with closing(read) as content:
            pieces = _verified(content, announced)
            place = store.put(self._session, announced.sha256, pieces) if goes_out else None
            for _ in pieces:  # reads what no store has read
                pass
        if store.name == POSTGRES:
            self._rename(staged, announced)
        elif place is not None:
            self._adopt(announced, place)

    def discard(self, sha256: str) -> bool:
        """Delete the bytes if nothing refers to them.

        Returns True if they were deleted. Content that was written more than once is left to
        collection, because its last writer may be about to refer to it.
        """
        written_once = Artifact.last_referenced_at == Artifact.created_at
        deleted = self._session.execute(
            delete(Artifact)
            .where(Artifact.sha256 == sha256, written_once, ~is_referenced())
            .returning(Artifact.store, Artifact.key, Artifact.state)
            .execution_options(synchronize_session=False)
        ).one_or_none()
        if deleted is None:
            return False
        if deleted.state != "collected":
            self.drop(BytesPlace(deleted.store, sha256, deleted.key))
        return True

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Read the bytes from `start` up to `stop`.

        Raises `ArtifactNotFound`, `ArtifactGone` or `StoreNotConfigured` at the first step, and
        `BytesMissing` or `StoreUnreachable` at any.
        """
        located = self.locate(sha256)
        stop = _end(located.size, start, stop)
        while start < stop:
            located, content = self.piece(located, start, stop)
            start += len(content)
            yield content

    def piece(
        self, located: LocatedArtifact, start: int, stop: int
    ) -> tuple[LocatedArtifact, bytes]:
        """Read at least one byte from `start` on.

        Also returns the artifact's current place.
        """
        place = located.place
        try:
            return located, self._stores.named(place.store).read(self._session, place, start, stop)
        except BytesMissing:
            now = self.locate(place.sha256)
            if now.place == place:
                raise
        # The bytes were moved to another store during the read.
        return now, self._stores.named(now.place.store).read(self._session, now.place, start, stop)

    def locate(self, sha256: str) -> LocatedArtifact:
        """Look up an artifact; raises `ArtifactNotFound` or `ArtifactGone`."""
        columns = (Artifact.size, Artifact.store, Artifact.key, Artifact.state, Artifact.reason)
        row = self._session.execute(select(*columns).where(Artifact.sha256 == sha256)).one_or_none()
        if row is None:
            raise ArtifactNotFound(sha256)
        if row.state != "ready":
            raise ArtifactGone(sha256, row.state, row.reason or "")
        return LocatedArtifact(BytesPlace(row.store, sha256, row.key), row.size)

    def size(self, sha256: str) -> int:
        """Return the size of an artifact in bytes.

        Raises `ArtifactNotFound` or `ArtifactGone`.
        """
        return self.locate(sha256).size

    def drop(self, place: BytesPlace) -> None:
        """Delete bytes without an artifact.

        In stores outside the database, they are deleted after the commit.
        """
        if place.store == POSTGRES:
            PostgresStore().delete(self._session, place)
        else:
            _drop_after_commit(self._session, place)

    def _write_rows(self, chunks: Iterable[bytes]) -> StoredArtifact:
        staged = f"staged:{uuid.uuid4()}"
        digest, size = hashlib.sha256(), 0
        for number, content in enumerate(of_equal_size(chunks)):
            digest.update(content)
            size += len(content)
            row = {"sha256": staged, "number": number, "content": content}
            self._session.execute(insert(ArtifactChunk), [row])
        stored = StoredArtifact(digest.hexdigest(), size)
        self._rename(staged, stored)
        return stored

    def _rename(self, staged: str, stored: StoredArtifact) -> None:
        """Make staged rows those of the artifact.

        They are deleted if the artifact has its bytes already.
        """
        mine = ArtifactChunk.sha256 == staged
        # Renaming does not rewrite the bytes, which Postgres keeps outside the row.
        adopt = update(ArtifactChunk).where(mine).values(sha256=stored.sha256)
        drop = delete(ArtifactChunk).where(mine)
        is_taken = self._adopt(stored, BytesPlace(POSTGRES, stored.sha256))
        self._session.execute(
            adopt if is_taken else drop, execution_options={"synchronize_session": False}
        )

    def _touch(self, stored: StoredArtifact) -> bool:
        """Protect the content from collection if it is stored.

        Returns True if it is stored.
        """
        # In a session of its own, so that this transaction begins only after writing the bytes.
        with Session(self._session.get_bind()) as apart:
            ready = (Artifact.sha256 == stored.sha256, Artifact.state == "ready")
            if apart.scalars(select(Artifact.sha256).where(*ready)).one_or_none() is None:
                return False
        touched = self._session.execute(
            update(Artifact)
            .where(*ready)
            .values(last_referenced_at=func.clock_timestamp())
            .returning(Artifact.sha256)
            .execution_options(synchronize_session=False)
        )
        return touched.one_or_none() is not None

    def _adopt(self, stored: StoredArtifact, place: BytesPlace) -> bool:
        """Make `place` that of the artifact, unless it has bytes elsewhere.

        Returns True if `place` is now that of the artifact.
        """
        existing = self._insert_or_lock(stored, place)
        if existing is None:
            return True
        before, state = existing
        if state == "ready":
            if not self._stores.named(place.store).is_transactional:
                self.drop(place)
            return False
        if state == "quarantined":
            self.drop(before)
        self._session.execute(
            update(Artifact)
            .where(Artifact.sha256 == stored.sha256)
            .values(store=place.store, key=place.key, state="ready", reason=None)
            .execution_options(synchronize_session=False)
        )
        return True

    def _insert_or_lock(
        self, stored: StoredArtifact, place: BytesPlace
    ) -> tuple[BytesPlace, str] | None:
        """Insert or lock the row; return the earlier place and state.

        None if the row is new.
        """
        values = {"size": stored.size, "store": place.store, "key": place.key}
        # Not `DO NOTHING`: an existing row must be locked and its time updated, so that it is not
        # collected before the reference that follows.
        is_new = Artifact.last_referenced_at == Artifact.created_at
        row = self._session.execute(
            upsert(Artifact)
            .values(
                sha256=stored.sha256,
                created_at=func.transaction_timestamp(),
                last_referenced_at=func.transaction_timestamp(),
                **values,
            )
            .on_conflict_do_update(
                index_elements=["sha256"],
                set_={"last_referenced_at": func.clock_timestamp()},
            )
            .returning(Artifact.store, Artifact.key, Artifact.state, is_new.label("is_new"))
        ).one()
        return None if row.is_new else (BytesPlace(row.store, stored.sha256, row.key), row.state)


def stores_of(session: Session) -> Stores:
    """Return the stores of a session.

    Postgres alone if it was created without any.
    """
    stores = session.info.get("stores")
    return stores if isinstance(stores, Stores) else Stores({POSTGRES: PostgresStore()})


def streamed(
    factory: sessionmaker[Session], sha256: str, start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """Read an artifact, each piece in its own unit of work.

    For slow readers, such as a client on a slow connection: no database connection is held between
    two pieces. Raises the errors of `ArtifactStore.read`.
    """
    with factory() as session:
        located = ArtifactStore(session).locate(sha256)
    stop = _end(located.size, start, stop)
    while start < stop:
        with factory() as session:
            located, content = ArtifactStore(session).piece(located, start, stop)
        start += len(content)
        yield content


def references() -> tuple[InstrumentedAttribute[str], ...]:
    """Return the columns, in all tables, whose reference keeps an artifact."""
    return tuple(
        getattr(mapper.class_, column.key)
        for mapper in Table.registry.mappers
        for column in mapper.columns
        if any(map(_keeps_artifact, column.foreign_keys))
    )


def is_referenced() -> ColumnElement[bool]:
    """The condition that some row refers to the artifact."""
    return or_(*(exists().where(column == Artifact.sha256) for column in references()))


def _keeps_artifact(key: Reference) -> bool:
    """Return True if rows with this key prevent the deletion of an artifact."""
    return key.column is Artifact.__table__.c.sha256 and key.ondelete != "CASCADE"


def _drop_after_commit(session: Session, place: BytesPlace) -> None:
    """Delete the bytes after the commit.

    If that fails, collection deletes them later.
    """
    store = stores_of(session).known.get(place.store)
    if store is None:
        return  # left to a process that has the store
    waiting = [place]

    def forget(_: Session) -> None:
        waiting.clear()

    def delete_bytes(session: Session) -> None:
        if session.in_nested_transaction():
            return  # the end of a savepoint; the transaction can still be rolled back
        while waiting:
            # Collection finds keys without an artifact later.
            with suppress(StoreUnreachable):
                store.delete(session, waiting.pop())

    event.listen(session, "after_rollback", forget)
    event.listen(session, "after_commit", delete_bytes)


@contextmanager
def _set_aside(chunks: Iterable[bytes]) -> Generator[tuple[IO[bytes], StoredArtifact]]:
    """Keep the content in memory or in a temporary file.

    Yields it with its digest and size.
    """
    digest, size = hashlib.sha256(), 0
    with tempfile.SpooledTemporaryFile(HELD_BYTES) as file:
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
        file.seek(0)
        yield file, StoredArtifact(digest.hexdigest(), size)


def _verified(pieces: Iterable[bytes], announced: StoredArtifact) -> Iterator[bytes]:
    """Pass the pieces on, and verify their digest.

    Raises `WrongBytes` at the end if the digest is not as announced.
    """
    digest = hashlib.sha256()
    for content in pieces:
        digest.update(content)
        yield content
    if digest.hexdigest() != announced.sha256:
        raise WrongBytes(announced.sha256, digest.hexdigest())


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while content := file.read(CHUNK_BYTES):
        yield content


def _end(size: int, start: int, stop: int | None) -> int:
    if start < 0 or (stop is not None and stop < start):
        raise ValueError(f"The range {start} to {stop} is none; give 0 <= start <= stop.")
    return size if stop is None else min(stop, size)
