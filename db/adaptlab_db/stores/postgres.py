"""Bytes in rows of 1 MiB, within the caller's unit of work."""

from collections.abc import Iterable, Iterator

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing
from adaptlab_db.stores.store import POSTGRES, KeptKey, Place, StoreName
from adaptlab_db.tables import ArtifactChunk

CHUNK_BYTES = 2**20
BINARY = {"adaptlab_binary": True}
"""Execution options of a statement whose results come as bytes, not as hexadecimal text."""


class PostgresStore:
    """Chunk rows under the digest of the whole."""

    name: StoreName = POSTGRES
    is_transactional = True

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> Place:
        """See `Store`; the artifact's own row may be written later in the unit of work."""
        for number, content in enumerate(of_equal_size(chunks)):
            row = {"sha256": sha256, "number": number, "content": content}
            session.execute(insert(ArtifactChunk), [row])
        return Place(POSTGRES, sha256)

    def read(self, session: Session, place: Place, start: int, stop: int) -> bytes:
        """See `Store`; up to the end of the row in which `start` lies."""
        number, offset = divmod(start, CHUNK_BYTES)
        length = min(stop - start, CHUNK_BYTES - offset)
        content = ArtifactChunk.content
        whole = offset == 0 and length == CHUNK_BYTES
        # Postgres reads only this part of a value that is stored uncompressed.
        part = content if whole else func.substring(content, offset + 1, length)
        mine = (ArtifactChunk.sha256 == place.sha256, ArtifactChunk.number == number)
        found = session.scalars(select(part).where(*mine), execution_options=BINARY).one_or_none()
        if not found:
            raise BytesMissing(POSTGRES, place.sha256)
        return found

    def delete(self, session: Session, place: Place) -> None:
        """See `Store`."""
        session.execute(
            delete(ArtifactChunk).where(ArtifactChunk.sha256 == place.sha256),
            execution_options={"synchronize_session": False},
        )

    def kept(self) -> Iterator[KeptKey]:
        """See `Store`; rows without an artifact cannot be."""
        return iter(())


def of_equal_size(chunks: Iterable[bytes]) -> Iterator[bytes]:
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
