"""Uploads: content that arrives in chunks, in any order, with repetitions."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID, uuid4

from pydantic import Field
from sqlalchemy import Select, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_answers.paging import Page
from adaptlab_answers.storage import ReceivedChunk, UploadLinks, UploadView
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact
from adaptlab_db.errors import BytesMissing
from adaptlab_db.session import allow_pauses
from adaptlab_db.staging import forget_aside, stage, unstage
from adaptlab_db.tables import Upload, UploadChunk
from adaptlab_services.errors import Absent, StateConflict, TooManyUploads, UploadTooLarge
from adaptlab_services.limits import quotas
from adaptlab_services.people.tokens import Principal

CHUNK_BYTES = 8 * 2**20
"""Size of every chunk except the last; eight rows of the database."""
KEPT_FOR = timedelta(hours=24)
"""How long an upload waits for its chunks, and again for its use."""
NAMED_CHUNKS = 20
LONGEST_WAIT = "20s"
LONGEST_PAUSE = "60s"
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('adaptlab.uploads', :owner))")


class NewUpload(Value):
    """The announcement of an upload: its size and SHA-256."""

    size_bytes: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits on an upload's size, and on an owner's uploads at a time."""

    largest_bytes: int
    most_uploads: int


@dataclass(frozen=True, slots=True)
class BegunUpload:
    """The answer to an announcement; `is_new` is false if it was repeated."""

    upload: UploadView
    is_new: bool


def begin(
    session: Session, principal: Principal, new: NewUpload, limits: UploadLimits
) -> BegunUpload:
    """Announce an upload; an equal announcement returns the same upload.

    The answer does not reveal whether the content is already stored, because only those who have
    it should obtain it. Announced bytes count as stored.

    Raises:
        UploadTooLarge: the upload exceeds the size limit.
        TooManyUploads: the caller has as many uploads as allowed.
        QuotaReached: the caller would store too much.
    """
    if new.size_bytes > limits.largest_bytes:
        raise UploadTooLarge(new.size_bytes, limits.largest_bytes)
    session.execute(_ONE_AT_A_TIME, {"owner": principal.user_id})
    mine = _owned(principal).where(Upload.sha256 == new.sha256, Upload.size_bytes == new.size_bytes)
    earlier = session.scalars(mine).one_or_none()
    if earlier is not None:
        return BegunUpload(_view(session, earlier), is_new=False)
    count = session.scalar(select(func.count()).select_from(_owned(principal).subquery())) or 0
    if count >= limits.most_uploads:
        raise TooManyUploads(limits.most_uploads)
    quotas.check_room(session, principal.user_id, new.size_bytes)
    return BegunUpload(_view(session, _insert(session, principal, new)), is_new=True)


def get(session: Session, principal: Principal, upload_id: UUID) -> UploadView:
    """Return one of the caller's uploads; raises `Absent`."""
    return _view(session, found(session, principal, upload_id))


def page(session: Session, principal: Principal) -> Page[UploadView]:
    """Return the caller's uploads, the oldest first; they fit on one page."""
    rows = session.scalars(_owned(principal).order_by(Upload.created_at, Upload.id))
    return Page(data=tuple(_view(session, row) for row in rows), next_page_token=None)


def complete(session: Session, principal: Principal, upload_id: UUID) -> UploadView:
    """Check the upload's content and store it as an artifact.

    Raises:
        Absent: the caller has no such upload.
        StateConflict: chunks are missing.
        WrongBytes: the content does not match the announced digest.

    If it raises, the upload stays as it was.
    """
    # Another request may be completing the same upload, and a slow store can cause long pauses.
    session.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT}'"))
    allow_pauses(session, LONGEST_PAUSE)
    upload = found(session, principal, upload_id, lock=True)
    if is_complete(upload):
        return _view(session, upload)
    _require_all(session, upload)
    staged = upload.artifact_sha256
    forget_aside(session, staged)
    try:
        announced = StoredArtifact(upload.sha256, upload.size_bytes)
        ArtifactStore(session).settle(staged, announced)
    except BytesMissing as error:
        detail = f"The upload {upload_id} has lost bytes. Delete it and send the file again."
        raise StateConflict(detail, "open") from error
    session.execute(
        update(Upload)
        .where(Upload.id == upload_id)
        .values(artifact_sha256=upload.sha256, expires_at=func.clock_timestamp() + KEPT_FOR)
        .execution_options(synchronize_session=False)
    )
    session.execute(delete(UploadChunk).where(UploadChunk.upload_id == upload_id))
    unstage(session, staged)
    session.refresh(upload)
    return _view(session, upload)


