"""The page of a study with a question: answer, evidence, next passes."""

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.pages.made_up_studies import a_base, a_study
from tests.pages.reading import text_of
from tests.pages.submitting import browser as browser
from tests.pages.submitting import sign_in

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.studies import StudyView
from adaptlab_services.people import tokens
from adaptlab_services.studies.question_plans import plan_due
from adaptlab_services.studies.studies import DEFAULT_MOST_JOBS

Sessions = sessionmaker[Session]


def decided(spec: ResolvedSpec) -> Run:
    """LoRA learns all, adapters nothing."""
    is_good = (spec.method or {}).get("name") == "lora"
    return Run(right=400, validation=0.9) if is_good else Run(right=0, loss=1.3)


@pytest.fixture
def asked(sessions: Sessions, token: str) -> StudyView:
    a_base(sessions)
    with sessions.begin() as session:
        owner = tokens.authenticate(session, token)
    question = {"compare": ["lora", "adapter"], "at_most": {"seeds": 8}}
    return a_study(
        sessions, owner, name="asked", methods=[], budgets=[64], seeds="auto", question=question
    )


def read(browser: TestClient, token: str) -> str:
    return text_of(sign_in(browser, token).get("/studies/asked").text)


def test_what_runs_next_is_shown_with_its_reason(
    browser: TestClient, token: str, asked: StudyView
) -> None:
    page = read(browser, token)
    assert "So far Which method is the best, to within 1 point" in page
    assert "What runs next, and why" in page
    assert page.count("learning rates with 2 seeds.") >= len(
        asked.question.passes if asked.question else ()
    )
    assert "sweep (queued)" in page


def test_the_answer_is_first_with_its_evidence_and_cost(
    browser: TestClient, token: str, sessions: Sessions, asked: StudyView
) -> None:
    for _ in range(8):
        run_all(sessions, decided)
        plan_due(sessions, DEFAULT_MOST_JOBS)
    page = read(browser, token)
    assert "Answer Which method is the best" in page
    assert page.index("LoRA (100.0 %)") < page.index("Evidence on")
    assert "of a fixed grid with as many seeds" in page
    assert "shown" in page
    assert "What runs next" not in page
    assert "Add 2 seeds" not in page


def test_the_evidence_needs_no_second_verdict(
    browser: TestClient, token: str, sessions: Sessions, asked: StudyView
) -> None:
    for _ in range(8):
        run_all(sessions, decided)
        plan_due(sessions, DEFAULT_MOST_JOBS)
    page = read(browser, token)
    assert page.count("LoRA (100.0 %) is the best") == 1
    assert "worse" not in page
