"""Records pass through the server piece by piece, into either store."""

import hashlib
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import Engine, func, select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.uploading import a_complete_upload

from adaptlab.errors import InvalidSpec
from adaptlab.records.record import canonical_line
from adaptlab_db.artifacts import streamed
from adaptlab_db.session import session_factory
from adaptlab_db.stores.directory import DirectoryStore
from adaptlab_db.stores.postgres import PostgresStore
from adaptlab_db.stores.store import StoreName, Stores
from adaptlab_db.tables import Artifact, ArtifactChunk
from adaptlab_services.errors import StateConflict
from adaptlab_services.models import record_uploads
from adaptlab_services.models.record_datasets import ReadingLimits, RecordsFromUpload
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.collecting import collect
from adaptlab_services.storage.staged_content import staged

Sessions = sessionmaker[Session]
LIMITS = ReadingLimits(2**28, 60)
RECORD = 2**16
RECORDS = [
    {"text": f"{number} {chr(97 + number % 26) * RECORD}", "number": str(number)}
    for number in range(256)
]
CONTENT = b"".join(map(canonical_line, RECORDS))
DIGEST = hashlib.sha256(CONTENT).hexdigest()
CSV = "".join(f'"{record["text"]}",{record["number"]}\n' for record in RECORDS)


def read(sessions: Sessions, ada: Principal, upload: UUID, form: str = "csv") -> None:
    new = RecordsFromUpload.model_validate(
        {"name": "long", "kind": "records", "upload": upload, "format": form}
    )
    record_uploads.from_upload(sessions.begin, sessions, ada, new, LIMITS)


@pytest.mark.parametrize("store", ["postgres", "directory"])
def test_content_is_stored_where_large_artifacts_are(
    sessions: Sessions, ada: Principal, tmp_path: Path, store: StoreName
) -> None:
    engine: Engine = sessions.kw["bind"]
    stores = Stores({"postgres": PostgresStore(), "directory": DirectoryStore(tmp_path)}, store)
    here = session_factory(engine, stores)
    read(here, ada, a_complete_upload(here, ada, f"text,number\n{CSV}".encode()))
    with here() as session:
        artifact = session.get_one(Artifact, DIGEST)
        assert (artifact.store, artifact.state, artifact.size) == (store, "ready", len(CONTENT))
    assert b"".join(streamed(here, DIGEST)) == CONTENT
    collect(here, unreferenced_for=timedelta(days=-1))
    assert b"".join(streamed(here, DIGEST)) == CONTENT


def test_content_is_never_in_memory_as_a_whole(sessions: Sessions, ada: Principal) -> None:
    assert len(CONTENT) > 2**24
    upload = a_complete_upload(sessions, ada, f"text,number\n{CSV}".encode())
    tracemalloc.start()
    try:
        read(sessions, ada, upload)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(CONTENT) / 2


def test_no_transaction_waits_for_the_next_piece(sessions: Sessions) -> None:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()"
    )
    seen: list[int] = []

    def pieces() -> Iterator[bytes]:
        for _ in range(3):
            yield b"x" * 2**20
            with sessions() as session:
                seen.append(session.scalars(waiting).one())

    with staged(sessions, pieces()) as content:
        assert content.artifact.size == 3 * 2**20
    assert seen == [0, 0, 0]
    with sessions() as session:
        assert session.scalars(select(func.count()).select_from(ArtifactChunk)).one() == 0


def test_a_problem_at_the_end_leaves_nothing(sessions: Sessions, ada: Principal) -> None:
    upload = a_complete_upload(sessions, ada, f"text,number\n{CSV}one,two,three\n".encode())
    with pytest.raises(InvalidSpec, match="Line 258"):
        read(sessions, ada, upload)
    with sessions() as session:
        assert session.scalars(select(Artifact.state)).all() == ["ready"]
        chunks = session.scalars(select(func.count(ArtifactChunk.sha256.distinct()))).one()
    assert chunks == 1


def test_a_name_that_is_taken_leaves_nothing(sessions: Sessions, ada: Principal) -> None:
    read(sessions, ada, a_complete_upload(sessions, ada, b'{"a":"b"}\n'), "jsonl")
    again = a_complete_upload(sessions, ada, b'{"a":"c"}')
    with pytest.raises(StateConflict, match="with other records"):
        read(sessions, ada, again, "jsonl")
    with sessions() as session:
        assert session.scalars(select(func.count()).select_from(Artifact)).one() == 2
