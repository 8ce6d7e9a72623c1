"""Imports from the command line and from Python, against the real API."""

import json
from pathlib import Path

import pytest
from tests.client.conftest import Invoke
from tests.folders import PARAMETERS, a_model_folder

from adaptlab_client import Client, InvalidRequest
from adaptlab_services.settings import Settings


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    """Settings with one model root, in which a model lies."""
    a_model_folder(tmp_path / "root" / "llama")
    return Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=tmp_path / "data",
        model_roots={"models": tmp_path / "root"},
    )


def test_a_folder_is_imported_by_one_command(invoke: Invoke) -> None:
    done = invoke(
        *("base-models", "import", "llama", "models/llama", "--queue", "gpu", "-o", "json")
    )
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    assert (job["kind"], job["state"], job["queue"]["name"]) == ("import", "queued", "gpu")
    shown = json.loads(invoke("base-models", "show", "llama").stdout)
    assert (shown["parameters"], shown["task"], shown["ready"]) == (PARAMETERS, None, False)
    assert "llama" in invoke("base-models", "list").stdout
    assert "import" in invoke("jobs", "list").stdout
    assert invoke("jobs", "show", job["id"]).exit_code == 0


def test_waiting_for_an_import_can_time_out(invoke: Invoke) -> None:
    done = invoke(
        *("base-models", "import", "llama", "models/llama", "--wait", "--timeout", "0.2"),
        *("-o", "id"),
    )
    assert done.exit_code == 124
    assert len(done.stdout.split()) == 1


def test_a_refusal_says_what_there_is(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("base-models", "import", "llama", "mine/llama")
    assert done.exit_code == 2
    assert "Existing roots: models" in done.stderr
    assert str(tmp_path) not in done.output


def test_python_imports_with_further_members(client: Client) -> None:
    labels = {"paper": "table-2"}
    job = client.base_models.import_folder("llama", "models/llama", labels=labels)
    assert job.labels == labels
    assert client.base_models.get("llama").task is None
    with pytest.raises(InvalidRequest, match="does not exist or cannot be read"):
        client.base_models.import_folder("other", "models/none")
