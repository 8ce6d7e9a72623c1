"""Pausing, resuming and retrying over HTTP, and limits per owner."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from tests.making import a_claim, an_adapt_document

from adaptlab_api.app import create_app
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.settings import Settings

PROBLEM = "application/problem+json"


def test_the_worker_of_a_running_job_is_asked_to_save_and_stop(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    claim = a_claim(ledger)
    asked = api.post(f"{job}/pause")
    assert (asked.status_code, asked.json()["pause_requested"]) == (202, True)
    ledger.paused(claim)
    assert api.get(job).json()["state"] == "paused"
    assert api.post(f"{job}/cancel").json()["state"] == "cancelled"


def test_a_failed_job_is_retried_once(api: TestClient, job: str, ledger: DatabaseLedger) -> None:
    ledger.fail(a_claim(ledger), "diverged", "Every replicate diverged.", retry=False)
    anew = api.post(f"{job}/retry")
    assert anew.status_code == 201
    assert anew.headers["location"] == f"/v1/jobs/{anew.json()['id']}"
    assert anew.json()["retry_of"] == job.removeprefix("/v1/jobs/")
    again = api.post(f"{job}/retry")
    assert (again.status_code, again.json()["id"]) == (200, anew.json()["id"])


@pytest.mark.parametrize(
    ("verb", "state"), [("pause", "cancelled"), ("resume", "cancelled"), ("retry", "queued")]
)
def test_what_the_state_does_not_allow_is_a_conflict(
    api: TestClient, job: str, verb: str, state: str
) -> None:
    if state == "cancelled":
        api.post(f"{job}/cancel")
    refused = api.post(f"{job}/{verb}")
    assert (refused.status_code, refused.headers["content-type"]) == (409, PROBLEM)
    assert refused.json()["state"] == state
    missing = api.post(f"/v1/jobs/00000000-0000-0000-0000-000000000000/{verb}")
    assert missing.status_code == 404


@pytest.fixture
def limited(settings: Settings, token: str) -> Iterator[TestClient]:
    """A server on which an owner may have two jobs in the queue."""
    narrow = settings.model_copy(update={"max_queued_jobs": 2})
    with TestClient(create_app(narrow), headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


def test_one_job_too_many_is_refused_with_the_limit(
    limited: TestClient, base: None, ledger: DatabaseLedger
) -> None:
    for _ in range(2):
        assert limited.post("/v1/jobs", json=an_adapt_document()).status_code == 201
    refused = limited.post("/v1/jobs", json=an_adapt_document())
    assert (refused.status_code, refused.headers["content-type"]) == (429, PROBLEM)
    assert refused.json()["type"] == "urn:adaptlab:problem:limit-reached"
    assert "allows 2 at a time" in refused.json()["detail"]
    assert len(limited.get("/v1/jobs?filter=state = queued").json()["data"]) == 2
    a_claim(ledger)
    assert limited.post("/v1/jobs", json=an_adapt_document()).status_code == 201
