"""Every store: complete or nothing, read in ranges, and deletable."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.db.long_streams import most_bytes_held
from tests.s3_server import running_s3_server

from adaptlab_db.artifacts import CHUNK_BYTES, ArtifactStore, StoredArtifact, streamed
from adaptlab_db.errors import ArtifactGone, BytesMissing, StoreNotConfigured, StoreUnreachable
from adaptlab_db.session import close, session_factory
from adaptlab_db.stores.directory import DirectoryStore
from adaptlab_db.stores.postgres import PostgresStore
from adaptlab_db.stores.s3 import S3Address, S3Store
from adaptlab_db.stores.store import BytesPlace, Store, StoreName, Stores
from adaptlab_db.tables import Artifact, ArtifactChunk

CONTENT = random.Random(11).randbytes(9 * CHUNK_BYTES + 12_345)  # more than one part of an upload
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAMES = ("postgres", "directory", "s3")
OUTSIDE = ("directory", "s3")
Sessions = sessionmaker[Session]


@pytest.fixture(scope="module")
def s3_address() -> Iterator[S3Address]:
    with running_s3_server() as address:
        yield address


@pytest.fixture
def make_store(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Store]:
    def make(name: str) -> Store:
        if name == "postgres":
            return PostgresStore()
        if name == "directory":
            return DirectoryStore(tmp_path / "artifacts")
        return S3Store(request.getfixturevalue("s3_address"))

    return make


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, make_store: Callable[[str], Store]) -> Store:
    return make_store(request.param)


@pytest.fixture(params=OUTSIDE)
def outside(request: pytest.FixtureRequest, make_store: Callable[[str], Store]) -> Store:
    return make_store(request.param)


def with_store(sessions: Sessions, store: Store, large_from: int = 0) -> Sessions:
    """Sessions of a process in which artifacts go to `store`."""
    known: dict[str, Store] = {"postgres": PostgresStore(), store.name: store}
    engine: Engine = sessions.kw["bind"]
    return session_factory(engine, Stores(known, store.name, large_from))


def write(sessions: Sessions, content: bytes = CONTENT, piece: int = 700_001) -> StoredArtifact:
    pieces = (content[start : start + piece] for start in range(0, len(content), piece))
    with sessions.begin() as session:
        return ArtifactStore(session).write(pieces)


def keys(store: Store) -> set[str]:
    return {kept.key for kept in store.kept()}


def where(sessions: Sessions, sha256: str = DIGEST) -> BytesPlace:
    with sessions() as session:
        return ArtifactStore(session).locate(sha256).place


# --- the interface itself ---


def test_what_was_put_is_read_in_ranges(sessions: Sessions, store: Store) -> None:
    with sessions() as session:  # never committed: a chunk row needs its artifact
        place = store.put(session, DIGEST, [CONTENT[:10], b"", CONTENT[10:]])
        for start, stop in ((0, len(CONTENT)), (5, 6), (CHUNK_BYTES - 2, 3 * CHUNK_BYTES + 1)):
            read = bytearray()
            while start + len(read) < stop:
                read += store.read(session, place, start + len(read), stop)
            assert read == CONTENT[start:stop]
        store.delete(session, place)
        store.delete(session, place)
        with pytest.raises(BytesMissing):
            store.read(session, place, 0, 1)


def test_a_writing_that_breaks_off_leaves_nothing(sessions: Sessions, store: Store) -> None:
    def breaking() -> Iterator[bytes]:
        yield CONTENT
        raise LookupError

    before = keys(store)
    with sessions() as session, pytest.raises(LookupError):
        store.put(session, DIGEST, breaking())
    assert keys(store) == before


def test_two_writings_of_the_same_have_two_keys(sessions: Sessions, outside: Store) -> None:
    with sessions() as session:
        first, second = (outside.put(session, DIGEST, [b"content"]) for _ in range(2))
        assert {first.key, second.key} <= keys(outside)
        outside.delete(session, first)
        assert outside.read(session, second, 0, 7) == b"content"
        kept = {kept.key: kept.modified_at for kept in outside.kept()}
        assert first.key not in kept
        assert abs(kept[str(second.key)] - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize("key", ["../secret", "/etc/passwd", f"ab/cd/{DIGEST}", None])
def test_only_keys_of_our_own_become_paths(
    sessions: Sessions, tmp_path: Path, key: str | None
) -> None:
    store = DirectoryStore(tmp_path / "artifacts")
    (tmp_path / "secret").write_bytes(b"secret")
    with sessions() as session, pytest.raises(ValueError, match="is not the key of a stored file"):
        store.read(session, BytesPlace("directory", DIGEST, key), 0, 1)


def test_a_full_disk_leaves_no_half(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path / "artifacts")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with sessions() as session:
        store.put(session, DIGEST, [b"earlier"])
        before = keys(store)
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(StoreUnreachable, match="No space left"):
            store.put(session, DIGEST, [CONTENT])
    assert keys(store) == before


def test_a_server_that_is_away_is_told(sessions: Sessions) -> None:
    store = S3Store(S3Address("bucket", endpoint="http://127.0.0.1:1", access_key_id="a",
                              secret_access_key="b"))  # fmt: skip
    with sessions() as session, pytest.raises(StoreUnreachable, match=r"127[.]0[.]0[.]1:1/bucket"):
        store.read(session, BytesPlace("s3", DIGEST, "aa/bb/cc"), 0, 1)


# --- artifacts in it ---


@pytest.mark.parametrize("size", [0, 1, len(CONTENT)])
def test_an_artifact_is_written_and_read(sessions: Sessions, store: Store, size: int) -> None:
    known = with_store(sessions, store)
    content = CONTENT[:size]
    stored = write(known, content)
    assert stored == StoredArtifact(hashlib.sha256(content).hexdigest(), size)
    assert where(known, stored.sha256).store == store.name
    assert b"".join(streamed(known, stored.sha256)) == content
    with known() as session:
        read = b"".join(ArtifactStore(session).read(stored.sha256, 3, 2 * CHUNK_BYTES + 5))
    assert read == content[3 : 2 * CHUNK_BYTES + 5] if size > 3 else read == b""


def test_equal_content_is_kept_once(sessions: Sessions, outside: Store) -> None:
    known = with_store(sessions, outside)
    before = keys(outside)
    write(known)
    place = where(known)
    write(known)
    assert where(known) == place
    assert keys(outside) - before == {place.key}


def test_small_artifacts_stay_in_the_database(sessions: Sessions, outside: Store) -> None:
    known = with_store(sessions, outside, large_from=1000)
    small, large = write(known, CONTENT[:999]), write(known, CONTENT[:1000])
    assert where(known, small.sha256).store == "postgres"
    assert where(known, large.sha256).store == outside.name


def test_discarded_bytes_go_when_the_unit_of_work_is_committed(
    sessions: Sessions, outside: Store
) -> None:
    known = with_store(sessions, outside)
    write(known)
    key = where(known).key
    with known() as session:
        assert ArtifactStore(session).discard(DIGEST)
        session.rollback()
        session.commit()
    assert b"".join(streamed(known, DIGEST)) == CONTENT
    with known.begin() as session:
        assert ArtifactStore(session).discard(DIGEST)
        with session.begin_nested():
            session.execute(select(1))
        assert key in keys(outside), "a savepoint is no commit"
    assert key not in keys(outside)


def test_bytes_that_are_missing_are_an_error(sessions: Sessions, store: Store) -> None:
    known = with_store(sessions, store)
    write(known)
    with known.begin() as session:
        store.delete(session, where(known))
    with pytest.raises(BytesMissing, match="Restore them from a backup"):
        next(streamed(known, DIGEST))


@pytest.mark.parametrize("state", ["quarantined", "collected"])
def test_what_is_gone_says_why_until_it_is_written_again(
    sessions: Sessions, store: Store, state: str
) -> None:
    known = with_store(sessions, store)
    write(known)
    with known.begin() as session:
        old = where(known)
        gone: dict[str, object] = {"state": state, "reason": "because"}
        if state == "collected":
            store.delete(session, old)
            gone |= {"store": "postgres", "key": None}
        session.execute(update(Artifact).values(gone))
    with pytest.raises(ArtifactGone, match=f"{state}: because"):
        next(streamed(known, DIGEST))
    write(known)
    assert b"".join(streamed(known, DIGEST)) == CONTENT
    with known() as session:
        chunks = session.scalar(select(func.count()).select_from(ArtifactChunk))
    assert chunks == (10 if store.name == "postgres" else 0)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_process_without_the_store_says_which_setting(
    sessions: Sessions, make_store: Callable[[str], Store], name: StoreName
) -> None:
    write(with_store(sessions, make_store(name)))
    with pytest.raises(StoreNotConfigured, match="ADAPTLAB_"):
        next(streamed(sessions, DIGEST))


def test_no_connection_is_held_while_a_slow_store_takes_its_time(
    database_url: str, tmp_path: Path
) -> None:
    """A pool that is asked while the bytes are being put has lent nothing."""
    factory = session_factory(database_url)

    class Slow(DirectoryStore):
        def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> BytesPlace:
            engine: Engine = factory.kw["bind"]
            assert engine.pool.status().count("Current Checked out connections: 0")
            return super().put(session, sha256, chunks)

    write(with_store(factory, Slow(tmp_path)))
    close(factory)


def test_a_long_stream_is_never_held_in_memory(sessions: Sessions, outside: Store) -> None:
    known = with_store(sessions, outside)
    assert most_bytes_held(known, 64 * CHUNK_BYTES) < 32 * CHUNK_BYTES
