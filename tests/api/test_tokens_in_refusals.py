"""A token in the wrong place is in no refusal, no log and no row."""

import json
import logging
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_pretrain_document

from adaptlab_db.tables import Table

Sessions = sessionmaker[Session]


def everything(sessions: Sessions) -> str:
    """Every row of every table, as text."""
    with sessions() as session:
        tables = [table.name for table in Table.metadata.sorted_tables]
        return "\n".join(
            str(session.execute(text(f'SELECT t::text FROM "{name}" AS t')).all())
            for name in tables
        )


@pytest.mark.parametrize(
    "wrong",
    [lambda token: {token: 1}, lambda token: {"family": token}],
    ids=["unknown", "family"],
)
@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_a_refused_body_is_not_quoted_with_its_token(
    api: TestClient,
    sessions: Sessions,
    token: str,
    wrong: Callable[[str], dict[str, object]],
    escaped: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    content = json.dumps(a_pretrain_document() | wrong(token))
    if escaped:
        content = content.replace("al_", "\\u0061l_")
    answer = api.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert token not in answer.text
    assert token not in everything(sessions)
    assert token not in caplog.text


def test_a_repeated_key_is_named_without_its_token(api: TestClient, token: str) -> None:
    content = f'{{"{token}": 1, "{token}": 2}}'
    answer = api.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.json()["errors"][0]["pointer"] == "/al_…"
    assert token not in answer.text


def test_a_token_in_an_address_is_cut_in_the_audit_log(
    api: TestClient, sessions: Sessions, token: str
) -> None:
    del api.headers["Authorization"]
    wrong = {"Authorization": "Bearer al_wrong"}
    assert api.delete(f"/v1/projects/default/members/{token}", headers=wrong).status_code == 401
    written = everything(sessions)
    assert "/v1/projects/default/members/al_…" in written
    assert token not in written
