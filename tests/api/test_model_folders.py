"""Uploaded model folders are stored once and imported like any other."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.api.people import somebody
from tests.api.sending import sent
from tests.folders import (
    INDEX,
    PARAMETERS,
    QUERY,
    WEIGHTS,
    a_model_folder,
    a_qwen3_folder,
    in_shards,
    with_weights,
)

from adaptlab_db.tables import Artifact
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import UNREFERENCED_FOR, collect

Sessions = sessionmaker[Session]
IMPORT = {"kind": "import", "name": "llama", "folder": "uploaded/llama"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "llama")


def document(api: TestClient, folder: Path, name: str = "llama") -> dict[str, Any]:
    """The request for a model folder with all files of a folder."""
    files = [
        {"name": path.name, "upload": sent(api, path.read_bytes())}
        for path in sorted(folder.iterdir())
    ]
    return {"name": name, "files": files}


def created(api: TestClient, folder: Path, name: str = "llama") -> dict[str, Any]:
    answer = api.post("/v1/model-folders", json=document(api, folder, name))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(api: TestClient, body: dict[str, Any], status: int = 422) -> dict[str, Any]:
    answer = api.post("/v1/model-folders", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found["errors"][0] if status == 422 else found


def stored(sessions: Sessions) -> tuple[int, int]:
    """The number of artifacts, and their bytes."""
    with sessions() as session:
        count = select(func.count(), func.sum(Artifact.size)).select_from(Artifact)
        artifacts, size = session.execute(count).one()
        return artifacts, int(size)


@pytest.mark.parametrize("change", [lambda _: None, in_shards])
def test_a_folder_is_created_listed_and_imported(
    api: TestClient, folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    made = created(api, folder)
    assert (made["folder"], made["family"], made["parameters"]) == (
        "uploaded/llama",
        "llama",
        PARAMETERS,
    )
    assert api.get("/v1/model-folders/llama").json() == made
    assert api.get("/v1/model-folders").json()["data"] == [made]
    assert (made["kind"], made["architecture"], made["dtype"]) == (
        "model",
        "LlamaForCausalLM",
        "F32",
    )
    job = api.post("/v1/jobs", json=IMPORT).json()
    assert api.get("/v1/model-folders/llama").json()["base_models"] == ["llama"]
    named = job["resolved_spec"]["model_folder"]
    assert {f["name"]: f["sha256"] for f in named["stored"]} == {
        f["name"]: f["sha256"] for f in made["files"]
    }
    assert {f["name"] for f in named["files"]} == {p.name for p in folder.iterdir()} - {INDEX}
    assert api.get("/v1/base-models/llama").json()["folder"] == "uploaded/llama"


def test_the_digest_is_that_of_the_output_of_sha256sum(api: TestClient, folder: Path) -> None:
    made = created(api, folder)
    names = sorted(path.name for path in folder.iterdir())
    listed = subprocess.run(["sha256sum", *names], cwd=folder, capture_output=True, check=True)
    assert made["sha256"] == hashlib.sha256(listed.stdout).hexdigest()
    assert made["owner"] == "ada"


def test_equal_bytes_are_stored_once_under_any_name(
    api: TestClient, folder: Path, sessions: Sessions
) -> None:
    made, before = created(api, folder), stored(sessions)
    again = created(api, folder, "twin")
    assert stored(sessions) == before
    assert again["files"] == made["files"]
    repeated = api.post("/v1/model-folders", json=document(api, folder))
    assert (repeated.status_code, repeated.json()) == (200, made)
    assert stored(sessions) == before


def test_a_fingerprint_is_that_of_the_folder_on_a_disk(
    api: TestClient, settings: Settings, token: str, folder: Path
) -> None:
    created(api, folder)
    with a_server(settings, token, model_roots={"models": folder.parent}) as other:
        below = {**IMPORT, "name": "below", "folder": "models/llama"}
        jobs = [other.post("/v1/jobs", json=spec).json() for spec in (IMPORT, below)]
    uploaded, placed = (job["resolved_spec"]["model_folder"] for job in jobs)
    assert uploaded["files"] == placed["files"]
    assert placed["stored"] == []


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _of_another_shape(folder: Path) -> None:
    with_weights(folder, **{QUERY: np.zeros((3, 8), np.float32)})


def _cut(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-4])


def _indexed(value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / INDEX).write_text(json.dumps({"weight_map": value}))

    return change


def _with_another_file_of_weights(folder: Path) -> None:
    shutil.copy(folder / WEIGHTS, folder / "consolidated.safetensors")


def _pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def _with_code(folder: Path) -> None:
    (folder / "modeling_llama.py").write_text("import os")


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (_without("config.json"), "bad_model_folder", "config.json cannot be read: it is missing"),
        (_without(WEIGHTS), "bad_model_folder", "no safetensors file. Add model.safetensors"),
        (_of_another_shape, "bad_model_folder", "q_proj.weight has the shape (3, 8)"),
        (_cut, "bad_model_folder", "model.safetensors is not a whole safetensors file"),
        (_indexed({"a": "gone.safetensors"}), "bad_model_folder", "names gone.safetensors, which"),
        (_indexed({"a": "../up.safetensors"}), "bad_model_folder", "not a safetensors file in its"),
        (_with_another_file_of_weights, "not_a_model_file", "consolidated.safetensors is not amo"),
        (_pickled, "bad_model_folder", "pytorch_model.bin is not read, because a file of this"),
        (_with_code, "not_a_model_file", "does not read 'modeling_llama.py'. Leave it out"),
    ],
)
def test_files_that_are_no_model_are_refused_by_name(
    api: TestClient, folder: Path, change: Callable[[Path], None], code: str, told: str
) -> None:
    change(folder)
    problem = refused(api, document(api, folder))
    assert problem["code"] == code
    assert told in problem["detail"]
    assert api.get("/v1/model-folders").json()["data"] == []


def test_a_name_twice_and_a_path_are_refused(api: TestClient, folder: Path) -> None:
    body = document(api, folder)
    twice = refused(api, {**body, "files": [*body["files"], body["files"][0]]})
    assert (twice["code"], twice["pointer"]) == ("name_occurs_twice", "/files/2/name")
    body["files"][1]["name"] = "up/../model.safetensors"
    assert refused(api, body)["code"] == "not_a_model_file"


def test_uploads_must_be_complete_and_ones_own(
    api: TestClient, folder: Path, sessions: Sessions
) -> None:
    body = document(api, folder)
    opened = api.post("/v1/uploads", json={"size_bytes": 9, "sha256": "0" * 64}).json()
    files = [body["files"][0], {"name": WEIGHTS, "upload": opened["id"]}]
    incomplete = refused(api, {**body, "files": files}, 409)
    assert "is not complete. Complete it first" in incomplete["detail"]
    other = somebody(sessions, "eve")
    answer = api.post("/v1/model-folders", json=body, headers=other)
    assert answer.status_code == 404
    assert "There is no upload" in answer.text


def test_a_name_belongs_to_one_set_of_files(api: TestClient, folder: Path, tmp_path: Path) -> None:
    created(api, folder)
    other = a_model_folder(tmp_path / "other", seed=2)
    conflict = refused(api, document(api, other), 409)
    assert "already exists, with other files. Choose another name" in conflict["detail"]


def test_an_import_names_the_folders_that_there_are(api: TestClient, folder: Path) -> None:
    created(api, folder)
    answer = api.post("/v1/jobs", json={**IMPORT, "folder": "uploaded/none"})
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["code"]) == (422, "no_such_folder")
    assert error["allowed"] == ["uploaded/llama"]
    assert "adaptlab model-folders upload" in error["detail"]


def test_stored_bytes_count_once_and_against_the_quota(
    settings: Settings, token: str, folder: Path
) -> None:
    size = sum(path.stat().st_size for path in folder.iterdir())
    with a_server(settings, token, max_stored_bytes=size) as api:
        body = document(api, folder)
        assert api.post("/v1/model-folders", json=body).status_code == 201
        for file in body["files"]:
            api.delete(f"/v1/uploads/{file['upload']}")
        assert api.get("/v1/me").json()["usage"]["stored_bytes"] == size
        more = api.post("/v1/uploads", json={"size_bytes": 1, "sha256": "0" * 64})
        assert (more.status_code, "The quota is" in more.json()["detail"]) == (429, True)
        assert api.delete("/v1/model-folders/llama").status_code == 204
        assert api.get("/v1/me").json()["usage"]["stored_bytes"] == 0


def test_a_folder_stays_while_a_base_model_needs_it(
    api: TestClient, folder: Path, sessions: Sessions
) -> None:
    made = created(api, folder)
    job = api.post("/v1/jobs", json=IMPORT).json()
    kept = api.delete("/v1/model-folders/llama")
    assert kept.status_code == 409
    assert "needed by the base model llama; the unfinished job" in kept.json()["detail"]
    api.post(f"/v1/jobs/{job['id']}/cancel")
    assert api.delete("/v1/model-folders/llama").status_code == 204
    assert api.get("/v1/model-folders/llama").status_code == 404
    retry = api.post(f"/v1/jobs/{job['id']}/retry")
    assert retry.json()["errors"][0]["code"] == "no_such_folder"
    with sessions.begin() as session:
        session.execute(update(Artifact).values(last_referenced_at=func.now() - UNREFERENCED_FOR))
    for upload in api.get("/v1/uploads").json()["data"]:
        api.delete(upload["links"]["self"])
    assert collect(sessions).unreferenced == len(made["files"])


def test_another_folder_of_the_name_is_not_taken_for_the_first(
    api: TestClient, folder: Path, tmp_path: Path
) -> None:
    created(api, folder)
    job = api.post("/v1/jobs", json=IMPORT).json()
    api.post(f"/v1/jobs/{job['id']}/cancel")
    api.delete("/v1/model-folders/llama")
    created(api, a_model_folder(tmp_path / "other", seed=2))
    retry = api.post(f"/v1/jobs/{job['id']}/retry")
    assert retry.status_code == 422
    assert "has other files now" in retry.json()["errors"][0]["detail"]


def test_readers_see_folders_and_change_none(
    api: TestClient, folder: Path, sessions: Sessions
) -> None:
    created(api, folder)
    reader, other = somebody(sessions, "rita", "reader"), somebody(sessions, "eve")
    outside = somebody(sessions, "bob", None)
    assert api.get("/v1/model-folders/llama", headers=reader).status_code == 200
    assert api.get("/v1/model-folders/llama", headers=outside).status_code == 403
    for headers in (reader, other):
        assert api.delete("/v1/model-folders/llama", headers=headers).status_code == 403


def test_a_text_task_needs_a_tokeniser_among_the_files(api: TestClient, tmp_path: Path) -> None:
    created(api, a_qwen3_folder(tmp_path / "qwen", vocabulary=400))
    assert api.post("/v1/jobs", json=IMPORT).status_code == 201
    records = [{"text": f"text {n}", "label": "ab"[n % 2]} for n in range(40)]
    api.post("/v1/datasets", json={"name": "reviews", "records": records})
    task = {
        "name": "text_classification",
        "dataset": "reviews",
        "prompt": "{text}:",
        "label": {"field": "label", "words": {"a": " a", "b": " b"}},
        "tokens": {"longest": 24, "answer": 4},
    }
    answer = api.post(
        "/v1/jobs",
        json={"kind": "adapt", "base_model": "llama", "task": task, "method": "lora", "budget": 64},
    )
    assert answer.status_code == 422
    assert "tokenizer.json" in answer.json()["errors"][0]["detail"]
