"""Models by their names on a hub, from the command line and from Python."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.conftest import Invoke
from tests.folders import a_model_folder
from tests.hub_server import COMMIT, Hub, a_hub
from tests.making import a_study_document, an_adapt_document

from adaptlab_client import Client
from adaptlab_client.errors import FetchFailed
from adaptlab_services.settings import Settings

SOURCE = "hub:lab/tiny@main"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with a_hub() as hub:
        hub.add("lab/tiny", a_model_folder(tmp_path / "tiny"))
        yield hub


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, hub: Hub) -> Settings:
    """Settings of a server that uses the hub."""
    own = Settings(database_url=database_url, broker_url=broker_url, data_dir=tmp_path / "data")
    return hub.settings(own)


def test_a_job_names_a_model_of_the_hub(invoke: Invoke, client: Client, tmp_path: Path) -> None:
    base = {"kind": "import", "name": "tiny", "folder": SOURCE}
    task = {"name": "sort_descending", "length": 4, "alphabet": 5}
    spec = an_adapt_document(base_model=base, task=task, evaluation={})
    (tmp_path / "job.json").write_text(json.dumps(spec))
    done = invoke("jobs", "submit", str(tmp_path / "job.json"), "-o", "json")
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    assert (job["state"], job["spec"]["base_model"]["folder"]) == ("waiting", SOURCE)
    origin = client.base_models.get("tiny").origin
    assert origin is not None
    assert origin.commit == COMMIT


def test_a_study_names_a_model_of_the_hub(invoke: Invoke, client: Client, tmp_path: Path) -> None:
    """From a name to a study's plan in one command."""
    base = {"kind": "import", "name": "tiny", "folder": SOURCE}
    task = {"name": "sort_descending", "length": 4, "alphabet": 5}
    spec = a_study_document(base_models=[base], tasks=[task], seeds=2)
    (tmp_path / "study.json").write_text(json.dumps(spec))
    done = invoke("studies", "create", str(tmp_path / "study.json"), "-o", "json")
    assert done.exit_code == 0, done.output
    study = client.studies.get(json.loads(done.stdout)["id"])
    assert {cell.base_model for cell in study.cells} == {"tiny"}


def test_the_import_is_a_job_of_the_server(invoke: Invoke, client: Client) -> None:
    made = json.loads(invoke("base-models", "import", "early", SOURCE, "-o", "json").stdout)
    assert (made["object"], made["imports"]) == ("hub_fetch", True)
    assert client.hub.wait(made["id"]).state == "succeeded"
    job = client.base_models.import_folder("late", SOURCE, labels={"paper": "x"})
    assert (job.kind, job.labels) == ("import", {"paper": "x"})
    shown = json.loads(invoke("hub", "show", made["id"], "-o", "json").stdout)
    assert shown["links"]["folder"] == "/v1/model-folders/early"


def test_what_fails_says_why(invoke: Invoke, client: Client) -> None:
    done = invoke("base-models", "import", "other", "hub:lab/other", "--wait")
    assert done.exit_code == 1
    assert "has no model lab/other, or you may not see it" in done.stderr
    with pytest.raises(FetchFailed, match="hub set-token"):
        client.base_models.import_folder("again", "hub:lab/other")
    failed = next(client.hub.list())
    assert client.hub.retry(failed.id).state == "pending"
    assert client.hub.cancel(failed.id).state in ("cancelled", "failed")