def remove(session: Session, principal: Principal, upload_id: UUID) -> None:
    """Delete an upload, complete or not; raises `Absent`."""
    _delete(session, found(session, principal, upload_id, lock=True))


def expire(session: Session) -> list[int]:
    """Delete one expired upload; return its size, or an empty list."""
    over = (
        select(Upload)
        .where(Upload.expires_at < func.clock_timestamp())
        .order_by(Upload.expires_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    upload = session.scalars(over).one_or_none()
    if upload is None:
        return []
    _delete(session, upload)
    return [upload.size_bytes]


def completed(session: Session, principal: Principal, upload_id: UUID) -> StoredArtifact:
    """Return the content of one of the caller's uploads.

    Raises:
        Absent: the caller has no such upload.
        StateConflict: the upload is not complete.
    """
    upload = found(session, principal, upload_id)
    if not is_complete(upload):
        raise StateConflict(f"The upload {upload_id} is not complete. Complete it first.", "open")
    return StoredArtifact(upload.sha256, upload.size_bytes)


def chunk_count(size: int) -> int:
    """Return the number of chunks for `size` bytes."""
    return -(-size // CHUNK_BYTES)


def is_complete(upload: Upload) -> bool:
    """Return True if the content was checked and stored."""
    return upload.artifact_sha256 == upload.sha256


def found(session: Session, principal: Principal, upload_id: UUID, *, lock: bool = False) -> Upload:
    """Return the row of one of the caller's uploads; raises `Absent`."""
    query = _owned(principal).where(Upload.id == upload_id)
    upload = session.scalars(query.with_for_update() if lock else query).one_or_none()
    if upload is None:
        raise Absent("upload", upload_id)
    return upload


def _owned(principal: Principal) -> Select[Upload]:
    mine = Upload.owner_id == principal.user_id, Upload.of_hub == principal.is_fetcher
    return select(Upload).where(*mine)


def _insert(session: Session, principal: Principal, new: NewUpload) -> Upload:
    upload_id = uuid4()
    staged = f"upload:{upload_id}"
    stage(session, staged, new.size_bytes)
    return session.scalars(
        insert(Upload)
        .values(
            id=upload_id,
            owner_id=principal.user_id,
            of_hub=principal.is_fetcher,
            size_bytes=new.size_bytes,
            sha256=new.sha256,
            artifact_sha256=staged,
            expires_at=func.clock_timestamp() + KEPT_FOR,
        )
        .returning(Upload)
    ).one()


def _delete(session: Session, upload: Upload) -> None:
    session.execute(
        delete(Upload).where(Upload.id == upload.id),
        execution_options={"synchronize_session": False},
    )
    if not is_complete(upload):
        unstage(session, upload.artifact_sha256)


def _require_all(session: Session, upload: Upload) -> None:
    """Raise `StateConflict` if chunks are missing."""
    numbers = session.scalars(select(UploadChunk.number).where(UploadChunk.upload_id == upload.id))
    total = chunk_count(upload.size_bytes)
    missing = sorted(set(range(total)) - set(numbers))
    if missing:
        named = ", ".join(map(str, missing[:NAMED_CHUNKS]))
        more = ", …" if len(missing) > NAMED_CHUNKS else ""
        raise StateConflict(
            f"The upload {upload.id} lacks {len(missing)} of {total} chunks: {named}{more}. Send "
            "them, then complete it.",
            "open",
        )


def _view(session: Session, upload: Upload) -> UploadView:
    chunks = session.execute(
        select(UploadChunk.number, UploadChunk.size_bytes, UploadChunk.sha256)
        .where(UploadChunk.upload_id == upload.id)
        .order_by(UploadChunk.number)
    )
    address = f"/v1/uploads/{upload.id}"
    return UploadView(
        id=upload.id,
        state="complete" if is_complete(upload) else "open",
        size_bytes=upload.size_bytes,
        sha256=upload.sha256,
        chunk_bytes=CHUNK_BYTES,
        chunks=chunk_count(upload.size_bytes),
        received=tuple(
            ReceivedChunk(number=row.number, size_bytes=row.size_bytes, sha256=row.sha256)
            for row in chunks
        ),
        created_at=upload.created_at,
        expires_at=upload.expires_at,
        links=UploadLinks(self=address, chunks=f"{address}/chunks", complete=f"{address}/complete"),
    )
