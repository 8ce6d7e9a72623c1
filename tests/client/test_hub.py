"""Models by their names on a hub, from the command line and from Python."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
from tests.client.conftest import Invoke
from tests.folders import a_model_folder
from tests.hub_server import COMMIT, Hub, a_hub
from tests.making import a_study_document, an_adapt_document
from tests.text_studies import a_text_study
from tests.texts import CLASSIFICATION

from adaptlab_client import Client
from adaptlab_client.errors import FETCHING, FetchFailed, InvalidRequest
from adaptlab_client.transport.connection import Connection, Request, Retries
from adaptlab_client.transport.discovery import ServerAddress
from adaptlab_services.settings import Settings

SOURCE = "hub:lab/tiny@main"
REVIEWS = "lab/reviews"
LABEL = {"name": "label", "dtype": {"class_label": {"names": {"0": "no", "1": "yes"}}}}
TRAIN = b"text,label\n" + b"".join(b"review %d,%d\n" % (n, n % 2) for n in range(60))
TEST = b'{"text": "fine", "label": 1}\n'


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with a_hub() as hub:
        hub.add("lab/tiny", a_model_folder(tmp_path / "tiny"))
        hub.files[f"datasets/{REVIEWS}"] = {"train.csv": TRAIN, "test.jsonl": TEST}
        hub.card["dataset_info"] = {"features": [LABEL]}
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


def test_a_dataset_of_the_hub_is_that_of_a_local_upload(
    invoke: Invoke, client: Client, tmp_path: Path
) -> None:
    lines = TRAIN.replace(b",0\n", b",no\n").replace(b",1\n", b",yes\n")
    (tmp_path / "local.csv").write_bytes(lines)
    added = invoke("datasets", "add", "reviews", f"hub:{REVIEWS}", "-o", "json")
    assert added.exit_code == 0, added.output
    local = client.datasets.upload_file("local", tmp_path / "local.csv", kind="records")
    found = client.datasets.get("reviews")
    assert (found.digest, found.size) == (local.digest, local.size)
    for name in ("reviews", "local"):
        client.datasets.download(name, tmp_path / name)
    assert (tmp_path / "reviews").read_bytes() == (tmp_path / "local").read_bytes()
    assert found.origin is not None
    assert (found.origin.commit, found.origin.licence) == (COMMIT, "apache-2.0")
    missing = invoke("datasets", "add", "dev", f"hub:{REVIEWS}", "--split", "dev")
    assert (missing.exit_code, "--split: test, train" in missing.stderr) == (1, True)


def test_a_dataset_is_inspected_by_its_first_bytes(
    invoke: Invoke, client: Client, hub: Hub, tmp_path: Path
) -> None:
    shown = invoke("datasets", "inspect", f"hub:{REVIEWS}", "-o", "json")
    (tmp_path / "train.csv").write_bytes(TRAIN)
    local = invoke("datasets", "inspect", str(tmp_path / "train.csv"), "-o", "json")
    found, own = json.loads(shown.stdout), json.loads(local.stdout)
    assert (found["records"], found["first"][1]["label"]) == (60, "yes")
    assert [one["name"] for one in found["fields"]] == [one["name"] for one in own["fields"]]
    hub.files[f"datasets/{REVIEWS}"]["train.csv"] = TRAIN + b'"many\nlines",1\n' * 200_000
    hub.asked.clear()
    text = invoke("datasets", "inspect", f"hub:{REVIEWS}").stderr
    assert "Splits: test, train." in text
    assert hub.asked[-1].headers["range"] == f"bytes=0-{2**20 - 1}"
    assert not list(client.datasets.list())[1:]


def test_a_study_is_drafted_from_a_dataset_of_the_hub(
    invoke: Invoke, client: Client, tmp_path: Path
) -> None:
    target = tmp_path / "study.yaml"
    options = ("--base", "new", "--minutes", "10", "-y", "--to", str(target))
    done = invoke("studies", "new", f"hub:{REVIEWS}", *options)
    assert done.exit_code == 0, done.output
    assert "dataset: lab-reviews" in target.read_text()
    assert client.datasets.get("lab-reviews").origin is not None


def test_tasks_name_a_dataset_of_the_hub(invoke: Invoke, client: Client, tmp_path: Path) -> None:
    """Fetched once, for base model and tasks, also by Python."""
    words = {"field": "label", "words": {"no": "-", "yes": "+"}}
    task = {**CLASSIFICATION, "dataset": f"hub:{REVIEWS}@{COMMIT}", "label": words}
    spec = a_text_study(task)
    spec["base_models"][0]["task"] = task
    (tmp_path / "study.json").write_text(json.dumps(spec))
    done = invoke("studies", "create", str(tmp_path / "study.json"), "-o", "json")
    assert done.exit_code == 0, done.output
    name = f"lab-reviews-{COMMIT[:12]}"
    study = client.studies.get(json.loads(done.stdout)["id"])
    assert f'"dataset":"{name}"' in study.model_dump_json()
    client.studies.create(spec | {"name": "second"})
    assert [one.kind for one in client.hub.list()] == ["dataset"]
    more = f"tasks={json.dumps([task | {'dataset': f'hub:{REVIEWS}'}])}"
    for command in (("extend", "second"), ("clone", "texts", "third")):
        done = invoke("studies", *command, "--set", more)
        assert done.exit_code == 0, done.output
        tasks = cast("list[dict[str, object]]", client.studies.get(command[-1]).spec["tasks"])
        assert tasks[-1]["dataset"] == "lab-reviews"


def test_python_waits_for_a_long_fetch() -> None:
    """Longer than other refusals are waited for."""
    words = {"field": "label", "words": {"no": "-", "yes": "+"}}
    task = {**CLASSIFICATION, "dataset": f"hub:{REVIEWS}", "label": words}
    refusals = iter(range(2 * Retries().attempts))
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if next(refusals, None) is None:
            return httpx.Response(422, json={"title": "over", "status": 422, "detail": "over"})
        body = {"type": FETCHING, "title": "slow", "status": 503, "detail": "slow"}
        return httpx.Response(503, json=body, headers={"Retry-After": "5"})

    pauses: list[float] = []
    told: list[str] = []
    retries = Retries(sleep=pauses.append, waits=lambda: told.append("waits"))
    transport = httpx.MockTransport(answer)
    server = ServerAddress("http://127.0.0.1:1", "token")
    with (
        Connection(server, retries=retries, seconds=1, transport=transport) as connection,
        pytest.raises(InvalidRequest),
    ):
        connection.send(Request("POST", "/v1/studies", body=a_text_study(task)))
    assert len(sent) == 1 + 2 * Retries().attempts
    assert set(pauses) == {5.0}
    assert len(told) == len(pauses)
