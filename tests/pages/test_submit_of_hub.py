"""Forms of jobs and studies whose datasets and models are on a hub."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.folders import a_model_folder
from tests.hub_server import Hub, a_hub
from tests.pages import submitting as forms
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser
from tests.texts import CLASSIFICATION

from adaptlab_services.settings import Settings

TRAIN = b"text,label\n" + b"".join(
    b"review %d,%s\n" % (n, (b"no", b"yes")[n % 2]) for n in range(60)
)
FAMILY = {"name": "minigpt", "layers": 1, "heads": 2, "width": 8}
TASK = {
    **CLASSIFICATION,
    "dataset": "hub:lab/reviews",
    "label": {"field": "label", "words": {"no": "-", "yes": "+"}},
}
JOB: dict[str, Any] = {"kind": "pretrain", "name": "reader", "family": FAMILY, "task": TASK}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with a_hub() as hub:
        hub.files["datasets/lab/reviews"] = {"train.csv": TRAIN}
        hub.add("lab/tiny", a_model_folder(tmp_path / "tiny"))
        yield hub


@pytest.fixture
def settings(settings: Settings, hub: Hub) -> Settings:
    """Settings of a server that uses the hub."""
    return hub.settings(settings)


def pasted(browser: TestClient, document: dict[str, Any], new: str) -> forms.Fields:
    """The fields of a form after a spec was pasted into it."""
    fields = forms.opened(browser, new, {"pasted": json.dumps(document), "do": "paste"})
    page = forms.sent(browser, f"{new}/preview", fields)
    assert page.status_code == 200
    return forms.fields_of(page.text)


def test_a_form_fetches_its_dataset(admin: TestClient) -> None:
    fields = pasted(admin, JOB, "/jobs/new")
    preview = forms.sent(admin, "/jobs/new/preview", fields)
    assert "a preview fetches nothing" in forms.answered(preview.text)
    assert "to fix" not in preview.text  # as of the refusals below
    assert admin.get("/v1/hub-fetches").json()["data"] == []
    made = forms.sent(admin, "/jobs/new", fields)
    assert made.status_code == 303, made.text
    job = admin.get(f"/v1{made.headers['location']}").json()
    assert job["resolved_spec"]["task"]["dataset"]["name"] == "lab-reviews"
    again = forms.sent(admin, "/jobs/new", fields)
    assert again.headers["location"] == made.headers["location"]


def test_what_the_hub_lacks_is_said_beside_the_field(admin: TestClient) -> None:
    fields = pasted(admin, JOB, "/jobs/new")
    fields["/task/dataset"] = ["hub:lab/none"]
    refused = forms.sent(admin, "/jobs/new", fields)
    assert refused.status_code == 422
    assert "has no dataset lab/none" in forms.fault_at(refused.text, "/task/dataset")
    assert "1 error to fix" in refused.text
    assert 'value="hub:lab/none"' in refused.text


def test_an_import_names_a_model_of_the_hub(admin: TestClient) -> None:
    document = {"kind": "import", "name": "tiny", "folder": "hub:lab/tiny@main"}
    made = forms.sent(admin, "/jobs/new", pasted(admin, document, "/jobs/new"))
    assert made.status_code == 303, made.text
    assert admin.get("/v1/base-models/tiny").status_code == 200


def adapting(browser: TestClient, source: str) -> forms.Fields:
    """The fields of a form, over whose chosen base model a name is typed."""
    task = {"name": "sort_descending", "length": 4, "alphabet": 5}
    job = {"kind": "adapt", "base_model": "sort-asc-1l", "task": task, "budget": 64}
    fields = pasted(browser, job | {"method": "lora"}, "/jobs/new")
    return forms.changed(fields, {"/base_model/folder": source})


def test_a_typed_base_model_is_imported_first(admin: TestClient) -> None:
    """As by the same spec over the API; a form of the job has it again."""
    fields = adapting(admin, "hub:lab/tiny@main")
    preview = forms.sent(admin, "/jobs/new/preview", fields)
    base = {"kind": "import", "name": "lab-tiny", "folder": "hub:lab/tiny@main"}
    assert forms.shown_json(preview.text)["base_model"] == base
    assert "do not ask the hub" in forms.fault_at(preview.text, "/base_model/folder")
    assert admin.get("/v1/hub-fetches").json()["data"] == []
    made = forms.sent(admin, "/jobs/new", fields)
    assert made.status_code == 303, made.text
    assert forms.sent(admin, "/jobs/new", fields).headers["location"] == made.headers["location"]
    job = admin.get(f"/v1{made.headers['location']}").json()
    spec = forms.shown_json(preview.text)
    sent = admin.post("/v1/jobs?validate_only=true", json=spec, headers=forms.HERE).json()
    assert (job["base_model"], job["spec"]["base_model"]) == ("lab-tiny", base)
    assert job["resolved_spec"]["method"] == sent["resolved_spec"]["method"]
    like = forms.opened(admin, f"/jobs/new?from={job['id']}")
    assert (like["/base_model/folder"], like["/base_model/inline"]) == ([base["folder"]], [""])


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("hub:lab/none", "has no model lab/none"),
        ("hub:lab/tiny@v9", "v9"),
        ("Lab Tiny", "is not a name on the hub"),
        ("hub:ünïcode/<b>", "is not a name on the hub"),
    ],
)
def test_a_base_model_that_the_hub_lacks(admin: TestClient, source: str, sentence: str) -> None:
    refused = forms.sent(admin, "/jobs/new", adapting(admin, source))
    assert refused.status_code == 422
    assert sentence in forms.fault_at(refused.text, "/base_model/folder")
    assert admin.get("/v1/jobs").json()["data"][1:] == []
