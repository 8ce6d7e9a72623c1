"""Jobs and studies over HTTP whose base model is on a hub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.limited import a_server
from tests.folders import WEIGHTS, a_model_folder
from tests.hub_server import COMMIT, Handler, Hub, a_hub
from tests.making import a_study_document, an_adapt_document
from tests.watching import until

from adaptlab_services.settings import Settings

REPO = "lab/tiny"
BASE = {"kind": "import", "name": "tiny", "folder": f"hub:{REPO}@main"}
TASK = {"name": "sort_descending", "length": 4, "alphabet": 5}
TOKEN = "hf_canary0123456789"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with a_hub() as hub:
        hub.add(REPO, a_model_folder(tmp_path / "tiny"))
        yield hub


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model with more weights than are read for a header."""
    return a_model_folder(tmp_path / "large", vocabulary=20_000)


@pytest.fixture
def server(settings: Settings, token: str, hub: Hub) -> Iterator[TestClient]:
    with a_server(hub.settings(settings), token) as api:
        yield api


def an_adaptation(**changes: Any) -> dict[str, Any]:
    return an_adapt_document(base_model=BASE, task=TASK, evaluation={}, **changes)


def fetches_of(api: TestClient) -> list[dict[str, Any]]:
    """The fetches that are no plans."""
    found: list[dict[str, Any]] = api.get("/v1/hub-fetches").json()["data"]
    return [one for one in found if not one["plan_only"]]


def no_weights(handler: Handler) -> bool:
    """Answer the header of weights, and nothing else of them."""
    if "-131071" in handler.headers["range"]:
        return False
    handler.answer(503)
    return True


def test_one_request_is_enough(server: TestClient) -> None:
    answer = server.post("/v1/jobs", json=an_adaptation(), headers={"Idempotency-Key": "one"})
    assert (answer.status_code, answer.json()["state"]) == (201, "waiting"), answer.text
    job = answer.json()
    base = job["links"]["base_job"]
    until(lambda: server.get(base).json()["state"] == "queued", "the model")
    folder = server.get(base).json()["resolved_spec"]["model_folder"]
    assert (folder["origin"]["commit"], len(folder["stored"])) == (COMMIT, 2)
    (event,) = [
        one for one in server.get(f"{base}/events").json()["data"] if one["type"] == "queued"
    ]
    assert event["data"]["commit"] == COMMIT
    again = server.post("/v1/jobs", json=an_adaptation(), headers={"Idempotency-Key": "one"})
    assert (again.status_code, again.json()["id"]) == (200, job["id"])
    assert server.get(job["links"]["self"]).json()["fetch"] is None


def test_what_a_job_waits_for_is_shown(server: TestClient, hub: Hub, large: Path) -> None:
    hub.add(REPO, large)
    hub.changes["cdn"] = no_weights
    job = server.post("/v1/jobs", json=an_adaptation()).json()

    def fetch() -> dict[str, Any]:
        return server.get(job["links"]["self"]).json()["fetch"]

    until(lambda: fetch()["error"] is not None, "a failure that passes")
    shown = fetch()
    size = sum(len(content) for content in hub.files[REPO].values())
    assert (shown["source"], shown["commit"]) == (f"hub:{REPO}@main", COMMIT)
    assert (shown["bytes_total"], shown["state"]) == (size, "pending")
    assert shown["next_attempt_at"] is not None
    page = server.get(f"/jobs/{job['id']}").text
    assert f"Waits for <bdi>hub:{REPO}@main</bdi>" in page
    hub.changes.clear()
    server.post(f"{shown['link']}/retry")
    until(lambda: server.get(job["links"]["base_job"]).json()["state"] == "queued", "the model")


def test_a_preview_fetches_nothing(server: TestClient, hub: Hub) -> None:
    study = a_study_document(base_models=[BASE], tasks=[TASK], evaluation={})
    for path, document in (("jobs", an_adaptation()), ("jobs", BASE), ("studies", study)):
        answer = server.post(f"/v1/{path}?validate_only=true", json=document)
        assert answer.status_code == 200, answer.text
    assert fetches_of(server) == []
    assert {one.start for one in hub.asked if one.name == WEIGHTS} == {0}
    assert len([one for one in hub.asked if one.name == "config.json"]) == 1  # planned once


