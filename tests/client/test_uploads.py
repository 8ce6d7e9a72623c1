"""Large files are sent in chunks, resumed, and arrive unchanged."""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke

from adaptlab_client import Client
from adaptlab_client.errors import DigestMismatch, ServerUnreachable, TooLarge
from adaptlab_client.resources import uploads
from adaptlab_client.transport.connection import Retries
from adaptlab_db.artifacts import streamed
from adaptlab_db.tables import Upload

Sessions = sessionmaker[Session]
CONTENT = random.Random(31).randbytes(4 * 2**23 + 99)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Flaky(httpx.HTTPTransport):
    """A way to the server on which the line breaks at some chunks."""

    def __init__(self, breaks: Iterator[bool]) -> None:
        super().__init__()
        self._breaks = breaks
        self.sent: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            if next(self._breaks, False):
                raise httpx.WriteError("The line broke.")
            self.sent.append(request.url.path.rpartition("/")[2])
        return super().handle_request(request)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    return path


def a_client(address: Address, breaks: Iterator[bool], attempts: int = 1) -> tuple[Client, Flaky]:
    transport = Flaky(breaks)
    retries = Retries(attempts=attempts, sleep=lambda _: None)
    return Client(*address, transport=transport, retries=retries), transport


def test_a_file_arrives(client: Client, sessions: Sessions, file: Path) -> None:
    seen: list[tuple[int, int]] = []
    upload = client.uploads.send(file, report=lambda *said: seen.append(said))
    assert (upload.state, upload.sha256) == ("complete", DIGEST)
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT
    assert seen == [(min(n * 2**23, len(CONTENT)), len(CONTENT)) for n in range(1, 6)]
    assert client.uploads.send(str(file)) == upload, "again sends nothing"
    assert [one.id for one in client.uploads.list()] == [upload.id]
    client.uploads.delete(upload.id)
    assert [*client.uploads.list()] == []


def test_a_server_may_ask_for_other_chunks_than_were_hashed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "CHUNK_BYTES", 3 * 2**20)
    sent = client.uploads.send_bytes(CONTENT[: 2**23 + 9])
    assert (sent.state, sent.size_bytes) == ("complete", 2**23 + 9)


def test_what_is_there_is_not_sent_again(address: Address, sessions: Sessions, file: Path) -> None:
    broken, first = a_client(address, iter([False, False, True, True, True]))
    with broken, pytest.raises(ServerUnreachable):
        broken.uploads.send(file)
    assert first.sent
    whole, second = a_client(address, iter([]))
    with whole:
        assert whole.uploads.send(file).state == "complete"
    assert sorted([*first.sent, *second.sent]) == ["0", "1", "2", "3", "4"]
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT


def test_a_line_that_breaks_now_and_then_is_no_matter(address: Address, file: Path) -> None:
    client, _ = a_client(address, iter([True, False, True, True, False]), attempts=4)
    with client:
        assert client.uploads.send(file).sha256 == DIGEST


def test_a_file_that_changes_meanwhile_is_not_kept(
    client: Client, sessions: Sessions, file: Path
) -> None:
    def change(_there: int, _size: int) -> None:
        with file.open("r+b") as changing:
            changing.seek(-1, 2)
            changing.write(bytes([CONTENT[-1] ^ 1]))

    with pytest.raises(DigestMismatch, match="Upload it again"):
        client.uploads.send(file, report=change)
    with sessions() as session:
        assert session.scalars(select(Upload)).all() == []


@pytest.mark.long("large uploads and slow clients")
def test_what_is_too_large_is_told(client: Client, tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(TooLarge, match=str(2**30)):
        client.uploads.send(sparse)


@pytest.mark.long("large uploads and slow clients")
def test_more_words_than_a_body_may_have(client: Client, invoke: Invoke, tmp_path: Path) -> None:
    words = ["".join(chr(97 + int(digit)) for digit in f"{n:05d}") for n in range(30_000)]
    triples = [(word, word[::-1] * 4, word * 4) for word in words]
    made = client.datasets.upload("many", triples)
    assert made.triples == 30_000
    assert [*client.uploads.list()] == [], "let go of when it was used"
    lines = tmp_path / "words.jsonl"
    lines.write_text("".join(f"{json.dumps(triple)}\n" for triple in triples))
    tabs = tmp_path / "words.tsv"
    tabs.write_text("".join("\t".join(triple) + "\n" for triple in triples))
    for name, file in (("lines", lines), ("tabs", tabs)):
        done = invoke("datasets", "upload", name, str(file), "-o", "json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["digest"] == made.digest
    broken = tmp_path / "broken.tsv"
    broken.write_text("one\ttwo\n")
    done = invoke("datasets", "upload", "broken", str(broken), "--kind", "words")
    assert done.exit_code != 0
    assert "Line 1 is not a triple" in done.output
