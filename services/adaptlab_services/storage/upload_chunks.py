"""Reception of one chunk of an upload."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Select, bindparam, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_db.staging import ASIDE, UNHURRIED, put_rows, take_the_place
from adaptlab_db.stores.postgres import CHUNK_BYTES as ROW_BYTES
from adaptlab_db.tables import Upload, UploadChunk
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.limits import quotas
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads

__all__ = ["ROW_BYTES", "AnnouncedChunk", "ChunkWriting", "receiving"]

_UPLOADS = Upload.metadata.tables[Upload.__tablename__].c
# Built once, and on the tables, because it is executed for every few rows.
_HELD = (
    select(_UPLOADS.sha256, _UPLOADS.artifact_sha256)
    .where(_UPLOADS.id == bindparam("upload_id"))
    .with_for_update(read=True)
)
_HELD_UNHURRIED = _HELD.add_columns(UNHURRIED)
_NEW_CHUNK = insert(UploadChunk.metadata.tables[UploadChunk.__tablename__])
_NOTE = _NEW_CHUNK.on_conflict_do_update(
    index_elements=["upload_id", "number"],
    set_={name: _NEW_CHUNK.excluded[name] for name in ("size_bytes", "sha256")},
)


@dataclass(frozen=True, slots=True)
class AnnouncedChunk:
    """The chunk that is about to be sent, with its SHA-256."""

    upload_id: UUID
    number: int
    sha256: str


class ChunkWriting:
    """The reception of one chunk, a few rows per unit of work.

    No lock is held between units of work. The chunk does not exist until `finish` has returned. If
    it already exists, its content is checked and nothing changes. An earlier chunk with the same
    number but other content stays until this one is complete and valid.
    """

    def __init__(
        self, sessions: sessionmaker[Session], chunk: AnnouncedChunk, size: int, stored: str | None
    ) -> None:
        self._sessions = sessions
        self._chunk = chunk
        self._size = size
        self._is_stored = stored == chunk.sha256
        self._aside = ASIDE if stored is not None else 0
        self._digest = hashlib.sha256()
        self._received = 0
        self._first = chunk.number * (uploads.CHUNK_BYTES // ROW_BYTES)
        self._row = self._first

    def write(self, rows: Sequence[bytes]) -> None:
        """Store the next rows, all of `ROW_BYTES` except the last.

        Raises:
            InvalidSpec: there are more bytes than the chunk has.
        """
        self._count(rows)
        if not self._is_stored:
            with self._sessions.begin() as session:
                name = self._held(session, _HELD_UNHURRIED)
                put_rows(session, name, self._row - self._aside, rows)
        self._row += len(rows)

    def finish(self, rows: Sequence[bytes] = ()) -> None:
        """Store the last rows and mark the chunk as received.

        Raises:
            InvalidSpec: its size or digest is not the announced one.
        """
        self._count(rows)
        if self._received < self._size:
            raise self._wrong_size(f"{self._received:,}")
        digest = self._digest.hexdigest()
        if digest != self._chunk.sha256:
            detail = (
                f"The chunk has the SHA-256 {digest}, but {self._chunk.sha256} was announced. "
                "Send it again."
            )
            raise InvalidSpec(Problem("/header/content-digest", "wrong_digest", detail))
        if not self._is_stored:
            with self._sessions.begin() as session:
                name = self._held(session, _HELD)
                put_rows(session, name, self._row - self._aside, rows)
                if self._aside:
                    count = self._row + len(rows) - self._first
                    take_the_place(session, name, self._first, count)
                self._note(session)

    def _count(self, rows: Sequence[bytes]) -> None:
        """Count and hash the next rows; raises `InvalidSpec` for too many bytes."""
        self._received += sum(map(len, rows))
        if self._received > self._size:
            raise self._wrong_size(f"more than {self._size:,}")
        for content in rows:
            self._digest.update(content)

    def _note(self, session: Session) -> None:
        key = {"upload_id": self._chunk.upload_id, "number": self._chunk.number}
        session.execute(_NOTE, key | {"size_bytes": self._size, "sha256": self._chunk.sha256})

    def _held(self, session: Session, query: Select[*tuple[str, ...]]) -> str:
        """Return the name under which the bytes are staged.

        Locks the upload, so that it is not completed or deleted meanwhile.
        """
        row = session.execute(query, {"upload_id": self._chunk.upload_id}).one_or_none()
        if row is None:
            raise Absent("upload", self._chunk.upload_id)
        if row.sha256 == row.artifact_sha256:
            raise _completed(self._chunk.upload_id)
        return str(row.artifact_sha256)

    def _wrong_size(self, received: str) -> InvalidSpec:
        detail = (
            f"Chunk {self._chunk.number} must have {self._size:,} bytes, but {received} were sent. "
            "Send it again."
        )
        return InvalidSpec(Problem("", "wrong_size", detail, nearest=(self._size,)))


def receiving(
    sessions: sessionmaker[Session], principal: Principal, chunk: AnnouncedChunk
) -> ChunkWriting:
    """Begin to receive a chunk.

    Once complete and valid, it replaces an earlier chunk of its number.

    Raises:
        Absent: the caller has no such upload.
        StateConflict: the upload is complete.
        InvalidSpec: the number is too large.
        QuotaReached: the owner stores too much.
    """
    with sessions.begin() as session:
        upload = uploads.found(session, principal, chunk.upload_id)
        if uploads.is_complete(upload):
            raise _completed(chunk.upload_id)
        size = _size(upload, chunk.number)
        quotas.check_room(session, principal.user_id, 0)  # jobs may have stored more since
        earlier = (UploadChunk.upload_id == upload.id, UploadChunk.number == chunk.number)
        stored = session.scalars(select(UploadChunk.sha256).where(*earlier)).one_or_none()
    return ChunkWriting(sessions, chunk, size, stored)


def _size(upload: Upload, number: int) -> int:
    last = uploads.chunk_count(upload.size_bytes) - 1
    if number > last:
        detail = (
            f"There is no chunk {number}: an upload of {upload.size_bytes:,} bytes has the "
            f"chunks 0 to {last}. Send one of these."
        )
        raise InvalidSpec(Problem("/path/number", "no_such_chunk", detail, nearest=(last,)))
    if number < last:
        return uploads.CHUNK_BYTES
    return upload.size_bytes - last * uploads.CHUNK_BYTES


def _completed(upload_id: UUID) -> StateConflict:
    return StateConflict(f"The upload {upload_id} is already complete.", "complete")
