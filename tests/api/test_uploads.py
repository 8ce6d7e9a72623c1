"""Chunks in any order, also after a break; nothing partial is kept."""

import base64
import hashlib
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token
from tests.s3_server import running_s3_server

from adaptlab_api.app import create_app
from adaptlab_db.artifacts import streamed
from adaptlab_db.session import close
from adaptlab_db.stores.s3 import S3Address
from adaptlab_db.tables import Artifact, ArtifactChunk, Upload, UploadChunk
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import Collected, collect
from adaptlab_services.storage.scrubbing import scrub

Sessions = sessionmaker[Session]
CHUNK = 8 * 2**20
CONTENT = random.Random(23).randbytes(2 * CHUNK + 2**20 + 321)
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PIECES = [CONTENT[start : start + CHUNK] for start in range(0, len(CONTENT), CHUNK)]


def announced(content: bytes = CONTENT, **changes: Any) -> dict[str, Any]:
    return {
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    } | changes


def begin(api: TestClient, content: bytes = CONTENT) -> dict[str, Any]:
    answer = api.post("/v1/uploads", json=announced(content))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def digest_header(content: bytes) -> dict[str, str]:
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return {"Content-Digest": f"sha-256=:{digest}:", "Content-Type": "application/octet-stream"}


def put(
    api: TestClient,
    upload: Mapping[str, Any],
    number: int,
    content: bytes,
    headers: Mapping[str, str] | None = None,
) -> httpx2.Response:
    address = f"{upload['links']['chunks']}/{number}"
    return api.put(address, content=content, headers=headers or digest_header(content))


def put_all(api: TestClient, upload: Mapping[str, Any]) -> None:
    for number, piece in enumerate(PIECES):
        assert put(api, upload, number, piece).status_code == 204


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    return found


def complete(api: TestClient, upload: Mapping[str, Any]) -> httpx2.Response:
    return api.post(upload["links"]["complete"])


def states(sessions: Sessions) -> dict[str, str]:
    with sessions() as session:
        return {row.sha256: row.state for row in session.scalars(select(Artifact))}


def rows(sessions: Sessions, table: type[Any]) -> int:
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(table)).one()


# --- the way it goes ---


def test_an_announced_upload_is_open_and_says_how_many_chunks_it_takes(api: TestClient) -> None:
    answer = api.post("/v1/uploads", json=announced())
    upload = answer.json()
    assert answer.headers["location"] == upload["links"]["self"]
    assert (upload["state"], upload["chunks"], upload["chunk_bytes"]) == ("open", 3, CHUNK)


def test_chunks_in_any_order_become_the_content(api: TestClient, sessions: Sessions) -> None:
    upload = begin(api)
    for number in (2, 0):
        assert put(api, upload, number, PIECES[number]).status_code == 204
    there = api.get(upload["links"]["self"]).json()["received"]
    assert there == [
        {"number": n, "size_bytes": len(PIECES[n]),
         "sha256": hashlib.sha256(PIECES[n]).hexdigest()} for n in (0, 2)
    ]  # fmt: skip
    found = problem(complete(api, upload), 409)
    assert (found["state"], "lacks 1 of 3 chunks: 1." in found["detail"]) == ("open", True)
    assert put(api, upload, 1, PIECES[1]).status_code == 204
    done = complete(api, upload)
    assert (done.status_code, done.json()["state"]) == (200, "complete")
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT
    assert states(sessions) == {DIGEST: "ready"}
    assert (rows(sessions, ArtifactChunk), rows(sessions, UploadChunk)) == (18, 0)
    assert complete(api, upload).json() == done.json(), "again is the same"


def test_the_same_announcement_is_the_same_upload(api: TestClient, sessions: Sessions) -> None:
    upload = begin(api)
    put(api, upload, 0, PIECES[0])
    again = api.post("/v1/uploads", json=announced())
    assert (again.status_code, again.json()["id"]) == (200, upload["id"])
    assert [one["number"] for one in again.json()["received"]] == [0]
    assert api.get("/v1/uploads").json() == {"data": [again.json()], "next_page_token": None}
    assert rows(sessions, Upload) == 1


