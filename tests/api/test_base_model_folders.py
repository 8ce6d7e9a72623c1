"""Base models over HTTP as folders; tests/engine loads them."""

import hashlib
import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from safetensors.numpy import load
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import BASE, an_adapter
from tests.api.rooted import with_a_root
from tests.api.sending import sent
from tests.folders import a_model_folder, in_shards

from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
LORA = {"name": "lora", "rank": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = a_model_folder(tmp_path / "root" / "llama")
    in_shards(folder)
    (folder / "notes.txt").write_text("not of the model")
    return folder


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, folder: Path) -> Settings:
    return with_a_root(database_url, broker_url, tmp_path, folder.parent)


@pytest.mark.parametrize("source", ["models/llama", "uploaded/llama"])
def test_an_imported_model_is_exported_byte_for_byte(
    api: TestClient, folder: Path, source: str
) -> None:
    if source.startswith("uploaded"):
        (folder / "notes.txt").unlink()
        files = [{"name": p.name, "upload": sent(api, p.read_bytes())} for p in folder.iterdir()]
        body = {"name": "llama", "files": files}
        assert api.post("/v1/model-folders", json=body).status_code == 201
    document = {"kind": "import", "name": "llama", "folder": source}
    assert api.post("/v1/jobs", json=document).status_code == 201
    listed = api.get("/v1/base-models/llama/folder").json()["data"]
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".txt"}
    assert {one["name"]: one["size"] for one in listed} == {n: len(c) for n, c in there.items()}
    for name, content in there.items():
        path = f"/v1/base-models/llama/folder/{name}"
        answer = api.get(path)
        assert answer.content == content
        digest = f'"{hashlib.sha256(content).hexdigest()}"'
        assert answer.headers["etag"] == api.head(path).headers["etag"] == digest
    assert api.get("/v1/base-models/llama/folder/notes.txt").status_code == 404


def test_a_model_trained_here_is_written_for_one_replicate(
    api: TestClient, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        _, _, _, base = an_adapter(session, LORA)
    path = f"/v1/base-models/{BASE}/folder"
    config = json.loads(api.get(f"{path}/config.json?replicate=1").content)
    assert config["architectures"] == ["GPT2LMHeadModel"]
    tensors = load(api.get(f"{path}/model.safetensors?replicate=1").content)
    keys = tensors["transformer.h.0.attn.c_attn.weight"][:, 8:16]
    assert (keys == base["blocks.0.attn.k.weight"].T).all()
    assert api.get(f"{path}?replicate=2").status_code == 404


def test_a_family_without_a_form_says_so(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        an_adapter(session, LORA, name="minigpt")
    answer = api.get(f"/v1/base-models/{BASE}/folder")
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["code"] == "no_library_form"
    assert "gpt2, llama" in error["detail"]
