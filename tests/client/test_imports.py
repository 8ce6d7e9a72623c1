"""Imports from the command line and from Python, against the real API."""

import json
from pathlib import Path

import pytest
from tests.client.conftest import Invoke
from tests.client.tokenizers_of_words import a_tokenizer_file
from tests.folders import PARAMETERS, WEIGHTS, a_model_folder

from adaptlab_answers.storage import UploadView
from adaptlab_client import Client, InvalidRequest, NotFound
from adaptlab_client.resources.uploads import Report, Uploads
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
    assert "models/llama" in invoke("base-models", "import", "llama", "models:llama").stderr


def test_python_imports_with_further_members(client: Client) -> None:
    labels = {"paper": "table-2"}
    job = client.base_models.import_folder("llama", "models/llama", labels=labels)
    assert job.labels == labels
    assert client.base_models.get("llama").task is None
    with pytest.raises(InvalidRequest, match="does not exist or cannot be read"):
        client.base_models.import_folder("other", "models/none")


def test_a_folder_is_uploaded_by_one_command_and_imported_by_another(
    invoke: Invoke, client: Client, tmp_path: Path
) -> None:
    folder = a_model_folder(tmp_path / "mine")
    (folder / "README.md").write_text("A model.")
    done = invoke("model-folders", "upload", "mine", str(folder), "-o", "json")
    assert done.exit_code == 0, done.output
    assert "adaptlab base-models import mine uploaded/mine" in done.stderr
    made = json.loads(done.stdout)
    assert [file["name"] for file in made["files"]] == ["config.json", WEIGHTS]
    assert list(client.uploads.list()) == []
    assert invoke("base-models", "import", "mine", "uploaded/mine").exit_code == 0
    assert client.base_models.get("mine").folder == "uploaded/mine"
    assert "uploaded/mine" in invoke("model-folders", "list").stdout
    kept = invoke("model-folders", "delete", "mine")
    assert (kept.exit_code, "needed by the base model mine" in kept.stderr) == (2, True)


def test_what_the_server_has_is_not_sent_again(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_model_folder(tmp_path / "mine")
    made = client.model_folders.upload("mine", folder)
    monkeypatch.setattr(Uploads, "send", _not_called)
    assert client.model_folders.upload("mine", folder) == made
    client.model_folders.delete("mine")
    with pytest.raises(AssertionError, match="sent"):
        client.model_folders.upload("mine", folder)


def test_an_interrupted_upload_sends_the_rest(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sent = a_model_folder(tmp_path / "mine"), list[str]()
    whole = Uploads.send

    def send(uploads: Uploads, path: Path, *, report: Report | None = None) -> UploadView:
        sent.append(path.name)
        if len(sent) == 2:
            raise KeyboardInterrupt
        return whole(uploads, path, report=report)

    monkeypatch.setattr(Uploads, "send", send)
    with pytest.raises(KeyboardInterrupt):
        client.model_folders.upload("mine", folder)
    (waiting,) = client.uploads.list()
    assert waiting.state == "complete"
    made = client.model_folders.upload("mine", folder)
    assert waiting.sha256 in {file.sha256 for file in made.files}
    assert list(client.uploads.list()) == []


def test_a_folder_that_is_no_model_is_refused_before_anything_is_sent(
    invoke: Invoke, client: Client, tmp_path: Path
) -> None:
    folder = a_model_folder(tmp_path / "mine")
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    done = invoke("model-folders", "upload", "mine", str(folder))
    assert done.exit_code == 65
    assert "pytorch_model.bin is not read, because a file of this type can" in done.stderr
    assert list(client.uploads.list()) == []


def _not_called(*_: object, **__: object) -> None:
    raise AssertionError("sent")


def test_a_study_counts_tokens_by_the_imported_models_own_tokeniser(
    invoke: Invoke, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_model_folder(tmp_path / "mine")
    tokenizer = a_tokenizer_file(folder / "tokenizer.json", "good", "bad", "film")
    assert invoke("model-folders", "upload", "mine", str(folder)).exit_code == 0
    client.base_models.import_folder("mine", "uploaded/mine")
    assert client.base_models.tokenizer("mine") == tokenizer.read_bytes()
    monkeypatch.chdir(tmp_path)
    rows = (f"{'good film ' * 20}{number},{'ab'[number % 2]}\n" for number in range(200))
    (tmp_path / "films.csv").write_text("text,label\n" + "".join(rows))
    done = invoke("studies", "new", "films.csv", "--base", "mine", "--yes")
    assert "The longest item has 54 tokens; what is above 32 is cut." in done.stderr
    assert "longest: 32" in (tmp_path / "films.yaml").read_text(), done.output
    client.base_models.import_folder("bytes", "models/llama")
    with pytest.raises(NotFound, match="tokeniser"):
        client.base_models.tokenizer("bytes")
