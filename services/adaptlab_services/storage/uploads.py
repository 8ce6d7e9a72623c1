"""Uploads: bytes that arrive in chunks, in any order and as often as needed."""

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
from adaptlab_db.staging import forget_aside, stage, unstage
from adaptlab_db.tables import Upload, UploadChunk
from adaptlab_services.errors import Conflict, NotFound, TooManyUploads, UploadTooLarge
from adaptlab_services.limits import quotas
from adaptlab_services.people.tokens import Principal

CHUNK_BYTES = 8 * 2**20
"""The size of every chunk but the last; eight rows of the database."""
KEPT_FOR = timedelta(hours=24)
"""How long an upload waits for its chunks, and then again for somebody to use it."""
NAMED_CHUNKS = 20
LONGEST_WAIT = "20s"
LONGEST_PAUSE = "60s"
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('adaptlab.uploads', :owner))")


class NewUpload(Value):
    """What is going to be sent: how many bytes, and their SHA-256."""

    size_bytes: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """How large an upload may be, and how many one owner may have at a time."""

    largest_bytes: int
    most_uploads: int


@dataclass(frozen=True, slots=True)
class Begun:
    """The answer to an announcement; the same may have been announced before."""

    upload: UploadView
    is_new: bool


def begin(session: Session, principal: Principal, new: NewUpload, limits: UploadLimits) -> Begun:
    """Announce bytes that will be sent; the same announcement again brings back the same upload.

    Nothing is told about content that is there already: whoever wants it must have it.
    What is announced counts as stored. Raises `UploadTooLarge`, `TooManyUploads`, `QuotaReached`.
    """
    if new.size_bytes > limits.largest_bytes:
        raise UploadTooLarge(new.size_bytes, limits.largest_bytes)
    session.execute(_ONE_AT_A_TIME, {"owner": principal.user_id})
    mine = _owned(principal).where(Upload.sha256 == new.sha256, Upload.size_bytes == new.size_bytes)
    there = session.scalars(mine).one_or_none()
    if there is not None:
        return Begun(_view(session, there), is_new=False)
    count = session.scalar(select(func.count()).where(Upload.owner_id == principal.user_id)) or 0
    if count >= limits.most_uploads:
        raise TooManyUploads(limits.most_uploads)
    quotas.check_room(session, principal.user_id, new.size_bytes)
    return Begun(_view(session, _insert(session, principal, new)), is_new=True)


def get(session: Session, principal: Principal, upload_id: UUID) -> UploadView:
    """One upload of who asks; raises `NotFound`."""
    return _view(session, found(session, principal, upload_id))


def page(session: Session, principal: Principal) -> Page[UploadView]:
    """The uploads of who asks, the oldest first; there are never more than one page of them."""
    rows = session.scalars(_owned(principal).order_by(Upload.created_at, Upload.id))
    return Page(data=tuple(_view(session, row) for row in rows), next_page_token=None)


def complete(session: Session, principal: Principal, upload_id: UUID) -> UploadView:
    """Read all that was sent, hold it against the announced digest, and keep it as an artifact.

    Raises `NotFound`; `Conflict` where chunks are missing; `WrongBytes` where the bytes are
    others. Whatever it raises, the upload is as it was before.
    """
    # Another request may just be doing the same, and a slow store may make long pauses.
    session.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT}'"))
    session.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_PAUSE}'"))
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
        raise Conflict(detail, "open") from error
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
    """Let go of an upload, whether it is complete or not; raises `NotFound`."""
    _delete(session, found(session, principal, upload_id, lock=True))


def expire(session: Session) -> list[int]:
    """Let go of one upload whose time is over; its size, or nothing."""
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
    """The content of a complete upload of who asks; raises `NotFound`, `Conflict`."""
    upload = found(session, principal, upload_id)
    if not is_complete(upload):
        raise Conflict(f"The upload {upload_id} is not complete. Complete it first.", "open")
    return StoredArtifact(upload.sha256, upload.size_bytes)


def chunk_count(size: int) -> int:
    """How many chunks so many bytes are."""
    return -(-size // CHUNK_BYTES)


def is_complete(upload: Upload) -> bool:
    """Whether the whole was found to be what was announced."""
    return upload.artifact_sha256 == upload.sha256


def found(session: Session, principal: Principal, upload_id: UUID, *, lock: bool = False) -> Upload:
    """The row of an upload of who asks, perhaps locked; raises `NotFound`."""
    query = _owned(principal).where(Upload.id == upload_id)
    upload = session.scalars(query.with_for_update() if lock else query).one_or_none()
    if upload is None:
        raise NotFound("upload", upload_id)
    return upload


def _owned(principal: Principal) -> Select[Upload]:
    return select(Upload).where(Upload.owner_id == principal.user_id)


def _insert(session: Session, principal: Principal, new: NewUpload) -> Upload:
    upload_id = uuid4()
    staged = f"upload:{upload_id}"
    stage(session, staged, new.size_bytes)
    return session.scalars(
        insert(Upload)
        .values(
            id=upload_id,
            owner_id=principal.user_id,
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
    """Raise `Conflict` where chunks are missing."""
    numbers = session.scalars(select(UploadChunk.number).where(UploadChunk.upload_id == upload.id))
    missing = sorted(set(range(chunk_count(upload.size_bytes))) - set(numbers))
    if missing:
        named = ", ".join(map(str, missing[:NAMED_CHUNKS]))
        more = ", …" if len(missing) > NAMED_CHUNKS else ""
        raise Conflict(
            f"The upload {upload.id} lacks {len(missing)} chunks: {named}{more}. Send them, "
            "then complete it.",
            "open",
        )


def _view(session: Session, upload: Upload) -> UploadView:
    chunks = session.execute(
        select(UploadChunk.number, UploadChunk.size_bytes, UploadChunk.sha256)
        .where(UploadChunk.upload_id == upload.id)
        .order_by(UploadChunk.number)
    )
    here = f"/v1/uploads/{upload.id}"
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
        links=UploadLinks(self=here, chunks=f"{here}/chunks", complete=f"{here}/complete"),
    )
