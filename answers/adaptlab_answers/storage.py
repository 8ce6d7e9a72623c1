"""Stored artifacts and uploads."""

from typing import Literal
from uuid import UUID

from adaptlab.values import Value
from adaptlab_answers.links import Link
from adaptlab_answers.moments import Moment


class StoredShare(Value):
    """Number and size of the artifacts in one store and one state."""

    store: str
    state: str
    artifacts: int
    bytes: int
    least_recently_checked: Moment | None


class StorageStatus(Value):
    """All artifacts by store and state, and those without a reference."""

    shares: tuple[StoredShare, ...]
    unreferenced: int
    unreferenced_bytes: int


class ReceivedChunk(Value):
    """A chunk that has arrived completely."""

    number: int
    size_bytes: int
    sha256: str


class UploadLinks(Value):
    """Links of an upload; chunk `n`, counted from 0, goes to `chunks` + `/n`."""

    self: Link
    chunks: Link
    complete: Link


class UploadView(Value):
    """An upload and the chunks that have arrived.

    Every chunk except the last has `chunk_bytes` bytes. Chunks in `received` need not be sent
    again. The list is empty once the upload is complete; its bytes are then the artifact `sha256`.
    """

    id: UUID
    object: Literal["upload"] = "upload"
    state: Literal["open", "complete"]
    size_bytes: int
    sha256: str
    chunk_bytes: int
    chunks: int
    received: tuple[ReceivedChunk, ...]
    created_at: Moment
    expires_at: Moment
    links: UploadLinks
