"""From a name on the hub to a base model, with and without a token."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.api.people import somebody
from tests.api.sending import sent
from tests.folders import a_model_folder, in_shards
from tests.hub_server import COMMIT, Handler, Hub, a_hub
from tests.watching import until

from adaptlab_db.tables import HubToken
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
REPO = "lab/tiny"
CANARY = "hf_canary0123456789"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "tiny")


@pytest.fixture
def hub(folder: Path) -> Iterator[Hub]:
    more = {
        "README.md": b"# Tiny",
        "pytorch_model.bin": b"no",
        "modeling.py": b"no",
        "original/model.safetensors": b"no",
        "tokenizer_config.json": b"{}",
    }
    with a_hub() as hub:
        hub.add(REPO, folder, **more)
        yield hub


@pytest.fixture
def server(settings: Settings, token: str, hub: Hub) -> Iterator[TestClient]:
    with a_server(hub.settings(settings), token) as api:
        yield api


def ended(api: TestClient, fetch: dict[str, Any]) -> dict[str, Any]:
    """A fetch once it has ended, or waits for another attempt."""

    def found() -> dict[str, Any]:
        return api.get(fetch["links"]["self"]).json()

    until(lambda: found()["ended_at"] is not None or found()["error"] is not None, "the end")
    return found()


def fetched(api: TestClient, name: str = "tiny", **members: Any) -> dict[str, Any]:
    body = {"name": name, "source": f"hub:{REPO}@main"} | members
    answer = api.post("/v1/hub-fetches", json=body)
    assert answer.status_code == 201, answer.text
    return ended(api, answer.json())


def uploaded(api: TestClient, folder: Path, name: str) -> dict[str, Any]:
    files = [
        {"name": path.name, "upload": sent(api, path.read_bytes())}
        for path in sorted(folder.iterdir())
    ]
    return api.post("/v1/model-folders", json={"name": name, "files": files}).json()


@pytest.mark.parametrize("sharded", [False, True])
def test_a_name_becomes_a_base_model_like_that_of_an_uploaded_folder(
    server: TestClient, hub: Hub, folder: Path, sharded: bool
) -> None:
    if sharded:
        in_shards(folder)
        hub.add(REPO, folder)
    fetch = fetched(server, labels={"paper": "x"})
    assert (fetch["state"], fetch["commit"], fetch["error"]) == ("succeeded", COMMIT, None)
    job = server.get(fetch["links"]["job"]).json()
    assert (job["kind"], job["state"], job["labels"]) == ("import", "queued", {"paper": "x"})
    if not sharded:
        (folder / "tokenizer_config.json").write_text("{}")
    own = uploaded(server, folder, "own")
    assert server.get("/v1/model-folders/tiny").json()["sha256"] == own["sha256"]
    other = {"kind": "import", "name": "own", "folder": "uploaded/own"}
    theirs = server.post("/v1/jobs", json=other).json()["resolved_spec"]
    origin = {"folder": "uploaded/own", "origin": None}
    assert job["resolved_spec"] | {"model_folder": None} == theirs | {"model_folder": None}
    assert job["resolved_spec"]["model_folder"] | origin == theirs["model_folder"]


def test_only_what_is_read_is_asked_for(server: TestClient, hub: Hub) -> None:
    fetched(server)
    names = {"main", "config.json", "model.safetensors", "tokenizer_config.json"}
    assert set(hub.names()) == names
    assert not [one for one in hub.asked if "original" in one.path]


def test_the_origin_and_the_plan_are_shown(server: TestClient) -> None:
    fetch = fetched(server)
    assert (fetch["plan"]["architecture"], fetch["plan"]["licence"]) == (
        "LlamaForCausalLM",
        "apache-2.0",
    )
    base = server.get("/v1/base-models/tiny").json()
    assert (base["origin"]["commit"], base["origin"]["revision"]) == (COMMIT, "main")
    assert base["origin"]["fetched_by"] == "ada"
    again = {"kind": "import", "name": "twin", "folder": f"hub:{REPO}@{COMMIT}"}
    job = server.post("/v1/jobs", json=again).json()
    assert job["resolved_spec"]["model_folder"]["folder"] == "uploaded/tiny"
    assert job["resolved_spec"]["model_folder"]["origin"]["commit"] == COMMIT


def test_a_plan_needs_no_weights(server: TestClient, hub: Hub, folder: Path) -> None:
    fetch = fetched(server, plan_only=True)
    assert (fetch["state"], fetch["links"]["folder"], fetch["bytes_done"]) == ("succeeded", None, 0)
    header = 8 + int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    assert [one.start for one in hub.asked if one.host == "cdn"] == [0]
    assert header < 2**17
    question = {"fetch": fetch["id"], "budget": 64}
    planned = server.post("/v1/budgets/solve", json=question).json()
    assert planned["base_parameters"] == fetch["plan"]["parameters"]
    fetched(server)
    named = server.post("/v1/budgets/solve", json={"base_model": "tiny", "budget": 64}).json()
    assert named["data"] == planned["data"]
    gone = {"fetch": "6f1c2b3a-0000-4000-8000-000000000000", "budget": 64}
    refused = server.post("/v1/budgets/solve", json=gone).json()
    assert refused["errors"][0]["code"] == "no_plan"


def test_what_was_not_fetched_and_a_closed_server_say_what_to_do(
    server: TestClient, settings: Settings, token: str
) -> None:
    spec = {"kind": "import", "name": "tiny", "folder": "hub:lab/other"}
    refused = server.post("/v1/jobs", json=spec).json()["errors"][0]
    assert (refused["code"], refused["pointer"]) == ("absent", "/folder")
    assert "has no model lab/other, or you may not see it" in refused["detail"]
    for source in ("hub:../x", "hub:a/b/c", "hub:lab/x@../y", "hub:", "hub:lab/x.git"):
        answer = server.post("/v1/hub-fetches", json={"name": "x", "source": source})
        assert answer.json()["errors"][0]["code"] == "bad_hub_name", source
    with a_server(settings, token, hub="off") as closed:
        answer = closed.post("/v1/hub-fetches", json={"name": "x", "source": "hub:lab/tiny"})
        assert "ADAPTLAB_HUB=off" in answer.json()["errors"][0]["detail"]


def only_with(token: str) -> Any:
    """An answer of a gated repository to everybody else."""

    def change(handler: Handler) -> bool:
        if handler.headers.get("authorization") == f"Bearer {token}":
            return False
        handler.answer(403, x_error_code="GatedRepo", x_error_message=f"not for {token}")
        return True

    return change


def test_a_gated_model_is_for_those_whose_token_may(
    server: TestClient,
    hub: Hub,
    sessions: Sessions,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if its bytes are here, and the server has a token of its own."""
    monkeypatch.setenv("HF_TOKEN", CANARY)
    hub.changes["hub"] = only_with(CANARY)
    caplog.set_level(logging.DEBUG)
    set_at = server.put("/v1/hub-token", json={"token": CANARY})
    account = {"user": "lab", "token_name": "server", "role": "read"}
    assert (set_at.json()["is_set"], set_at.json()["account"]) == (True, account)
    assert fetched(server)["state"] == "succeeded"
    assert {one.headers.get("authorization") for one in hub.asked if one.host == "cdn"} == {None}
    count = len(hub.names("cdn"))
    other = somebody(sessions, "bob")
    body = {"name": "mine", "source": f"hub:{REPO}"}
    refused = server.post("/v1/hub-fetches", json=body, headers=other).json()
    assert ended(server, refused)["code"] == "gated"
    assert len(hub.names("cdn")) == count
    with sessions() as session:
        rows = session.execute(text("SELECT t::text FROM hub_fetches t")).scalars().all()
        sealed = session.scalars(select(HubToken.sealed)).one()
    assert CANARY not in f"{rows}{caplog.text}{set_at.text}"
    assert CANARY.encode() not in sealed