def test_a_chunk_that_is_there_is_checked_and_changes_nothing(
    api: TestClient, sessions: Sessions
) -> None:
    upload = begin(api)
    for _ in range(2):
        assert put(api, upload, 0, PIECES[0]).status_code == 204
    lied = put(api, upload, 0, PIECES[1], digest_header(PIECES[0]))
    assert problem(lied, 422)["errors"][0]["code"] == "wrong_digest"
    assert put(api, upload, 0, PIECES[1]).status_code == 204, "another one takes its place"
    for number, piece in enumerate(PIECES):
        put(api, upload, number, piece)
    assert complete(api, upload).status_code == 200
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT


def test_chunks_may_come_at_the_same_time(api: TestClient, sessions: Sessions) -> None:
    upload = begin(api)
    with ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda n: put(api, upload, n % 3, PIECES[n % 3]), range(6))
        assert {answer.status_code for answer in answers} == {204}
    assert complete(api, upload).status_code == 200
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT


def test_content_that_is_there_already_is_kept_once(api: TestClient, sessions: Sessions) -> None:
    first = begin(api)
    put_all(api, first)
    complete(api, first)
    assert api.delete(first["links"]["self"]).status_code == 204
    second = begin(api)
    assert (second["state"], second["received"]) == ("open", []), "nothing is told of what is there"
    put_all(api, second)
    assert complete(api, second).status_code == 200
    assert states(sessions) == {DIGEST: "ready"}
    assert rows(sessions, ArtifactChunk) == 18


# --- what is refused ---


def test_other_bytes_than_announced_leave_nothing(api: TestClient, sessions: Sessions) -> None:
    upload = begin(api)
    put_all(api, upload)
    put(api, upload, 2, PIECES[2][::-1])
    found = problem(complete(api, upload), 422)
    assert found["errors"][0]["code"] == "wrong_digest"
    assert DIGEST in found["detail"]
    assert set(states(sessions).values()) == {"uploading"}
    put(api, upload, 2, PIECES[2])
    assert complete(api, upload).status_code == 200


def test_rows_that_were_damaged_are_noticed(api: TestClient, sessions: Sessions) -> None:
    """Only the second reading counts, not the chunks as they arrived."""
    upload = begin(api)
    put_all(api, upload)
    with sessions.begin() as session:
        damaged = update(ArtifactChunk).where(ArtifactChunk.number == 9)
        session.execute(damaged.values(content=PIECES[0][: 2**20]))
    problem(complete(api, upload), 422)
    with sessions.begin() as session:
        session.execute(delete(ArtifactChunk).where(ArtifactChunk.number == 17))
    assert "lost bytes" in problem(complete(api, upload), 409)["detail"]
    assert set(states(sessions).values()) == {"uploading"}


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        (announced(size_bytes=2**30 + 1), 413, "/size_bytes"),
        (announced(size_bytes=0), 422, "/size_bytes"),
        (announced(size_bytes="1"), 422, "/size_bytes"),
        (announced(sha256=DIGEST.upper()), 422, "/sha256"),
        (announced(sha256="../" + DIGEST[3:]), 422, "/sha256"),
        (announced(name="x"), 422, "/name"),
    ],
)
def test_announcements_are_checked(
    api: TestClient, body: Mapping[str, Any], status: int, pointer: str
) -> None:
    found = problem(api.post("/v1/uploads", json=body), status)
    assert found["errors"][0]["pointer"] == pointer
    if status == 413:
        assert found["errors"][0]["nearest"] == [2**30]


