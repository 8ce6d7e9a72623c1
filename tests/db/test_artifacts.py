"""The artifact store: streamed, stored once, complete or not at all."""

import hashlib
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker
from tests.db.long_streams import most_bytes_held
from tests.watching import somebody_waits, until

from adaptlab_db.artifacts import CHUNK_BYTES, ArtifactStore, StoredArtifact, streamed
from adaptlab_db.errors import ArtifactNotFound
from adaptlab_db.staging import put_rows, stage, staged_bytes
from adaptlab_db.tables import Artifact, ArtifactChunk

CONTENT = random.Random(7).randbytes(2 * CHUNK_BYTES + 12_345)


def store(sessions: sessionmaker[Session], content: bytes, piece: int = 70_001) -> StoredArtifact:
    pieces = (content[start : start + piece] for start in range(0, len(content), piece))
    with sessions.begin() as session:
        return ArtifactStore(session).write(pieces)


def rows(sessions: sessionmaker[Session]) -> tuple[int, int]:
    """How many artifacts and how many chunks there are."""
    with sessions() as session:
        tables = (Artifact, ArtifactChunk)
        artifacts, chunks = (
            session.scalar(select(func.count()).select_from(table)) for table in tables
        )
    return artifacts or 0, chunks or 0


SIZES: list[Any] = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1]


def test_what_was_written_is_read(sessions: sessionmaker[Session]) -> None:
    for size in SIZES:
        content = CONTENT[:size]
        stored = store(sessions, content)
        assert stored == StoredArtifact(hashlib.sha256(content).hexdigest(), size)
        with sessions() as session:
            assert b"".join(ArtifactStore(session).read(stored.sha256)) == content
            assert ArtifactStore(session).size(stored.sha256) == size
        assert b"".join(streamed(sessions, stored.sha256)) == content


RANGES: list[Any] = [
    (0, 1),
    (10, 10),
    (CHUNK_BYTES - 3, CHUNK_BYTES + 3),
    (CHUNK_BYTES, 2 * CHUNK_BYTES),
    (5, None),
    (len(CONTENT) - 1, None),
    (len(CONTENT), None),
    (0, 10 * len(CONTENT)),
]


def test_a_range_is_read(sessions: sessionmaker[Session]) -> None:
    for start, stop in RANGES:
        stored = store(sessions, CONTENT)
        with sessions() as session:
            read = b"".join(ArtifactStore(session).read(stored.sha256, start, stop))
        assert read == CONTENT[start:stop]
        assert b"".join(streamed(sessions, stored.sha256, start, stop)) == CONTENT[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (3, 2)])
def test_a_range_that_is_none_is_refused(
    sessions: sessionmaker[Session], start: int, stop: int
) -> None:
    stored = store(sessions, b"content")
    with pytest.raises(ValueError, match="is none"):
        list(streamed(sessions, stored.sha256, start, stop))


def test_equal_content_is_stored_once(sessions: sessionmaker[Session]) -> None:
    assert store(sessions, CONTENT, 1_000) == store(sessions, CONTENT, 999_999)
    assert rows(sessions) == (1, 3)


def test_an_unknown_digest_is_an_error(sessions: sessionmaker[Session]) -> None:
    with sessions() as session, pytest.raises(ArtifactNotFound):
        ArtifactStore(session).size("0" * 64)
    with pytest.raises(ArtifactNotFound):
        next(streamed(sessions, "0" * 64))


def test_a_stream_that_breaks_off_leaves_nothing(sessions: sessionmaker[Session]) -> None:
    def breaking() -> Iterator[bytes]:
        yield CONTENT
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError), sessions.begin() as session:
        ArtifactStore(session).write(breaking())
    assert rows(sessions) == (0, 0)


def test_two_writers_of_equal_content_share_it(sessions: sessionmaker[Session]) -> None:
    start = threading.Barrier(4)

    def write(_: int) -> StoredArtifact:
        start.wait()
        return store(sessions, CONTENT)

    with ThreadPoolExecutor(4) as pool:
        stored = set(pool.map(write, range(4)))
    assert len(stored) == 1
    assert rows(sessions) == (1, 3)
    assert b"".join(streamed(sessions, stored.pop().sha256)) == CONTENT


def test_a_writer_that_fails_late_does_not_harm_the_other(sessions: sessionmaker[Session]) -> None:
    """The second writer waits for the first, whose content is discarded."""
    with sessions() as first:
        ArtifactStore(first).write([CONTENT])
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(store, sessions, CONTENT)
            until(lambda: somebody_waits(sessions), "a second writer that waits")
            assert not second.done()
            first.rollback()
            stored = second.result()
    assert b"".join(streamed(sessions, stored.sha256)) == CONTENT


def test_a_long_stream_is_never_held_in_memory(sessions: sessionmaker[Session]) -> None:
    assert most_bytes_held(sessions, 24 * CHUNK_BYTES) < 12 * CHUNK_BYTES


def staged_zeros(sessions: sessionmaker[Session], rows: int) -> StoredArtifact:
    """Zeros received under the name `upload:x`, and their announcement."""
    content = bytes(rows * CHUNK_BYTES)
    with sessions.begin() as session:
        stage(session, "upload:x", len(content))
        put_rows(session, "upload:x", 0, [bytes(CHUNK_BYTES)] * rows)
    return StoredArtifact(hashlib.sha256(content).hexdigest(), len(content))


def test_a_reading_that_is_broken_off_leaves_the_session_usable(
    sessions: sessionmaker[Session],
) -> None:
    staged = staged_zeros(sessions, 8)
    with sessions() as session:
        with closing(staged_bytes(session, "upload:x", staged.size)) as arrived:
            assert len(next(arrived)) == CHUNK_BYTES
        session.rollback()
        assert session.scalars(select(Artifact.sha256)).all() == ["upload:x"]
        ArtifactStore(session).settle("upload:x", staged)
        read = b"".join(ArtifactStore(session).read(staged.sha256))
    assert (len(read), read.strip(b"\0")) == (staged.size, b"")


def test_a_connection_that_ends_while_rows_are_read_is_an_outage(
    sessions: sessionmaker[Session],
) -> None:
    """As it is between statements: one error, for which the API has an answer."""
    staged = staged_zeros(sessions, 12)
    with sessions() as session:
        own = session.scalar(select(func.pg_backend_pid()))
        arriving = staged_bytes(session, "upload:x", staged.size)
        next(arriving)
        with sessions() as other:
            other.scalar(select(func.pg_terminate_backend(own)))
        with pytest.raises(OperationalError):
            list(arriving)
    assert rows(sessions) == (1, 12)
