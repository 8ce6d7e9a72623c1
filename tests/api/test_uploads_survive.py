"""A server killed during an upload: nothing partial, and it resumes."""

import hashlib
import random
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.serving import a_server
from tests.nursery import Nursery

from adaptlab_client import Client
from adaptlab_client.errors import ServerUnreachable
from adaptlab_client.transport.connection import Retries
from adaptlab_db.artifacts import streamed
from adaptlab_db.tables import Artifact, ArtifactChunk, Dataset, UploadChunk
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import collect
from adaptlab_services.storage.scrubbing import scrub

Sessions = sessionmaker[Session]
CONTENT = random.Random(41).randbytes(3 * 2**23 + 5)
DIGEST = hashlib.sha256(CONTENT).hexdigest()

KILLED = """
import os, signal, {module} as module
original, calls = module.{name}, 0

def killed(*arguments, **named):
    global calls
    calls += 1
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **named)

module.{name} = killed
"""
HASTY = """
from adaptlab_db.artifacts import ArtifactStore
verify_first = ArtifactStore.settle

def hasty(self, staged, announced):
    self._rename(staged, announced)
    self._session.connection().connection.driver_connection.commit()
    verify_first(self, staged, announced)

ArtifactStore.settle = hasty
"""
"""What completing must not be: keeping first, and reading again afterwards."""

MOMENTS = {
    "a chunk has half arrived": ("adaptlab_services.storage.upload_chunks", "put_rows", 6),
    "a chunk is about to be noted": (
        "adaptlab_services.storage.upload_chunks.ChunkWriting",
        "_note",
        2,
    ),
    "everything was renamed": ("adaptlab_services.storage.uploads", "unstage", 1),
    "all is done but the commit": ("adaptlab_services.storage.uploads", "_view", 2),
}


def killed_at(module: str, name: str, call: int) -> str:
    """Code with which the server kills itself at the n-th call."""
    if module.rpartition(".")[2][0].isupper():
        module, _, kind = module.rpartition(".")
        name = f"{kind}.{name}"
    return KILLED.format(module=module, name=name, call=call)


@pytest.mark.long("large uploads and slow clients", but=1)
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_an_upload_outlives_its_server(
    settings: Settings,
    sessions: Sessions,
    token: str,
    tmp_path: Path,
    nursery: Nursery,
    moment: tuple[str, str, int],
) -> None:
    file = tmp_path / "content"
    file.write_bytes(CONTENT)
    once = Retries(attempts=1)
    with a_server(
        settings, token, tmp_path / "first.log", killed_at(*moment), nursery=nursery
    ) as server:
        with Client(server.url, token, retries=once) as client, pytest.raises(ServerUnreachable):
            client.uploads.send(file)
        assert server.process.wait(60) == -9
    with sessions() as session:
        assert set(session.scalars(select(Artifact.state))) == {"uploading"}
        noted = {chunk.number: chunk.sha256 for chunk in session.scalars(select(UploadChunk))}
    for number, sha256 in noted.items():
        chunk = CONTENT[number * 2**23 : (number + 1) * 2**23]
        assert sha256 == hashlib.sha256(chunk).hexdigest()
    with (
        a_server(settings, token, tmp_path / "second.log", nursery=nursery) as server,
        Client(server.url, token) as client,
    ):
        assert client.uploads.send(file).state == "complete"
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT
    found = scrub(sessions)
    assert (found.checked, found.quarantined) == (1, ())
    with sessions() as session:
        assert len(session.scalars(select(ArtifactChunk.number)).all()) == 25


WHILE_READING = {
    "a row has arrived": ("adaptlab_services.storage.staged_content", "put_rows", 2),
    "the rows were renamed": ("adaptlab_services.models.datasets", "_insert", 1),
    "all is done but the commit": ("adaptlab_services.models.datasets", "get", 1),
}
RECORDS = b"text\n" + b"".join(b"%d %s\n" % (n, b"x" * 2**16) for n in range(40))


@pytest.mark.parametrize("moment", WHILE_READING.values(), ids=WHILE_READING)
def test_a_server_killed_while_it_reads_records_leaves_no_dataset(
    settings: Settings,
    sessions: Sessions,
    token: str,
    tmp_path: Path,
    nursery: Nursery,
    moment: tuple[str, str, int],
) -> None:
    file = tmp_path / "records.csv"
    file.write_bytes(RECORDS)
    once = Retries(attempts=1)
    with a_server(
        settings, token, tmp_path / "first.log", killed_at(*moment), nursery=nursery
    ) as server:
        with Client(server.url, token, retries=once) as client, pytest.raises(ServerUnreachable):
            client.datasets.upload_file("records", file, kind="records")
        assert server.process.wait(60) == -9
    with sessions() as session:
        assert session.scalars(select(Dataset)).all() == []
        assert set(session.scalars(select(Artifact.state))) == {"ready", "uploading"}
    with (
        a_server(settings, token, tmp_path / "second.log", nursery=nursery) as server,
        Client(server.url, token) as client,
    ):
        made = client.datasets.upload_file("records", file, kind="records")
    collect(sessions, unreferenced_for=timedelta(0))
    with sessions() as session:
        assert session.scalars(select(Artifact.sha256)).all() == [made.digest]
        assert set(session.scalars(select(ArtifactChunk.sha256))) == {made.digest}


def test_keeping_before_reading_again_would_be_noticed(
    settings: Settings, sessions: Sessions, token: str, tmp_path: Path, nursery: Nursery
) -> None:
    """The same look at a server that does it in the wrong order."""
    file = tmp_path / "content"
    file.write_bytes(CONTENT)
    before = HASTY + killed_at("adaptlab_db.artifacts", "_verified", 1)
    with (
        a_server(settings, token, tmp_path / "log", before, nursery=nursery) as server,
        Client(server.url, token, retries=Retries(attempts=1)) as client,
        pytest.raises(ServerUnreachable),
    ):
        client.uploads.send(file)
    with sessions() as session:
        assert set(session.scalars(select(Artifact.state))) == {"uploading", "ready"}
