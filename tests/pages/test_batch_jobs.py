"""The batch job on a job's page, and the step it was resumed from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_job, a_made_up_ledger, an_environment

from adaptlab.runs.events import Allocation, Started, TrainingSaved
from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def signed_in(settings: Settings, token: str) -> Iterator[TestClient]:
    with TestClient(create_app(settings), headers={"Accept": "text/html"}) as made:
        made.post("/login", data={"token": token}, headers=HERE)
        yield made


def test_the_batch_job_and_the_step_are_told(
    signed_in: TestClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        job = a_job(session)
    ledger = a_made_up_ledger(sessions)
    first = a_claim(ledger)
    there = Allocation(scheduler="slurm", job_id="4711", nodes="node[1-2]")
    path = Path("training.safetensors")
    stored = ledger.put_artifact(first, [b"half of it"]).sha256
    started = Started(environment=an_environment(allocation=there), replicates=1)
    ledger.record(first, [started, TrainingSaved(step=5, path=path)], {path: stored})
    ledger.release(first, "preempted")
    a_claim(ledger)
    page = signed_in.get(f"/jobs/{job}").text
    assert "job id 4711" in page
    assert "nodes node[1-2]" in page
    assert "resumed_from_step: 5" in page
