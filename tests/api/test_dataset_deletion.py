"""Datasets are deleted unless something needs them."""

from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import bearer, entries, person
from tests.comparing import Run, run_all
from tests.making import a_study_document
from tests.texts import CLASSIFICATION, reviews, without

from adaptlab_db.tables import Artifact, Job
from adaptlab_services.models import datasets
from adaptlab_services.models.dataset_deletion import NEXT_STEP, delete_dataset
from adaptlab_services.storage.collecting import collect

Sessions = sessionmaker[Session]
TASK = without(CLASSIFICATION, tokens={"longest": 64})
READER = {
    "kind": "pretrain",
    "name": "reader",
    "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 32},
    "task": TASK | {"dataset": "others"},
}


@pytest.fixture
def stored(api: TestClient) -> TestClient:
    """The API with two datasets; a base model is trained on the second."""
    for name, count in (("reviews", 200), ("others", 150)):
        body = {"name": name, "records": reviews(count)}
        assert api.post("/v1/datasets", json=body).status_code == 201
    assert api.post("/v1/jobs", json=READER).status_code == 201
    return api


def adaptation(api: TestClient) -> str:
    document = {
        "kind": "adapt",
        "base_model": "reader",
        "task": TASK,
        "method": "lora",
        "budget": {"trainable_parameters": 2000},
    }
    made = api.post("/v1/jobs", json=document)
    assert made.status_code == 201, made.text
    return made.json()["id"]


def refusal(api: TestClient, name: str = "reviews") -> str:
    answer = api.delete(f"/v1/datasets/{name}")
    assert answer.status_code == 409, answer.text
    assert answer.json()["type"].endswith("conflict")
    assert api.get(f"/v1/datasets/{name}").status_code == 200
    return answer.json()["detail"]


def test_a_dataset_that_nothing_needs_is_deleted_with_its_content(
    stored: TestClient, sessions: Sessions
) -> None:
    digest = stored.get("/v1/datasets/reviews").json()["digest"]
    assert stored.delete("/v1/datasets/reviews").status_code == 204
    assert stored.get("/v1/datasets/reviews").status_code == 404
    assert stored.delete("/v1/datasets/reviews").status_code == 404
    noted = [(entry["action"], entry["object"]) for entry in entries(stored)]
    assert ("delete_dataset", "reviews") in noted
    collect(sessions, unreferenced_for=timedelta(0))
    with sessions() as session:
        left = select(func.count()).where(Artifact.sha256 == digest)
        assert session.scalars(left).one() == 0
    again = stored.post("/v1/datasets", json={"name": "reviews", "records": reviews(20)})
    assert again.status_code == 201


def test_base_models_and_unfinished_jobs_keep_their_dataset(stored: TestClient) -> None:
    detail = refusal(stored, "others")
    assert "needed by the base model reader; the unfinished job " in detail
    assert detail.endswith(NEXT_STEP)
    ids = [adaptation(stored)]
    assert f"needed by the unfinished job {ids[0]}." in refusal(stored)
    ids += [adaptation(stored) for _ in range(4)]
    named = f"needed by the unfinished jobs {', '.join(ids[:3])} and 2 more."
    assert named in refusal(stored)
    for job in ids:
        assert stored.post(f"/v1/jobs/{job}/cancel").status_code in (200, 202)
    assert stored.delete("/v1/datasets/reviews").status_code == 204


def test_a_study_keeps_its_dataset_until_it_is_cancelled(
    stored: TestClient, sessions: Sessions
) -> None:
    document = a_study_document(
        name="mine", base_models=["reader"], tasks=[TASK], methods=["frozen"], seeds=1
    )
    made = stored.post("/v1/studies", json=document)
    assert made.status_code == 201, made.text
    assert "needed by the study mine; the unfinished job" in refusal(stored)
    run_all(sessions, lambda _: Run(right=30))
    assert "needed by the study mine. " in refusal(stored)
    assert stored.post("/v1/studies/mine/cancel").status_code == 200
    assert stored.delete("/v1/datasets/reviews").status_code == 204
    compared = stored.get("/v1/studies/mine/comparison")
    assert compared.status_code == 200
    (table,) = compared.json()["tables"]
    assert [method["label"] for method in table["methods"]] == ["frozen"]
    again = stored.post("/v1/studies", json=document | {"name": "again"})
    assert "reviews" in again.json()["errors"][0]["detail"]


def test_a_job_is_not_retried_without_its_dataset(stored: TestClient, sessions: Sessions) -> None:
    job = adaptation(stored)
    stored.post(f"/v1/jobs/{job}/cancel")
    assert stored.delete("/v1/datasets/reviews").status_code == 204
    refused = stored.post(f"/v1/jobs/{job}/retry")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "deleted_dataset"
    body = {"name": "under-another-name", "records": reviews(200)}
    assert stored.post("/v1/datasets", json=body).status_code == 201
    assert stored.post(f"/v1/jobs/{job}/retry").status_code == 201


def test_of_two_with_the_same_content_one_is_enough(stored: TestClient, sessions: Sessions) -> None:
    adaptation(stored)
    stored.post("/v1/datasets", json={"name": "twin", "records": reviews(200)})
    assert stored.delete("/v1/datasets/reviews").status_code == 204
    assert "needed by the unfinished job" in refusal(stored, "twin")
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.kind == "adapt").values(state="cancelled"))
    assert stored.delete("/v1/datasets/twin").status_code == 204


def test_a_deletion_waits_for_requests_that_looked_the_dataset_up(
    stored: TestClient, sessions: Sessions
) -> None:
    with sessions() as submitting, sessions() as deleting:
        datasets.known(submitting)["reviews"]
        deleting.execute(text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(OperationalError, match="lock timeout"):
            delete_dataset(deleting, "reviews")
        deleting.rollback()
        submitting.rollback()
        delete_dataset(deleting, "reviews")


def test_the_generated_words_stay(api: TestClient) -> None:
    assert "part of every server" in refusal(api, "generated")


@pytest.mark.parametrize(
    ("role", "own", "of_others"),
    [("reader", 403, 403), ("submitter", 204, 403), ("operator", 204, 204), ("admin", 204, 204)],
)
def test_permissions(
    anonymous: TestClient, sessions: Sessions, role: str, own: int, of_others: int
) -> None:
    owners = {name: person(sessions, name, {"ours": "submitter"}) for name in ("other", "asker")}
    owners["stranger"] = person(sessions, "stranger", {"theirs": "submitter"})
    for name, header in owners.items():
        body = {"name": f"of-{name}", "records": reviews(20)}
        assert anonymous.post("/v1/datasets", json=body, headers=header).status_code == 201
    header = person(sessions, "asker", {"ours": role})

    def status(name: str, header: dict[str, str] = header) -> int:
        return anonymous.delete(f"/v1/datasets/of-{name}", headers=header).status_code

    assert status("other", {}) == 401
    assert status("other", bearer("al_nobody")) == 401
    assert status("stranger") == (403 if role == "reader" else 404)
    assert status("other") == of_others
    assert status("asker") == own
