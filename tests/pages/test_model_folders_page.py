"""The page of uploaded folders, with a model and an adapter."""

import html
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.api.sending import sent
from tests.folders import a_model_folder
from tests.pages.reading import text_of
from tests.pages.submitting import HERE, Sessions, opened, sign_in, somebody
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


def test_an_upload_is_deleted_unless_something_needs_it(
    visitor: TestClient, tmp_path: Path
) -> None:
    for name in ("spare", "waiting", "used"):
        upload(visitor, name, a_model_folder(tmp_path / name))
    job = {"kind": "import", "name": "tiny", "folder": "uploaded/used"}
    assert visitor.post("/v1/jobs", json=job).status_code == 201
    page = visitor.get("/model-folders").text
    offered = [n for n in ("spare", "waiting", "used") if f"/model-folders/{n}/delete" in page]
    assert offered == ["spare", "waiting"], "the base model is listed beside the other"
    answer = visitor.post("/model-folders/spare/delete")
    assert (answer.status_code, answer.headers["location"]) == (303, "/model-folders")
    assert "spare" not in visitor.get("/model-folders").text
    refused = visitor.post("/model-folders/used/delete")
    assert refused.status_code == 409
    assert "'used' is needed by the base model tiny" in " ".join(
        html.unescape(text_of(refused.text)).split()
    )
    assert visitor.post("/model-folders/spare/delete").status_code == 404


def test_an_import_starts_from_an_upload(visitor: TestClient, tmp_path: Path) -> None:
    upload(visitor, "llama", a_model_folder(tmp_path / "llama"))
    upload(visitor, "lora", a_peft_folder(tmp_path / "lora"))
    page = visitor.get("/model-folders").text
    of_model, of_adapter = map(html.unescape, re.findall(r'href="(/jobs/new\?[^"]*)"', page))
    typed = opened(visitor, of_model)
    assert (typed["/folder"], typed["/name"]) == (["uploaded/llama"], ["llama"])
    assert visitor.post("/jobs/new", data=typed).status_code == 303
    assert visitor.get("/v1/base-models/llama").status_code == 200
    task = {"/task/name": "sort_descending", "/task/length": "3", "/task/alphabet": "4"}
    typed = opened(visitor, of_adapter, {"/base_model": "llama", **task})
    assert typed["/adapter"] == ["uploaded/lora"]
    answer = visitor.post("/jobs/new", data=typed)
    assert answer.status_code == 303, text_of(answer.text)
    job = visitor.get(f"/v1{answer.headers['location']}").json()
    assert job["spec"]["adapter"] == "uploaded/lora"


def test_readers_and_others_are_offered_and_allowed_less(
    visitor: TestClient, sessions: Sessions, tmp_path: Path
) -> None:
    upload(visitor, "llama", a_model_folder(tmp_path / "llama"))
    for role, offers, status in (("reader", False, 403), ("submitter", True, 403)):
        visitor.cookies.clear()
        sign_in(visitor, somebody(sessions, {"default": role}, ("read", "submit")))
        page = visitor.get("/model-folders").text
        assert ("kind=import" in page) is offers
        assert "/model-folders/llama/delete" not in page
        assert visitor.post("/model-folders/llama/delete").status_code == status
