"""Artifacts that are too long to be held in memory."""

import tracemalloc
from collections.abc import Iterator

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore, streamed


def most_bytes_held(sessions: sessionmaker[Session], size: int) -> int:
    """The most memory that Python holds to write and read `size` bytes."""

    def endless() -> Iterator[bytes]:
        for number in range(size // 65_536):
            yield number.to_bytes(4, "big") * 16_384

    tracemalloc.start()
    with sessions.begin() as session:
        stored = ArtifactStore(session).write(endless())
    for _ in streamed(sessions, stored.sha256):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stored.size == size
    return peak