def test_a_chunk_has_its_size_and_its_place(api: TestClient) -> None:
    upload = begin(api)
    for number, content in ((0, PIECES[0][:-1]), (2, PIECES[2] + b"x"), (2, b"")):
        found = problem(put(api, upload, number, content), 422)
        assert found["errors"][0]["code"] == "wrong_size"
        assert found["errors"][0]["nearest"] == [len(PIECES[number])]
    found = problem(put(api, upload, 3, PIECES[0]), 422)
    assert (found["errors"][0]["pointer"], found["errors"][0]["nearest"]) == ("/path/number", [2])
    assert "8388608" in problem(put(api, upload, 0, PIECES[0] + b"x"), 413)["detail"]
    assert problem(put(api, upload, -1, b"x"), 422)
    assert api.get(upload["links"]["self"]).json()["received"] == []


def test_a_chunk_is_announced_by_its_digest(api: TestClient) -> None:
    upload = begin(api)
    right = digest_header(PIECES[0])
    for digest in (None, "", "sha-256=:AAAA:", "md5=:AAAA:", f"sha-256={'A' * 44}"):
        headers = dict(right)
        del headers["Content-Digest"]
        if digest is not None:
            headers["Content-Digest"] = digest
        found = problem(put(api, upload, 0, PIECES[0], headers), 422)
        assert found["errors"][0]["pointer"] == "/header/content-digest"
    two = right | {"Content-Digest": f"md5=:AAAA:, {right['Content-Digest']}"}
    assert put(api, upload, 0, PIECES[0], two).status_code == 204
    problem(put(api, upload, 0, PIECES[0], right | {"Content-Type": "text/plain"}), 415)


def test_one_owner_has_only_so_many(
    api: TestClient, anonymous: TestClient, sessions: Sessions
) -> None:
    bodies = [announced(sha256=f"{number:064x}") for number in range(9)]
    made = [api.post("/v1/uploads", json=body) for body in bodies]
    assert [answer.status_code for answer in made] == [201] * 8 + [429]
    assert "the most that this server allows at a time" in problem(made[-1], 429)["detail"]
    assert api.post("/v1/uploads", json=bodies[0]).status_code == 200
    api.delete(made[0].json()["links"]["self"])
    assert api.post("/v1/uploads", json=bodies[-1]).status_code == 201
    with sessions.begin() as session:
        other = a_token(session, "bert", scopes=("submit",))
    headers = {"Authorization": f"Bearer {other}"}
    assert anonymous.post("/v1/uploads", json=bodies[0], headers=headers).status_code == 201


@pytest.mark.parametrize("is_complete", [False, True])
def test_nobody_else_knows_of_an_upload(
    api: TestClient, sessions: Sessions, is_complete: bool
) -> None:
    upload = begin(api)
    put_all(api, upload)
    if is_complete:
        complete(api, upload)
    with sessions.begin() as session:
        api.headers["Authorization"] = f"Bearer {a_token(session, 'bert')}"
    asked = [
        api.get(upload["links"]["self"]),
        put(api, upload, 0, PIECES[0]),
        complete(api, upload),
        api.delete(upload["links"]["self"]),
        api.post("/v1/datasets", json={"name": "words", "upload": upload["id"]}),
    ]
    assert [answer.status_code for answer in asked] == [404] * 5
    assert api.get("/v1/uploads").json()["data"] == []


# --- letting go ---


def test_what_is_let_go_of_leaves_nothing(api: TestClient, sessions: Sessions) -> None:
    upload = begin(api)
    put(api, upload, 0, PIECES[0])
    assert api.delete(upload["links"]["self"]).status_code == 204
    assert [rows(sessions, table) for table in (Upload, UploadChunk, Artifact, ArtifactChunk)] == [
        0, 0, 0, 0,
    ]  # fmt: skip
    for answer in (put(api, upload, 1, PIECES[1]), complete(api, upload)):
        assert answer.status_code == 404


