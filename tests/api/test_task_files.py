"""A file of the server that a task names becomes a dataset, once."""

import asyncio
import csv
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import person
from tests.text_studies import a_text_study
from tests.texts import CLASSIFICATION, COMPLETION, reviews, without

from adaptlab_api.answers.state import resources_of
from adaptlab_api.app import create_app
from adaptlab_api.requests import readings
from adaptlab_db.tables import ArtifactChunk, AuditEntry, Dataset, Job
from adaptlab_services.models import datasets, task_files
from adaptlab_services.models.datasets import Content
from adaptlab_services.models.task_files import MOST_FILES
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
FILE = "lab/2026/Reviews of films.csv"
NAME = "reviews-of-films"


def as_csv(records: Sequence[Mapping[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one file of records, in a folder."""
    root = tmp_path / "data"
    (root / "2026").mkdir(parents=True)
    (root / "2026" / "Reviews of films.csv").write_text(as_csv(reviews(150)))
    (root / "broken.csv").write_text("text,label\na\n")
    return root


@pytest.fixture
def settings(settings: Settings, root: Path) -> Settings:
    return settings.model_copy(update={"dataset_roots": {"lab": root}})


def a_job(file: str = FILE, name: str = "reader", **changes: Any) -> dict[str, Any]:
    """A pretraining on the file."""
    return {
        "kind": "pretrain",
        "name": name,
        "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
        "task": {**COMPLETION, "tokens": {"longest": 64}, "dataset": file},
        "training": {"steps": 4},
        **changes,
    }


def refusal(answer: httpx2.Response) -> tuple[str, str]:
    """The pointer and code of the only error, which shows no path."""
    assert answer.status_code == 422, answer.text
    assert "/tmp" not in answer.text
    (problem,) = answer.json()["errors"]
    return problem["pointer"], problem["code"]


def left(sessions: Sessions) -> tuple[int, ...]:
    """The numbers of jobs, datasets and stored chunks."""
    with sessions() as session:
        tables = (Job, Dataset, ArtifactChunk)
        return tuple(session.scalars(select(func.count()).select_from(one)).one() for one in tables)


def test_a_job_names_a_file_and_keeps_its_dataset(api: TestClient, root: Path) -> None:
    made = api.post("/v1/jobs", json=a_job())
    assert made.status_code == 201, made.text
    dataset = api.get(f"/v1/datasets/{NAME}").json()
    assert made.json()["spec"]["task"]["dataset"] == NAME
    kept = made.json()["resolved_spec"]["task"]["dataset"]
    assert (kept["name"], kept["digest"]) == (NAME, dataset["digest"])
    assert dataset["records"] == 150
    for place in root.rglob("*.csv"):
        place.unlink()
    again = api.post("/v1/jobs", json=a_job(NAME, "again"))
    assert again.status_code == 201, again.text


def test_a_preview_checks_the_file_and_keeps_nothing(api: TestClient, sessions: Sessions) -> None:
    previewed = api.post("/v1/jobs?validate_only=true", json=a_job())
    assert previewed.status_code == 200, previewed.text
    assert previewed.json()["resolved_spec"]["task"]["dataset"]["splits"]["train"] > 0
    assert left(sessions) == (0, 0, 0)
    made = api.post("/v1/jobs", json=a_job()).json()
    assert made["resolved_spec"] == previewed.json()["resolved_spec"]


def test_a_refused_job_leaves_no_dataset(api: TestClient, sessions: Sessions) -> None:
    job = a_job()
    wrong = api.post("/v1/jobs", json=job | {"task": {**job["task"], "prompt": "{plot}:"}})
    assert wrong.status_code == 422
    assert "plot" in wrong.text
    assert left(sessions) == (0, 0, 0)


def test_an_equal_dataset_is_used_whatever_its_name(api: TestClient, sessions: Sessions) -> None:
    added = {"name": "films", "kind": "records", "file": FILE}
    assert api.post("/v1/datasets", json=added).status_code == 201
    made = api.post("/v1/jobs", json=a_job())
    assert made.json()["spec"]["task"]["dataset"] == "films"
    assert left(sessions)[:2] == (1, 1)


def test_a_changed_file_is_another_dataset(api: TestClient, root: Path) -> None:
    api.post("/v1/jobs", json=a_job())
    (root / FILE.removeprefix("lab/")).write_text(as_csv(reviews(149)))
    made = api.post("/v1/jobs", json=a_job(name="second")).json()
    kept = made["resolved_spec"]["task"]["dataset"]
    assert kept["name"] == f"{NAME}-{kept['digest'][:8]}"
    assert api.get(f"/v1/datasets/{NAME}").json()["records"] == 150


def test_a_study_names_files_in_all_its_tasks(api: TestClient, sessions: Sessions) -> None:
    study = a_text_study(CLASSIFICATION, COMPLETION)
    study["base_models"][0]["task"]["dataset"] = FILE
    study["tasks"] = [{**task, "dataset": FILE} for task in study["tasks"]]
    plan = api.post("/v1/studies?validate_only=true", json=study)
    assert plan.status_code == 200, plan.text
    assert left(sessions) == (0, 0, 0)
    made = api.post("/v1/studies", json=study)
    assert made.status_code == 201, made.text
    spec = made.json()["spec"]
    assert {task["dataset"] for task in spec["tasks"]} == {NAME}
    extended = api.post("/v1/studies/texts/extend", json={"seeds": 4})
    assert extended.status_code == 200, extended.text


def test_the_same_request_again_reads_no_file(api: TestClient, root: Path) -> None:
    key = {"Idempotency-Key": "once"}
    first = api.post("/v1/jobs", json=a_job(), headers=key)
    (root / FILE.removeprefix("lab/")).unlink()
    again = api.post("/v1/jobs", json=a_job(), headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    other = api.post("/v1/jobs", json=a_job(name="other"), headers=key)
    assert other.json()["type"].endswith("idempotency-key-reused")


def test_simultaneous_requests_make_one_dataset(api: TestClient, sessions: Sessions) -> None:
    specs = [a_job(name=f"reader-{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda spec: api.post("/v1/jobs", json=spec), specs))
    assert [one.status_code for one in answers] == [201] * 4
    assert left(sessions)[:2] == (4, 1)


def test_of_two_that_begin_together_the_second_finds_the_first(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.post("/v1/jobs", json=a_job()).status_code == 201
    found, looks = datasets.equal_to, iter((False, True))

    def late(session: Session, content: Content) -> str | None:
        """Miss a dataset that is not committed at the first look."""
        return found(session, content) if next(looks) else None

    monkeypatch.setattr(datasets, "equal_to", late)
    second = api.post("/v1/jobs", json=a_job(name="second"))
    assert second.json()["spec"]["task"]["dataset"] == NAME
    assert left(sessions)[:2] == (2, 1)


def test_a_quota_counts_the_content(settings: Settings, token: str, sessions: Sessions) -> None:
    small = settings.model_copy(update={"max_stored_bytes": 100})
    with TestClient(create_app(small), headers={"Authorization": f"Bearer {token}"}) as api:
        for path in ("/v1/jobs", "/v1/jobs?validate_only=true"):
            answer = api.post(path, json=a_job())
            assert answer.status_code == 429, path
            assert "quota" in answer.json()["detail"]
    assert left(sessions) == (0, 0, 0)


def test_the_audit_log_has_the_new_dataset(api: TestClient, sessions: Sessions) -> None:
    api.post("/v1/jobs?validate_only=true", json=a_job())
    api.post("/v1/jobs", json=a_job())
    api.post("/v1/jobs", json=a_job(name="second"))
    with sessions() as session:
        action = AuditEntry.action == "upload_dataset"
        entries = session.scalars(select(AuditEntry).where(action)).all()
    assert [(entry.object, entry.status) for entry in entries] == [(NAME, 201)]


REFUSED = {
    "another root": ("mine/a.csv", "unknown_dataset_root"),
    "no such file": ("lab/none.csv", "no_such_file"),
    "up": ("lab/../secret.csv", "not_a_file_name"),
    "an absolute path": ("/etc/passwd", "unknown_dataset_root"),
    "a folder": ("lab/2026", "is_a_folder"),
    "a broken file": ("lab/broken.csv", "missing_field"),
    "a long path": (f"lab/{'x' * 5000}.csv", "no_such_file"),
}


def test_what_is_no_file_of_records_is_refused(api: TestClient, sessions: Sessions) -> None:
    for what, (file, code) in REFUSED.items():
        assert refusal(api.post("/v1/jobs", json=a_job(file))) == ("/task/dataset", code), what
    assert left(sessions) == (0, 0, 0)


def test_a_name_without_a_form_is_refused(api: TestClient, root: Path) -> None:
    (root / "data.txt").write_text(as_csv(reviews(9)))
    assert refusal(api.post("/v1/jobs", json=a_job("lab/data.txt")))[1] == "unknown_form"


def test_labels_are_no_files(api: TestClient, sessions: Sessions) -> None:
    labels = {"dataset": FILE, "team": "lab/text"}
    words = {"dataset": " lab/a", "model": " lab/b"}
    task = {**CLASSIFICATION, "dataset": FILE, "label": {"field": "label", "words": words}}
    refused = api.post("/v1/jobs", json=a_job(task=task))
    assert (refused.status_code, "root" in refused.text) == (422, False), refused.text
    made = api.post("/v1/jobs", json=a_job(labels=labels))
    assert made.json()["spec"]["labels"] == labels
    assert made.json()["spec"]["task"]["dataset"] == NAME
    named = api.post("/v1/jobs", json=a_job(NAME, "named", labels={"dataset": "lab/none.csv"}))
    assert named.status_code == 201, named.text
    assert left(sessions)[:2] == (2, 1)


def test_many_files_are_refused(api: TestClient) -> None:
    files = [f"lab/{number}.csv" for number in range(MOST_FILES)]
    tasks = [{**COMPLETION, "dataset": file} for file in files]
    answer = api.post("/v1/jobs", json=a_job(evaluation={"tasks": tasks}))
    assert refusal(answer) == (f"/evaluation/tasks/{MOST_FILES - 1}/dataset", "too_many_files")


def test_words_are_no_records(api: TestClient, sessions: Sessions) -> None:
    job = a_job(task={"name": "word_translation", "dataset": FILE})
    answer = api.post("/v1/jobs", json=job)
    assert answer.status_code == 422
    assert left(sessions) == (0, 0, 0)


def test_extensions_read_files_as_new_studies_do(api: TestClient) -> None:
    study = a_text_study(CLASSIFICATION)
    study["base_models"][0]["task"]["dataset"] = FILE
    study["tasks"] = [{**CLASSIFICATION, "dataset": FILE}]
    assert api.post("/v1/studies", json=study).status_code == 201
    more = {"tasks": [*study["tasks"], {**COMPLETION, "dataset": FILE}]}
    answer = api.post("/v1/studies/texts/extend", json=without(more))
    assert (answer.status_code, len(answer.json()["spec"]["tasks"])) == (200, 2)


def test_readers_cannot_make_datasets_of_files(api: TestClient, sessions: Sessions) -> None:
    reader = person(sessions, "rob", {"default": "reader"})
    assert api.post("/v1/jobs", json=a_job(), headers=reader).status_code == 403
    assert left(sessions) == (0, 0, 0)


def test_a_file_that_takes_long_is_to_be_added_first(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "READING_SHARE", 0.0)
    answer = api.post("/v1/jobs", json=a_job())
    assert refusal(answer) == ("/task/dataset", "takes_too_long")
    assert "datasets add" in answer.text
    assert left(sessions) == (0, 0, 0)


def test_one_file_is_read_at_a_time(
    settings: Settings, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "WAITING_SHARE", 0.001)
    app = create_app(settings)
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as api:
        turns = resources_of(app).readings
        with ThreadPoolExecutor(1) as own:  # tests of browsers leave a loop in this thread
            own.submit(asyncio.run, turns.acquire()).result()
        busy = api.post("/v1/jobs", json=a_job())
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "5")
        turns.release()
        assert api.post("/v1/jobs", json=a_job()).status_code == 201


def test_other_names_are_not_searched_for_files(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr(task_files, "read", never)
    answer = api.post("/v1/jobs", json=a_job("reviews.csv"))
    assert refusal(answer) == ("/task/dataset", "unknown_dataset")
