"""A token that got into a spec, a label or any other text is refused, and kept nowhere."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_pretrain_document, a_study_document

from adaptlab_db.tables import Table
from adaptlab_services.tokens import holds_token, without_tokens

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