def test_uploads_are_collected_after_a_day(api: TestClient, sessions: Sessions) -> None:
    left, used = begin(api, CONTENT[1:]), begin(api)
    put_all(api, used)
    complete(api, used)
    put(api, left, 0, CONTENT[1 : CHUNK + 1])
    assert collect(sessions) == Collected()
    with sessions.begin() as session:
        day = timedelta(hours=24)
        session.execute(update(Upload).values(expires_at=Upload.expires_at - day))
        session.execute(update(Artifact).values(last_referenced_at=func.now() - day))
    gone = collect(sessions)
    assert (gone.uploads, gone.unreferenced) == (2, 1)
    assert (rows(sessions, Artifact), rows(sessions, ArtifactChunk)) == (0, 0)
    assert api.get(left["links"]["self"]).status_code == 404


def test_what_is_arriving_is_neither_collected_nor_scrubbed_nor_served(
    api: TestClient, sessions: Sessions
) -> None:
    put(api, begin(api), 0, PIECES[0])
    with sessions.begin() as session:
        session.execute(update(Artifact).values(last_referenced_at=func.now() - timedelta(days=9)))
    assert collect(sessions) == Collected()
    assert scrub(sessions).checked == 0
    (share,) = api.get("/v1/storage").json()["shares"]
    assert (share["state"], share["artifacts"], share["bytes"]) == ("uploading", 1, len(CONTENT))


# --- the other stores ---


@pytest.fixture(scope="module")
def s3_address() -> Iterator[S3Address]:
    with running_s3_server() as address:
        yield address


@pytest.fixture(params=["directory", "s3"])
def outside(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Settings:
    """Settings of a server whose artifacts go to another store."""
    changes: dict[str, Any] = {"artifact_store": request.param, "artifact_store_from_bytes": 1}
    if request.param == "directory":
        changes["artifact_folder"] = tmp_path / "artifacts"
    else:
        address: S3Address = request.getfixturevalue("s3_address")
        changes |= {
            "s3_bucket": address.bucket,
            "s3_prefix": address.prefix,
            "s3_endpoint": address.endpoint,
            "s3_access_key_id": address.access_key_id,
            "s3_secret_access_key": address.secret_access_key,
        }
    return settings.model_copy(update=changes)


def test_the_content_goes_to_the_store_for_its_size(outside: Settings, token: str) -> None:
    sessions = open_sessions(outside)
    with TestClient(create_app(outside)) as api:
        api.headers["Authorization"] = f"Bearer {token}"
        upload = begin(api)
        put_all(api, upload)
        put(api, upload, 2, PIECES[2][::-1])
        problem(complete(api, upload), 422)
        assert set(states(sessions).values()) == {"uploading"}
        put(api, upload, 2, PIECES[2])
        assert complete(api, upload).status_code == 200
    with sessions() as session:
        stored = session.scalars(select(Artifact)).one()
        assert (stored.sha256, stored.store) == (DIGEST, outside.artifact_store)
    assert b"".join(streamed(sessions, DIGEST)) == CONTENT
    assert rows(sessions, ArtifactChunk) == 0
    close(sessions)


def test_a_refused_chunk_leaves_the_good_one(api: TestClient, sessions: Sessions) -> None:
    upload = begin(api)
    put_all(api, upload)
    other = bytes(len(PIECES[0]))
    assert put(api, upload, 0, other, digest_header(PIECES[1])).status_code == 422
    assert put(api, upload, 0, other[:-1]).status_code == 422
    received = api.get(upload["links"]["self"]).json()["received"]
    assert received[0]["sha256"] == hashlib.sha256(PIECES[0]).hexdigest()
    assert complete(api, upload).status_code == 200


@pytest.mark.parametrize("order", [1, -1])
def test_two_digests_are_refused_whichever_is_true(api: TestClient, order: int) -> None:
    upload = begin(api)
    digests = [digest_header(one)["Content-Digest"] for one in (PIECES[0], b"")][::order]
    headers = digest_header(b"") | {"Content-Digest": ", ".join(digests)}
    found = problem(put(api, upload, 0, PIECES[0], headers), 422)
    assert found["errors"][0]["code"] == "several_digests"
