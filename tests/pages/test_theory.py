"""The page of a job of theory checks."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_claim, a_job, a_made_up_ledger, a_principal
from tests.pages.made_up import SPEC

from adaptlab.runs.events import TheoryChecked
from adaptlab.runs.theory_report import Check
from adaptlab_api.app import create_app
from adaptlab_services.jobs import jobs
from adaptlab_services.settings import Settings


@pytest.fixture
def client(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody who is signed in."""
    with TestClient(create_app(settings), headers={"Accept": "text/html"}) as made:
        here = {"Sec-Fetch-Site": "same-origin"}
        assert made.post("/login", data={"token": token}, headers=here).is_success
        yield made


def test_every_claim_is_shown_with_what_was_measured(
    client: TestClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        spec = SPEC.validate_python({"kind": "theory", "checks": ["theorems"]})
        job = jobs.create(session, a_principal(session), spec).job
    page = f"/jobs/{job.id}"
    assert "Each check appears once it is measured" in client.get(page).text
    good = Check.at_most("equation-6", "Equation 6 <holds>.", 0.5, 1.0)
    bad = Check.at_least("capacity", "Section 3.", 1, 2)
    ledger = a_made_up_ledger(sessions)
    told = [TheoryChecked(place=place, check=check) for place, check in enumerate((good, bad))]
    ledger.record(a_claim(ledger), told, {})
    shown, listed = client.get(page).text, client.get("/").text
    assert "Theory checks: theorems" in shown
    assert "Theory checks: theorems" in listed
    assert "1 of 2 claims hold" in shown
    assert "Equation 6 &lt;holds&gt;." in shown
    for row in ("at most 1<", "at least 2<", "<strong>fails</strong>"):
        assert row in shown
    assert "Gradient clip" not in shown


def test_what_was_adapted_is_told(client: TestClient, sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        adapted = a_job(session, state="succeeded")
        document = {"kind": "theory", "checks": ["relative_attention"], "adaptation": adapted}
        job = jobs.create(session, a_principal(session), SPEC.validate_python(document)).job
    shown = client.get(f"/jobs/{job.id}").text
    assert f"job {adapted}, seeds 0, 1" in shown
