"""A token that got into a spec, a label or any other text is refused, and kept nowhere."""

import hashlib
import json
import logging
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.api.test_uploads import begin, complete, problem, put
from tests.making import a_pretrain_document, a_study_document

from adaptlab_db.tables import ArtifactChunk, Table
from adaptlab_services.people.tokens import LENGTH, authenticate, holds_token, without_tokens
from adaptlab_services.storage.token_scan import TokenFound, TokenScan
from adaptlab_services.storage.upload_chunks import AnnouncedChunk, receiving
from adaptlab_services.storage.uploads import CHUNK_BYTES

Sessions = sessionmaker[Session]


def everything(sessions: Sessions) -> str:
    """Every row of every table, as text."""
    with sessions() as session:
        tables = [table.name for table in Table.metadata.sorted_tables]
        return "\n".join(
            str(session.execute(text(f'SELECT t::text FROM "{name}" AS t')).all())
            for name in tables
        )


def labelled(token: str) -> dict[str, Any]:
    return a_pretrain_document() | {"labels": {"note": f"ran with {token}."}}


def keyed(token: str) -> dict[str, Any]:
    return a_pretrain_document() | {"labels": {token: "x"}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/jobs", labelled),
        ("/v1/jobs", keyed),
        ("/v1/jobs?validate_only=true", labelled),
        ("/v1/jobs", lambda token: {"kind": token}),
        ("/v1/jobs", lambda token: {token: {token: [token]}}),
        ("/v1/studies", lambda token: a_study_document() | {"description": token}),
        ("/v1/tokens", lambda token: {"name": token}),
        ("/v1/users", lambda token: {"name": token}),
        ("/v1/projects", lambda token: {"name": token}),
        ("/v1/budgets/solve", lambda token: {"base_model": token}),
    ],
    ids=["label", "key", "preview", "kind", "keys", "study", "token", "user", "project", "budget"],
)
@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_a_body_with_a_token_is_refused_and_kept_nowhere(
    api: TestClient,
    sessions: Sessions,
    token: str,
    path: str,
    body: Callable[[str], Any],
    escaped: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    content = json.dumps(body(token))
    if escaped:
        content = content.replace("al_", "\\u0061l_")
    answer = api.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "holds_token" in {fault["code"] for fault in answer.json()["errors"]}
    assert token not in answer.text
    assert token not in everything(sessions)
    assert token not in caplog.text


def test_an_idempotency_key_is_no_place_for_one(
    api: TestClient, sessions: Sessions, token: str
) -> None:
    headers = {"Idempotency-Key": f"key-{token}"}
    answer = api.post("/v1/jobs", json=a_pretrain_document(), headers=headers)
    assert answer.status_code == 422
    assert token not in answer.text
    assert token not in everything(sessions)


def test_an_address_with_one_is_not_written_down(
    api: TestClient, sessions: Sessions, token: str
) -> None:
    del api.headers["Authorization"]
    wrong = {"Authorization": "Bearer al_wrong"}
    assert api.delete(f"/v1/projects/default/members/{token}", headers=wrong).status_code == 401
    written = everything(sessions)
    assert "/v1/projects/default/members/al_…" in written
    assert token not in written


def test_what_only_looks_like_one_is_let_through(api: TestClient, token: str) -> None:
    mistyped = token[:-1] + ("0" if token[-1] != "0" else "1")
    none = ("al_", "general_" + "x" * 43, "al_" + "0" * 43 + "_0000000")
    for number, value in enumerate((mistyped, token[:-1], *none)):
        changes = {"name": f"base-{number}", "labels": {"note": value}}
        answer = api.post("/v1/jobs", json=a_pretrain_document() | changes)
        assert answer.status_code == 201, value


def test_tokens_are_found_wherever_they_stand(token: str) -> None:
    for around in ("{}", "x{}y", "Bearer {}", "al_{}", "al_al_{}", "{0}{0}", "é{}\n"):
        content = around.format(token)
        assert holds_token(content), around
        assert token not in without_tokens(content)
    assert not holds_token("")
    assert without_tokens("al_ is no token") == "al_ is no token"


def chunked(content: bytes) -> list[bytes]:
    return [content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES)]


