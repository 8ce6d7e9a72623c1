"""Files that results point to: what they are called, how large they are, and their bytes."""

from collections.abc import Iterator

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.values import Value
from adaptlab_db.artifacts import ArtifactStore, streamed


class StoredFile(Value):
    """A file whose bytes are an artifact; its SHA-256 never changes."""

    sha256: str
    size: int
    filename: str
    media_type: str


def require(sessions: sessionmaker[Session], file: StoredFile) -> None:
    """Make sure that the bytes are to be had, by reading the first of them.

    Raises what `ArtifactStore.read` does, such as `ArtifactGone` with the reason.
    """
    with sessions() as session:
        for _ in ArtifactStore(session).read(file.sha256, 0, 1):
            pass


def stream(
    sessions: sessionmaker[Session], file: StoredFile, start: int, stop: int
) -> Iterator[bytes]:
    """The bytes from `start` up to, but without, `stop`, with one chunk in memory.

    Each chunk is a unit of work of its own, so a slow reader holds no connection.
    """
    return streamed(sessions, file.sha256, start, stop)
