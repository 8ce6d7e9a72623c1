"""Jobs on a base model whose folder is gone or has changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session
from tests.api.rooted import with_a_root
from tests.folders import QUERY, WEIGHTS, a_model_folder, with_weights
from tests.making import a_study_document, an_adapt_document

from adaptlab.specs.spec import ModelFolder
from adaptlab_services.models.folder_changes import check_unchanged
from adaptlab_services.models.model_folders import NO_ROOTS
from adaptlab_services.settings import Settings

IMPORT = {"kind": "import", "name": "llama", "folder": "models/llama"}
ADAPT = an_adapt_document(base_model="llama", method={"name": "lora", "rank": 1}, budget={})
STUDY = a_study_document(base_models=["llama"], methods=["lora"], budgets=[500])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "root" / "llama")


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, folder: Path) -> Settings:
    return with_a_root(database_url, broker_url, tmp_path, folder.parent)


@pytest.fixture
def imported(api: TestClient) -> dict[str, Any]:
    """The job of the import, which need not have run yet."""
    return api.post("/v1/jobs", json=IMPORT).json()


def _other_numbers(folder: Path) -> None:
    with_weights(folder, **{QUERY: np.ones((8, 8), np.float32)})


def _other_configuration(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 0.1}))


def _without_weights(folder: Path) -> None:
    (folder / WEIGHTS).unlink()


CHANGES = pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        (shutil.rmtree, "folder_gone", "'models/llama' does not exist"),
        (_other_numbers, "folder_changed", f"{WEIGHTS} (digest "),
        (_other_configuration, "folder_changed", "config.json (digest "),
        (_without_weights, "folder_changed", WEIGHTS),
    ],
)


def refusal(api: TestClient, path: str, document: object = None) -> dict[str, str]:
    answer = api.post(path, json=document)
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    return problem


@CHANGES
def test_new_jobs_and_studies_are_refused_with_the_file_and_what_to_do(
    api: TestClient,
    imported: dict[str, Any],
    folder: Path,
    change: Callable[[Path], None],
    code: str,
    named: str,
) -> None:
    assert api.post("/v1/jobs?validate_only=true", json=ADAPT).status_code == 200
    change(folder)
    for path, document, pointer in (
        ("/v1/jobs?validate_only=true", ADAPT, "/base_model"),
        ("/v1/jobs", ADAPT, "/base_model"),
        ("/v1/studies?validate_only=true", STUDY, "/base_models/0"),
        ("/v1/studies", STUDY, "/base_models/0"),
    ):
        problem = refusal(api, path, document)
        assert (problem["pointer"], problem["code"]) == (pointer, code)
        assert named in problem["detail"]
        assert "or import it again under another name" in problem["detail"]
        assert str(folder.parent) not in problem["detail"]


@CHANGES
def test_a_job_is_neither_resumed_nor_retried_without_its_folder(
    api: TestClient,
    imported: dict[str, Any],
    folder: Path,
    change: Callable[[Path], None],
    code: str,
    named: str,
) -> None:
    adapted = api.post("/v1/jobs", json=ADAPT).json()["id"]
    api.post(f"/v1/jobs/{adapted}/cancel")
    place = f"/v1/jobs/{imported['id']}"
    assert api.post(f"{place}/pause").json()["state"] == "paused"
    change(folder)
    for path, pointer in (
        (f"/v1/jobs/{adapted}/retry", "/base_model"),
        (f"{place}/resume", "/folder"),
    ):
        problem = refusal(api, path)
        assert (problem["pointer"], problem["code"]) == (pointer, code)
        assert named in problem["detail"]
    assert api.get(place).json()["state"] == "paused"


def test_a_folder_that_the_server_cannot_see_is_left_to_the_worker() -> None:
    folder = ModelFolder(folder="theirs/llama", files=())
    check_unchanged(Session(), folder, NO_ROOTS, "/base_model")
