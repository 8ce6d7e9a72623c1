"""The accuracy in lists of jobs is the one of their results."""

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, a_measured_study, as_known, run_all
from tests.making import a_base_model, an_adapt_document


def test_lists_have_the_accuracy_of_the_results(
    api: TestClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    waiting = api.post("/v1/jobs", json=an_adapt_document()).json()
    assert waiting["accuracy"] is None
    api.post(f"/v1/jobs/{waiting['id']}/cancel")
    api.post("/v1/studies", json=a_measured_study())
    run_all(sessions, as_known)

    results = api.get("/v1/results?fields=id,metrics.accuracy.mean").json()["data"]
    known = {row["id"]: row["metrics.accuracy.mean"] for row in results}
    listed = api.get("/v1/jobs?filter=kind=adapt&view=basic").json()["data"]
    assert any(known.values())
    for job in listed:
        assert job["accuracy"] == pytest.approx(known.get(job["id"])), job["id"]
        assert api.get(f"/v1/jobs/{job['id']}").json()["accuracy"] == job["accuracy"]
