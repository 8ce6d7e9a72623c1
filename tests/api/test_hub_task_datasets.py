"""Jobs and studies over HTTP whose tasks name a dataset on a hub."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.hub_lab import Lab
from tests.hub_server import COMMIT, OTHER, Handler, Hub, a_hub
from tests.making import a_principal
from tests.text_studies import a_text_study
from tests.texts import CLASSIFICATION
from tests.watching import until

from adaptlab.comparisons.comparability import ComparedJob, comparability
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
REPO = "lab/reviews"
SOURCE = f"hub:{REPO}"
FILE = "train.csv"
LABEL = {"name": "label", "dtype": {"class_label": {"names": {"0": "no", "1": "yes"}}}}
TRAIN = b"text,label\n" + b"".join(b"review %d,%d\n" % (n, n % 2) for n in range(60))
RECORDS = [{"text": f"review {n}", "label": ("no", "yes")[n % 2]} for n in range(60)]
WORDS = {"field": "label", "words": {"no": "-", "yes": "+"}}
KEY = {"Idempotency-Key": "one"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with a_hub() as hub:
        hub.files[f"datasets/{REPO}"] = {FILE: TRAIN}
        hub.card["dataset_info"] = {"features": [LABEL]}
        yield hub


@pytest.fixture
def server(settings: Settings, token: str, hub: Hub) -> Iterator[TestClient]:
    with a_server(hub.settings(settings), token) as api:
        yield api


@pytest.fixture
def held(hub: Hub) -> Iterator[threading.Event]:
    """The hub answers with the file when this is set."""
    over = threading.Event()

    def change(_: Handler) -> bool:
        over.wait(60)
        return False

    hub.changes[FILE] = change
    yield over
    over.set()


def a_job(source: str = SOURCE, **changes: Any) -> dict[str, Any]:
    family = {"name": "minigpt", "layers": 1, "heads": 2, "width": 8}
    task = {**CLASSIFICATION, "dataset": source, "label": WORDS}
    return {"kind": "pretrain", "name": "reader", "family": family, "task": task, **changes}


def the_compared(job: Mapping[str, Any]) -> ComparedJob:
    spec = ResolvedSpec.model_validate_json(json.dumps(job["resolved_spec"]))
    return ComparedJob(label=job["id"], spec=spec)


def fetches_of(api: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/v1/hub-fetches").json()["data"]
    return found


def the_error(answer: Response) -> dict[str, Any]:
    (error,) = answer.json()["errors"]
    assert answer.status_code == 422, answer.text
    return error


def test_one_request_is_enough(server: TestClient, hub: Hub) -> None:
    made = server.post("/v1/jobs", json=a_job(), headers=KEY)
    assert made.status_code == 201, made.text
    task = made.json()["resolved_spec"]["task"]
    again = server.post("/v1/jobs", json=a_job(), headers=KEY)
    assert (again.status_code, again.json()["id"]) == (200, made.json()["id"])
    stored = server.get("/v1/datasets/lab-reviews").json()
    assert stored["origin"]["commit"] == COMMIT
    asked = len(hub.asked)
    repeated = server.post("/v1/jobs", json=a_job(f"{SOURCE}@{COMMIT}", name="other"))
    assert (repeated.status_code, repeated.json()["resolved_spec"]["task"]) == (201, task)
    assert (len(hub.asked), len(fetches_of(server))) == (asked, 1)
    entries = server.get("/v1/audit").json()["data"]
    (entry,) = [one for one in entries if one["action"] == "create_hub_fetch"]
    assert entry["object"] == fetches_of(server)[0]["id"]


def test_the_dataset_is_that_of_a_local_file(server: TestClient) -> None:
    """Byte for byte, and so is the digest in the resolved spec."""
    made = server.post("/v1/jobs", json=a_job()).json()
    sent = server.post("/v1/datasets", json={"name": "local", "records": RECORDS})
    bodies = [
        server.get(f"/v1/datasets/{name}/content").content for name in ("lab-reviews", "local")
    ]
    assert sent.status_code == 201, sent.text
    assert bodies[0] == bodies[1] != b""
    local = server.post("/v1/jobs", json=a_job("local", name="second")).json()
    ours, theirs = (one["resolved_spec"]["task"]["dataset"] for one in (made, local))
    assert ours["digest"] == theirs["digest"]


def test_the_commit_is_beside_what_a_job_is(server: TestClient) -> None:
    """A local dataset of equal name and content gives an equal job."""
    made = server.post("/v1/jobs", json=a_job()).json()
    (origin,) = made["resolved_spec"]["dataset_origins"]
    task = made["resolved_spec"]["task"]["dataset"]
    assert origin.items() > {"repository": REPO, "commit": COMMIT, "split": "train"}.items()
    assert (origin["name"], origin["digest"]) == (task["name"], task["digest"])
    seen = server.post("/v1/jobs?validate_only=true", json=a_job(name="new")).json()
    assert seen["resolved_spec"]["dataset_origins"] == [origin]
    job = made["links"]["self"]
    server.post(f"{job}/cancel")
    assert server.delete("/v1/datasets/lab-reviews").status_code == 204
    server.post("/v1/datasets", json={"name": "lab-reviews", "records": RECORDS})
    local = server.post("/v1/jobs", json=a_job("lab-reviews", name="local")).json()
    assert "dataset_origins" not in local["resolved_spec"]
    kept = server.get(job).json()
    assert (kept["spec_digest"], kept["resolved_spec"]) == (
        local["spec_digest"],
        local["resolved_spec"] | {"dataset_origins": [origin]},
    )
    assert comparability([the_compared(kept), the_compared(local)]) == ()


def test_jobs_of_a_study_have_the_commit(server: TestClient) -> None:
    study = a_text_study(a_job()["task"])
    study["base_models"][0]["task"] = study["tasks"][0]
    assert server.post("/v1/studies", json=study).status_code == 201
    jobs = [
        server.get(f"/v1/jobs/{one['id']}").json() for one in server.get("/v1/jobs").json()["data"]
    ]
    commits = {one["resolved_spec"]["dataset_origins"][0]["commit"] for one in jobs}
    preview = server.post("/v1/studies?validate_only=true", json=study | {"name": "more"}).json()
    planned = {str(one["resolved_spec"]["dataset_origins"]) for one in preview["jobs"]}
    assert (commits, len(jobs), len(planned)) == ({COMMIT}, 3, 1)


@pytest.fixture
def study(server: TestClient, hub: Hub) -> str:
    """The path of a study of another project than the usual one."""
    for number, name in enumerate(("more", "else"), 2):
        hub.files[f"datasets/lab/{name}"] = {FILE: TRAIN.replace(b"review", b"text %d" % number)}
    server.post("/v1/projects", json={"name": "vision"})
    document = a_text_study(a_job()["task"])
    document["base_models"][0]["task"] = document["tasks"][0]
    made = server.post("/v1/studies?project=vision", json=document)
    assert made.status_code == 201, made.text
    return made.json()["links"]["self"]


def the_tasks(name: str) -> dict[str, Any]:
    return {"tasks": [a_job(f"hub:lab/{name}")["task"]]}


@pytest.mark.parametrize("action", ["extend", "clone"])
def test_a_study_goes_on_with_datasets_of_the_hub(
    server: TestClient, hub: Hub, study: str, action: str
) -> None:
    """In its own project; a repetition and a moved branch change nothing."""
    path, name = f"{study}/{action}", {"name": "copy"} if action == "clone" else {}
    body = the_tasks("more") | name
    error = the_error(server.post(f"{path}?validate_only=true", json=body))
    assert (error["pointer"], error["code"]) == ("/tasks/0/dataset", "not_fetched")
    gone = the_error(server.post(path, json=the_tasks("none") | name))
    assert (gone["pointer"], gone["code"]) == ("/tasks/0/dataset", "absent")
    done = server.post(path, json=body, headers=KEY)
    assert done.is_success, done.text
    hub.branches["main"] = OTHER
    asked = len(hub.asked)
    again = server.post(path, json=body, headers=KEY)
    assert (again.status_code, again.json()["spec"]) == (200, done.json()["spec"])
    assert done.json()["spec"]["tasks"][-1]["dataset"] == "lab-more"
    assert server.get("/v1/datasets/lab-more").json()["project"] == "vision"
    assert len(hub.asked) == asked


@pytest.mark.parametrize("action", ["extend", "clone"])
def test_a_study_that_goes_on_waits_for_a_slow_fetch(
    settings: Settings, token: str, hub: Hub, study: str, action: str
) -> None:
    over = threading.Event()
    hub.changes[FILE] = lambda _: not over.wait(60)
    body = the_tasks("more") | ({"name": "copy"} if action == "clone" else {})
    with a_server(hub.settings(settings, answer_seconds=2), token) as server:
        late = server.post(f"{study}/{action}", json=body)
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
        assert late.json()["type"] == "urn:adaptlab:problem:fetching"
        over.set()
        until(lambda: server.post(f"{study}/{action}", json=body).status_code != 503, "the answer")
        newest = server.get(server.get("/v1/studies").json()["data"][0]["links"]["self"]).json()
        assert newest["spec"]["tasks"][-1]["dataset"] == "lab-more"


def test_a_preview_fetches_nothing(server: TestClient, hub: Hub) -> None:
    study = a_text_study(a_job()["task"])
    for path, document in (("jobs", a_job()), ("studies", study)):
        error = the_error(server.post(f"/v1/{path}?validate_only=true", json=document))
        assert (error["code"], "a preview fetches nothing" in error["detail"]) == (
            "not_fetched",
            True,
        )
    assert (fetches_of(server), hub.asked) == ([], [])
    study["base_models"][0]["task"] = study["tasks"][0]
    assert server.post("/v1/studies", json=study).status_code == 201
    seen = server.post("/v1/jobs?validate_only=true", json=a_job(name="new"))
    assert (seen.status_code, len(fetches_of(server))) == (200, 1)


def test_waiting_requests_share_a_fetch_and_leave_the_server_free(
    server: TestClient, hub: Hub, held: threading.Event
) -> None:
    """More of them than there are threads for changes of one user."""
    with ThreadPoolExecutor(12) as pool:
        sent = [
            pool.submit(server.post, "/v1/jobs", json=a_job(name=f"reader-{n}")) for n in range(12)
        ]
        until(lambda: FILE in hub.names(), "the file")
        assert server.get("/v1/jobs").json()["data"] == []
        assert server.post("/v1/jobs?validate_only=true", json=a_job()).status_code == 422
        held.set()
        answers = [one.result() for one in sent]
    assert {one.status_code for one in answers} <= {201, 503}
    assert [one.status_code for one in answers].count(201) > 0
    assert (len(fetches_of(server)), hub.names().count(FILE)) == (1, 1)


def test_a_slow_fetch_is_named_and_joined_by_the_same_request(
    settings: Settings, token: str, hub: Hub, held: threading.Event
) -> None:
    """Also by one to another process, after the first has stopped."""
    with a_server(hub.settings(settings, answer_seconds=2), token) as server:
        late = server.post("/v1/jobs", json=a_job(), headers=KEY)
        (fetch,) = fetches_of(server)
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
        assert late.json()["type"] == "urn:adaptlab:problem:fetching"
        assert fetch["links"]["self"] in late.json()["detail"]
    held.set()
    with a_server(hub.settings(settings), token) as server:

        def again() -> Response:
            return server.post("/v1/jobs", json=a_job(), headers=KEY)

        until(lambda: again().status_code == 200, "a job that was there")
        assert [one["id"] for one in fetches_of(server)] == [fetch["id"]]
        assert len(server.get("/v1/jobs").json()["data"]) == 1


def test_a_killed_fetcher_is_replaced(
    settings: Settings, sessions: Sessions, token: str, hub: Hub, held: threading.Event
) -> None:
    with sessions.begin() as session:
        lab = Lab(sessions, hub.settings(settings), a_principal(session))
    fetch = lab.create("lab-reviews", SOURCE, kind="dataset")
    process = subprocess.Popen([sys.executable, "-m", "tests.fetching"], env=lab.environment())
    until(lambda: FILE in hub.names(), "the file")
    process.kill()
    process.wait()
    held.set()
    lab.make_due()
    with a_server(lab.settings, token) as server:
        until(lambda: server.post("/v1/jobs", json=a_job(), headers=KEY).is_success, "a job")
        assert [one["id"] for one in fetches_of(server)] == [str(fetch.id)]
        assert fetches_of(server)[0]["attempts"] == 2


def refuse(status: int, **headers: Any) -> Callable[[Handler], bool]:
    def change(handler: Handler) -> bool:
        handler.answer(status, **headers)
        return True

    return change


@pytest.mark.parametrize(
    ("source", "changes", "code", "sentence"),
    [
        (SOURCE, {"hub": refuse(403, x_error_code="GatedRepo")}, "gated", "accepted its terms"),
        ("hub:lab/none", {}, "absent", "has no dataset lab/none, or you may not see it"),
        (f"{SOURCE}@v9", {}, "no_revision", "v9"),
        (f"{SOURCE}#dev", {}, "unknown_split", "dev"),
        ("hub:a/b/c", {}, "bad_hub_name", "is not a name on the hub"),
    ],
)
def test_what_cannot_be_fetched_is_answered_with_the_sentence_of_the_fetch(
    server: TestClient,
    hub: Hub,
    source: str,
    changes: Mapping[str, Callable[[Handler], bool]],
    code: str,
    sentence: str,
) -> None:
    hub.changes.update(changes)
    error = the_error(server.post("/v1/jobs", json=a_job(source)))
    assert (error["pointer"], error["code"]) == ("/task/dataset", code)
    assert sentence in error["detail"]
    assert server.get("/v1/jobs").json()["data"] == []


def test_a_busy_hub_and_one_that_is_off(settings: Settings, token: str, hub: Hub) -> None:
    hub.changes["hub"] = refuse(429, retry_after="3600")
    with a_server(hub.settings(settings, answer_seconds=5), token) as server:
        answers: list[Response] = []

        def is_told() -> bool:
            answers.append(server.post("/v1/jobs", json=a_job()))
            return answers[-1].json()["type"] == "urn:adaptlab:problem:hub-slow"

        until(is_told, "the hub's answer, which may take longer than that of the server")
        assert {(one.status_code, one.headers["retry-after"]) for one in answers} == {(503, "5")}
    with a_server(hub.settings(settings, hub="off"), token) as closed:
        error = the_error(closed.post("/v1/jobs", json=a_job()))
    assert error["code"] == "hub_off"
    assert "adaptlab datasets upload" in error["detail"]


def test_a_failure_after_a_long_time_is_told_to_the_same_request(
    settings: Settings, token: str, hub: Hub, held: threading.Event
) -> None:
    hub.files[f"datasets/{REPO}"] = {FILE: b'text,label\n"open,1\n'}
    with a_server(hub.settings(settings, answer_seconds=2), token) as server:
        assert server.post("/v1/jobs", json=a_job()).status_code == 503
        held.set()
        until(lambda: fetches_of(server)[0]["ended_at"] is not None, "the failure")
        error = the_error(server.post("/v1/jobs", json=a_job()))
        assert (error["pointer"], error["detail"]) == (
            "/task/dataset",
            fetches_of(server)[0]["error"],
        )
        assert len(fetches_of(server)) == 1


def test_a_name_that_is_taken_leaves_another(server: TestClient) -> None:
    server.post("/v1/datasets", json={"name": "lab-reviews", "records": RECORDS[1:]})
    made = server.post("/v1/jobs", json=a_job())
    assert made.status_code == 201, made.text
    name = made.json()["resolved_spec"]["task"]["dataset"]["name"]
    assert name.startswith("lab-reviews-")
    assert server.get(f"/v1/datasets/{name}").json()["origin"]["commit"] == COMMIT
