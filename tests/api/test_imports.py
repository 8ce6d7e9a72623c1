"""Imports over HTTP: answers and refusals, without the server's paths."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.rooted import with_a_root
from tests.folders import PARAMETERS, QUERY, WEIGHTS, a_model_folder, with_weights
from tests.making import an_adapt_document

from adaptlab_db.tables import BaseModel, Job
from adaptlab_services.settings import Settings

IMPORT = {"kind": "import", "name": "llama", "folder": "models/llama"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "root" / "llama")


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, folder: Path) -> Settings:
    return with_a_root(database_url, broker_url, tmp_path, folder.parent)


def test_an_import_is_created_and_its_model_listed(api: TestClient, folder: Path) -> None:
    answer = api.post("/v1/jobs", json=IMPORT)
    assert answer.status_code == 201, answer.text
    job = answer.json()
    assert (job["kind"], job["name"], job["task"], job["method"]) == ("import", "llama", None, None)
    assert job["spec"] == IMPORT
    assert {f["name"] for f in job["resolved_spec"]["model_folder"]["files"]} == {
        "config.json",
        WEIGHTS,
    }
    model = api.get("/v1/base-models/llama").json()
    assert (model["task"], model["parameters"], model["ready"]) == (None, PARAMETERS, False)
    seen = [
        api.get(path).text
        for path in (answer.headers["location"], "/v1/jobs", "/v1/base-models", "/v1/capabilities")
    ]
    assert all(str(folder.parent) not in text for text in (answer.text, *seen))


def test_an_adaptation_can_bring_its_import_along(api: TestClient) -> None:
    document = an_adapt_document(base_model=IMPORT, method={"name": "lora", "rank": 1}, budget={})
    assert api.post("/v1/jobs?validate_only=true", json=document).status_code == 200
    job = api.post("/v1/jobs", json=document).json()
    assert (job["base_model"], job["state"]) == ("llama", "waiting")
    made = api.get(job["links"]["base_job"]).json()
    assert (made["kind"], made["spec"]) == ("import", IMPORT)


def _without_a_tensor(folder: Path) -> None:
    with_weights(folder, **{QUERY: None})


def _truncated(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:50])


def _pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def _huge(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 10**30}))


@pytest.mark.parametrize("spoil", [_without_a_tensor, _truncated, _pickled, _huge])
@pytest.mark.parametrize("query", ["", "?validate_only=true"])
def test_a_bad_folder_is_refused_and_nothing_is_registered(
    api: TestClient, sessions: sessionmaker[Session], folder: Path, spoil: Any, query: str
) -> None:
    spoil(folder)
    answer = api.post(f"/v1/jobs{query}", json=IMPORT)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["code"]) == ("/folder", "bad_model_folder")
    assert str(folder.parent) not in answer.text
    with sessions.begin() as session:
        for table in (Job, BaseModel):
            assert session.scalars(select(func.count()).select_from(table)).one() == 0


NO_FOLDERS: list[Any] = [
    ("theirs/llama", "unknown_model_root"),
    ("/etc", "unknown_model_root"),
    ("models/../root/llama", "not_a_folder_name"),
    ("models/llama/..", "not_a_folder_name"),
    ("models/none", "no_such_folder"),
    ("models/out", "leads_out_of_root"),
    ("", "string_too_short"),
    ("m" * 1025, "string_too_long"),
    (5, "string_type"),
]


def test_what_is_no_folder_below_a_root_is_refused(api: TestClient, folder: Path) -> None:
    (folder.parent / "out").symlink_to("/etc")
    for given, code in NO_FOLDERS:
        answer = api.post("/v1/jobs", json={**IMPORT, "folder": given})
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert (fault["pointer"], fault["code"]) == ("/folder", code)
        assert str(folder.parent) not in answer.text


def test_nul_in_a_folder_is_refused(api: TestClient) -> None:
    answer = api.post("/v1/jobs", json={**IMPORT, "folder": "models/llama\x00"})
    assert answer.status_code in (400, 422)


def test_of_an_unknown_root_the_aliases_are_told(api: TestClient) -> None:
    answer = api.post("/v1/jobs", json={**IMPORT, "folder": "theirs/llama"})
    assert answer.json()["errors"][0]["allowed"] == ["models"]


def test_the_members_of_an_import_are_checked(api: TestClient) -> None:
    answer = api.post("/v1/jobs", json={**IMPORT, "seeds": 3})
    assert answer.status_code == 422
    inline = an_adapt_document(base_model={**IMPORT, "folder": "none/llama"})
    answer = api.post("/v1/jobs", json=inline)
    assert answer.json()["errors"][0]["pointer"] == "/base_model/folder"
