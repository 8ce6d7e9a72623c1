"""The page of uploaded folders, with a model and an adapter."""

import html
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.api.sending import sent
from tests.folders import a_model_folder
from tests.pages.reading import text_of
from tests.pages.submitting import HERE
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser
from tests.peft_folders import a_peft_folder


def upload(client: TestClient, name: str, folder: Path) -> None:
    files = [{"name": p.name, "upload": sent(client, p.read_bytes())} for p in folder.iterdir()]
    body = {"name": name, "files": files}
    assert client.post("/v1/model-folders", json=body).status_code == 201


@pytest.fixture
def visitor(admin: TestClient) -> TestClient:
    admin.headers.update(HERE)
    return admin


def test_the_empty_page_shows_the_command(visitor: TestClient) -> None:
    page = visitor.get("/model-folders").text
    assert "adaptlab model-folders upload NAME FOLDER" in page
    assert "<table" not in page
    assert 'href="/model-folders"' in visitor.get("/datasets").text


def test_folders_are_listed_with_what_uses_them(visitor: TestClient, tmp_path: Path) -> None:
    upload(visitor, "llama", a_model_folder(tmp_path / "llama"))
    upload(visitor, "lora", a_peft_folder(tmp_path / "lora"))
    job = {"kind": "import", "name": "tiny", "folder": "uploaded/llama"}
    assert visitor.post("/v1/jobs", json=job).status_code == 201
    page = visitor.get("/model-folders").text
    digests = [one["sha256"] for one in visitor.get("/v1/model-folders").json()["data"]]
    assert all(f'title="{digest}"' in page for digest in digests)
    shown = html.unescape(text_of(page))
    assert "LlamaForCausalLM" in shown
    assert "LORA adapter" in " ".join(shown.split())
    assert 'href="/base-models/tiny"' in page
