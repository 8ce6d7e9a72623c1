"""Content-addressed bytes in rows of 1 MiB, streamed both ways, at most one row in memory."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.errors import ArtifactNotFound
from adaptlab_db.tables import Artifact, ArtifactChunk, AttentionMap, Checkpoint, TrainingState

CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """The name of stored bytes and how many there are."""

    sha256: str
    size: int


class ArtifactStore:
    """Artifacts in the tables, within the caller's unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def write(self, chunks: Iterable[bytes]) -> StoredArtifact:
        """Store the concatenation of `chunks`, which may be cut anywhere; once for equal content.

        Another writer of equal content waits for this unit of work to end. Write one artifact a
        unit of work, or several in the order of their digests.
        """
        staged = f"staged:{uuid.uuid4()}"
        digest, size = hashlib.sha256(), 0
        for number, content in enumerate(_of_equal_size(chunks)):
            digest.update(content)
            size += len(content)
            row = {"sha256": staged, "number": number, "content": content}
            self._session.execute(insert(ArtifactChunk), [row])
        stored = StoredArtifact(digest.hexdigest(), size)
        self._adopt(staged, stored)
        return stored

    def discard(self, sha256: str) -> bool:
        """Delete the bytes if nothing refers to them any more; whether it did."""
        users = (
            select(table.artifact_sha256).where(table.artifact_sha256 == sha256).exists()
            for table in (AttentionMap, Checkpoint, TrainingState)
        )
        deleted = self._session.execute(
            delete(Artifact)
            .where(Artifact.sha256 == sha256, *(~user for user in users))
            .returning(Artifact.sha256)
            .execution_options(synchronize_session=False)
        )
        return deleted.one_or_none() is not None

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`; raises `ArtifactNotFound` at the first step."""
        stop = _end(self.size(sha256), start, stop)
        while start < stop:
            content = self.read_within_chunk(sha256, start, stop)
            start += len(content)
            yield content

    def read_within_chunk(self, sha256: str, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop` or the end of the row in which they start."""
        number, offset = divmod(start, CHUNK_BYTES)
        length = min(stop - start, CHUNK_BYTES - offset)
        content = ArtifactChunk.content
        whole = offset == 0 and length == CHUNK_BYTES
        # Postgres reads only this part of a value that is stored uncompressed.
        part = content if whole else func.substring(content, offset + 1, length)
        query = select(part).where(ArtifactChunk.sha256 == sha256, ArtifactChunk.number == number)
        found = self._session.scalars(query).one_or_none()
        if found is None:
            raise ArtifactNotFound(sha256)
        return found

    def size(self, sha256: str) -> int:
        """How many bytes the artifact has; raises `ArtifactNotFound`."""
        size = self._session.scalars(
            select(Artifact.size).where(Artifact.sha256 == sha256)
        ).one_or_none()
        if size is None:
            raise ArtifactNotFound(sha256)
        return size

    def _adopt(self, staged: str, stored: StoredArtifact) -> None:
        """Give the staged rows their name, or drop them when the content is there already."""
        is_new = self._session.execute(
            upsert(Artifact)
            .values(sha256=stored.sha256, size=stored.size)
            .on_conflict_do_nothing()
            .returning(Artifact.sha256)
        ).one_or_none()
        mine = ArtifactChunk.sha256 == staged
        # Renaming leaves the bytes where they are: they lie outside the row.
        adopt = update(ArtifactChunk).where(mine).values(sha256=stored.sha256)
        drop = delete(ArtifactChunk).where(mine)
        self._session.execute(
            adopt if is_new else drop, execution_options={"synchronize_session": False}
        )


def streamed(
    factory: sessionmaker[Session], sha256: str, start: int = 0, stop: int | None = None
) -> Iterator[bytes]:
    """The bytes of an artifact, each row read in a unit of work of its own.

    For readers that take their time, such as a client at the end of a slow line: between two rows
    no connection is held. Raises `ArtifactNotFound` at the first step.
    """
    with factory() as session:
        stop = _end(ArtifactStore(session).size(sha256), start, stop)
    while start < stop:
        with factory() as session:
            content = ArtifactStore(session).read_within_chunk(sha256, start, stop)
        start += len(content)
        yield content


def _end(size: int, start: int, stop: int | None) -> int:
    if start < 0 or (stop is not None and stop < start):
        raise ValueError(f"The range {start} to {stop} is none; give 0 <= start <= stop.")
    return size if stop is None else min(stop, size)


def _of_equal_size(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of `CHUNK_BYTES`, the last one shorter."""
    held = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            taken = view[: CHUNK_BYTES - len(held)]
            held += taken
            view = view[len(taken) :]
            if len(held) == CHUNK_BYTES:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)