def test_a_token_that_the_hub_does_not_know_is_refused(server: TestClient, hub: Hub) -> None:
    hub.whoami = None
    refused = server.put("/v1/hub-token", json={"token": CANARY})
    assert (refused.status_code, CANARY in refused.text) == (422, False)
    assert "does not know this token" in refused.json()["errors"][0]["detail"]
    hub.changes["hub"] = lambda handler: handler.answer(503) or True
    stored = server.put("/v1/hub-token", json={"token": CANARY}).json()
    assert (stored["is_set"], stored["account"]) == (True, None)


def test_a_token_is_replaced_deleted_and_never_shown(
    sessions: Sessions, settings: Settings, token: str, hub: Hub
) -> None:
    with a_server(hub.settings(settings, hub="off"), token) as server:
        _replace_tokens(server, sessions)
        key = "another key of the same server, as it should be"
        with a_server(hub.settings(settings, hub_token_key=key), token) as api:
            assert fetched(api)["code"] == "sealed_token"
        assert server.delete("/v1/hub-token").status_code == 204
        assert not server.get("/v1/hub-token").json()["is_set"]


def _replace_tokens(server: TestClient, sessions: Sessions) -> None:
    bad = server.put("/v1/hub-token", json={"token": f"{CANARY} {CANARY}"})
    assert (bad.status_code, CANARY in bad.text) == (422, False)
    assert not server.get("/v1/hub-token").json()["is_set"]
    for value in (CANARY, f"{CANARY}2"):
        assert server.put("/v1/hub-token", json={"token": value}).status_code == 200
    assert not server.get("/v1/hub-token", headers=somebody(sessions, "bob")).json()["is_set"]