def test_a_study_waits_for_its_models(server: TestClient, hub: Hub, tmp_path: Path) -> None:
    """So do those of extensions and clones."""
    for name in ("more", "else"):
        hub.add(f"lab/{name}", a_model_folder(tmp_path / name, seed=len(name)))
    study = a_study_document(base_models=[BASE], tasks=[TASK], evaluation={})
    answer = server.post("/v1/studies", json=study)
    assert answer.status_code == 201, answer.text
    for action, name in (("extend", "more"), ("clone", "else")):
        base = BASE | {"name": name, "folder": f"hub:lab/{name}"}
        body = {"base_models": [base]} | ({"name": "copy"} if action == "clone" else {})
        answer = server.post(f"/v1/studies/small/{action}", json=body)
        assert answer.status_code in (200, 201), answer.text
    until(lambda: {one["state"] for one in fetches_of(server)} == {"succeeded"}, "all models")
    jobs = server.get("/v1/jobs").json()["data"]
    states = {(one["kind"], one["state"]) for one in jobs}
    assert states == {("import", "queued"), ("adapt", "waiting")}
    cells = {one["base_model"] for one in server.get("/v1/studies/small").json()["cells"]}
    assert cells == {"tiny", "more"}


def test_a_budget_is_solved_while_a_model_is_fetched(
    server: TestClient, hub: Hub, large: Path
) -> None:
    hub.add(REPO, large)
    hub.changes["cdn"] = no_weights
    server.post("/v1/jobs", json=BASE)
    solved = server.post("/v1/budgets/solve", json={"base_model": "tiny", "budget": 64})
    assert (solved.status_code, solved.json()["base_parameters"] > 1000) == (200, True)


def test_a_gated_model_is_for_those_whose_token_may(server: TestClient, hub: Hub) -> None:
    def gate(handler: Handler) -> bool:
        if handler.headers.get("authorization") == f"Bearer {TOKEN}":
            return False
        handler.answer(403, x_error_code="GatedRepo")
        return True

    hub.changes["hub"] = gate
    refused = server.post("/v1/jobs", json=an_adaptation())
    (problem,) = refused.json()["errors"]
    assert (refused.status_code, problem["code"]) == (422, "gated")
    assert problem["pointer"] == "/base_model/folder"
    assert (
        f"only to people who have accepted its terms. Accept them at {hub.url}/{REPO}"
        in (problem["detail"])
    )
    assert (server.get("/v1/jobs").json()["data"], fetches_of(server)) == ([], [])
    server.put("/v1/hub-token", json={"token": TOKEN})
    job = server.post("/v1/jobs", json=an_adaptation()).json()
    until(lambda: server.get(job["links"]["base_job"]).json()["state"] == "queued", "the model")


def test_a_hub_without_an_answer_costs_little_time(
    settings: Settings, token: str, hub: Hub
) -> None:
    hub.changes["hub"] = lambda handler: handler.answer(503) or True
    with a_server(hub.settings(settings, answer_seconds=5), token) as server:
        late = server.post("/v1/jobs", json=an_adaptation())
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
        assert late.json()["type"] == "urn:adaptlab:problem:hub-slow"
        assert f"hub:{REPO}@main" in late.json()["detail"]
        hub.changes.clear()
        plan = server.get("/v1/hub-fetches").json()["data"][0]
        server.post(f"{plan['links']['self']}/retry")
        until(lambda: server.post("/v1/jobs", json=an_adaptation()).status_code == 201, "an answer")


def test_other_spellings_are_answered_with_this_one(server: TestClient) -> None:
    base = {"kind": "import", "name": "smol", "hub": "lab/tiny", "revision": "main"}
    answer = server.post("/v1/jobs", json=an_adaptation() | {"base_model": base}).json()
    details = {one["pointer"]: one["detail"] for one in answer["errors"]}
    written = "Write folder: hub:ORGANISATION/NAME@REVISION."
    assert details["/base_model/hub"] == f"There is no 'hub' here. {written}"
    assert details["/base_model/revision"].endswith(written)
    elsewhere = server.post("/v1/jobs", json=an_adaptation(hub="lab/tiny")).json()["errors"]
    assert elsewhere[0]["detail"] == "There is no 'hub' here."
