"""Store in rows of 1 MiB, within the caller's unit of work."""

from collections.abc import Iterable, Iterator

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing
from adaptlab_db.stores.store import POSTGRES, BytesPlace, KeptKey, StoreName
from adaptlab_db.tables import ArtifactChunk

CHUNK_BYTES = 2**20
BINARY = {"adaptlab_binary": True}
"""Execution options for results as bytes instead of hexadecimal text."""


class PostgresStore:
    """Rows of chunks under the digest of the whole content."""

    name: StoreName = POSTGRES
    is_transactional = True

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> BytesPlace:
        """See `Store`; the artifact's own row can be written later."""
        for number, content in enumerate(of_equal_size(chunks)):
            row = {"sha256": sha256, "number": number, "content": content}
            session.execute(insert(ArtifactChunk), [row])
        return BytesPlace(POSTGRES, sha256)

    def read(self, session: Session, place: BytesPlace, start: int, stop: int) -> bytes:
        """See `Store`; returns at most the rest of the row that contains `start`."""
        number, offset = divmod(start, CHUNK_BYTES)
        length = min(stop - start, CHUNK_BYTES - offset)
        content = ArtifactChunk.content
        whole = offset == 0 and length == CHUNK_BYTES
        # Postgres reads only this part, because the values are stored uncompressed.
        part = content if whole else func.substring(content, offset + 1, length)
        query = select(part).where(
            ArtifactChunk.sha256 == place.sha256, ArtifactChunk.number == number
        )
        stored = session.scalars(query, execution_options=BINARY).one_or_none()
        if not stored:
            raise BytesMissing(POSTGRES, place.sha256)
        return stored

    def delete(self, session: Session, place: BytesPlace) -> None:
        """See `Store`."""
        session.execute(
            delete(ArtifactChunk).where(ArtifactChunk.sha256 == place.sha256),
            execution_options={"synchronize_session": False},
        )

    def kept(self) -> Iterator[KeptKey]:
        """See `Store`; always empty, because every row belongs to an artifact."""
        return iter(())


def of_equal_size(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `CHUNK_BYTES`, the last one shorter."""
    buffer = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            part = view[: CHUNK_BYTES - len(buffer)]
            buffer += part
            view = view[len(part) :]
            if len(buffer) == CHUNK_BYTES:
                yield bytes(buffer)
                buffer.clear()
    if buffer:
        yield bytes(buffer)