def after(size: int, token: str) -> bytes:
    """A token behind so many bytes that are those of numbers, with half a token before it."""
    numbers = random.Random(5).randbytes(size - 9)
    return numbers + b"al_al_al_" + token.encode() + b"\xff" * 100


ROW = 2**20
PLACES = {
    "at the start": 9,
    "in the middle of a row": 5000,
    "across two rows": ROW - 20,
    "across two writes": 4 * ROW - 53,
    "at the end of a chunk": CHUNK_BYTES - 54,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_chunk_with_a_token_is_refused_and_not_there(
    api: TestClient, sessions: Sessions, token: str, place: int
) -> None:
    upload = begin(api, after(place, token))
    answer = put(api, upload, 0, chunked(after(place, token))[0])
    assert problem(answer, 422)["errors"][0]["code"] == "holds_token"
    assert token not in answer.text
    assert api.get(upload["links"]["self"]).json()["received"] == []
    with sessions() as session:
        kept = session.scalars(select(ArtifactChunk.content)).all()
    assert all(token.encode() not in content for content in kept)


@pytest.mark.parametrize("left", [1, 27, 53])
def test_a_token_across_two_chunks_is_refused_when_they_are_put_together(
    api: TestClient, sessions: Sessions, token: str, left: int
) -> None:
    content = after(CHUNK_BYTES - left, token)
    upload = begin(api, content)
    for number in (1, 0):
        assert put(api, upload, number, chunked(content)[number]).status_code == 204
    answer = complete(api, upload)
    assert problem(answer, 422)["errors"][0]["code"] == "holds_token"
    assert api.get(upload["links"]["self"]).status_code == 404
    with sessions() as session:
        assert session.scalars(select(ArtifactChunk.number)).all() == []


def test_a_token_across_rows_of_two_senders_is_refused_when_they_are_put_together(
    api: TestClient, sessions: Sessions, token: str
) -> None:
    """Two send the same chunk at once, each half of the token: neither of them sends it whole."""
    content = after(2 * ROW - 27, token)
    first, second, third = (content[start : start + ROW] for start in (0, ROW, 2 * ROW))
    upload = begin(api, content)
    of_one = bytes(2 * ROW) + third
    with sessions() as session:
        principal = authenticate(session, token)
    one, other = (
        receiving(sessions, principal, AnnouncedChunk(UUID(upload["id"]), 0, sha256))
        for sha256 in (hashlib.sha256(of_one).hexdigest(), "0" * 64)
    )
    one.finish([of_one[:ROW], of_one[ROW : 2 * ROW], third])
    other.write([first, second])
    answer = complete(api, upload)
    assert problem(answer, 422)["errors"][0]["code"] == "holds_token"
    assert api.get(upload["links"]["self"]).status_code == 404


def test_a_token_is_found_wherever_it_is_cut(token: str) -> None:
    def found(look: str, *pieces: bytes) -> bool:
        scan = TokenScan()
        try:
            for piece in pieces:
                getattr(scan, look)(piece)
        except TokenFound:
            return True
        return False

    around = b"al_" * 30
    content = around + token.encode() + around
    for cut in range(len(content) + 1):
        halves = content[:cut], content[cut:]
        assert found("look", *halves), cut
        assert found("look_at_border", *halves) == (0 < cut - len(around) < LENGTH), cut
        assert found("look_at_border", *halves[:1], b"", *halves[1:]) == found(
            "look_at_border", *halves
        )
    assert found("look_at_border", *(bytes([byte]) for byte in content))
    assert not found("look", content[: len(around) + LENGTH - 1], b"\0", content[-91:])


def test_what_only_looks_like_a_token_goes_up(api: TestClient, token: str) -> None:
    """Another checksum; and many beginnings, which take no longer than other bytes to speak of."""
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    content = b"al_" * 100_000 + wrong.encode() + token[:-1].encode()
    upload = begin(api, content)
    assert put(api, upload, 0, content).status_code == 204
    assert complete(api, upload).status_code == 200
