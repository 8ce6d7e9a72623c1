"""Theory checks on a study's page: claims, figures and open jobs."""

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_made_up_ledger, a_principal, an_environment
from tests.pages.made_up_studies import a_base, a_study
from tests.pages.reading import section

from adaptlab.runs.events import Started, TheoryChecked
from adaptlab.runs.theory_report import Check
from adaptlab.studies.study import StudySpec
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
HOSTILE = "<script>alert(1)</script>"


def test_a_study_of_checks_alone_shows_claims_with_verdicts(
    sessions: Sessions, reader: TestClient
) -> None:
    checks = ["theorems", {"name": "rotation", "label": HOSTILE}]
    spec = StudySpec.model_validate({"name": "theory", "checks": checks})
    with sessions.begin() as session:
        studies.create(session, a_principal(session), spec, Rules())
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    said = (
        Check.at_most("theorem-1", "Theorem 1 as it stands.", 0.25, 0.5),
        Check.at_least("theorem-2", "Theorem 2 is broken.", 0.125, 2.0),
    )
    ledger.record(claim, [Started(environment=an_environment(), replicates=1)])
    ledger.record(claim, [TheoryChecked(place=n, check=one) for n, one in enumerate(said)])
    ledger.finish(claim)
    page = reader.get("/studies/theory").text
    shown = section(page, "checks")
    assert "1 of 2 measured claims hold" in shown
    assert "Theorem 1 as it stands. 0.25 at most 0.5 holds" in shown
    assert "Theorem 2 is broken. 0.125 at least 2 fails" in shown
    assert "queued" in shown
    assert f"/jobs/{claim.job_id}" in page
    assert HOSTILE not in page
    # There is nothing of methods and budgets to show.
    assert 'id="cells"' not in page


def test_a_check_says_whose_adaptation_it_measures(sessions: Sessions, reader: TestClient) -> None:
    a_base(sessions)
    with sessions.begin() as session:
        who = a_principal(session)
    checks = [{"name": "relative_attention", "of": "lora"}]
    study = a_study(sessions, who, methods=["lora"], budgets=[64], checks=checks)
    page = reader.get(f"/studies/{study.name}").text
    shown = section(page, "checks")
    assert "relative_attention of LoRA on sort_descending" in shown
    assert "64 parameters, tiny-sort" in shown
    assert "waiting" in shown
    assert 'id="cells"' in page
    assert "Engine passes 1 " in section(page, "cells")


def test_a_study_without_checks_has_no_such_section(sessions: Sessions, reader: TestClient) -> None:
    a_base(sessions)
    with sessions.begin() as session:
        who = a_principal(session)
    study = a_study(sessions, who, methods=["lora"])
    assert 'id="checks"' not in reader.get(f"/studies/{study.name}").text
