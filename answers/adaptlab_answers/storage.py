"""What is stored where, and what is being uploaded."""

from typing import Literal
from uuid import UUID

from adaptlab.values import Value
from adaptlab_answers.moments import Moment


class StoredShare(Value):
    """The artifacts in one store and one state."""

    store: str
    state: str
    artifacts: int
    bytes: int
    least_recently_checked: Moment | None


class StorageStatus(Value):
    """All artifacts, by store and state, and those that nothing refers to."""

    shares: tuple[StoredShare, ...]
    unreferenced: int
    unreferenced_bytes: int


class ReceivedChunk(Value):
    """A chunk that is there whole."""

    number: int
    size_bytes: int
    sha256: str


class UploadLinks(Value):
    """Where to go from an upload; chunk `n` goes to `chunks` followed by `/n`, from 0 on."""

    self: str
    chunks: str
    complete: str


class UploadView(Value):
    """What is known of an upload.

    Every chunk has `chunk_bytes` bytes but the last, and `received` are those that need not be
    sent again. A complete upload has none: its bytes are the content that `sha256` names.
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
