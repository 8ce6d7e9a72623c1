"""Files of results: name, size and content."""

from collections.abc import Iterator

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.values import Value
from adaptlab_db.artifacts import ArtifactStore, streamed


class StoredFile(Value):
    """A file whose content is an artifact and never changes."""

    sha256: str
    size: int
    filename: str
    media_type: str


def require(sessions: sessionmaker[Session], file: StoredFile) -> None:
    """Check that the content is available, by reading its first byte.

    Raises what `ArtifactStore.read` raises, such as `ArtifactGone` with the reason.
    """
    with sessions() as session:
        for _ in ArtifactStore(session).read(file.sha256, 0, 1):
            pass


def stream(
    sessions: sessionmaker[Session], file: StoredFile, start: int, stop: int
) -> Iterator[bytes]:
    """Yield the bytes from `start` up to but excluding `stop`.

    Each chunk is a unit of work of its own, so a slow reader holds no connection. Only one chunk is
    in memory at a time.
    """
    return streamed(sessions, file.sha256, start, stop)
