"""More seeds for a study, from its page, with the cost shown first."""

import html
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.making import a_member, a_user
from tests.pages.made_up_studies import a_base, a_study, failing, ordinary
from tests.pages.reading import text_of
from tests.pages.submitting import HERE, sign_in, somebody
from tests.pages.submitting import browser as browser

from adaptlab_answers.studies import StudyView
from adaptlab_db.tables import Job
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies

Sessions = sessionmaker[Session]


@pytest.fixture
def owner(sessions: Sessions, token: str) -> Principal:
    a_base(sessions)
    with sessions.begin() as session:
        return tokens.authenticate(session, token)


@pytest.fixture
def signed_in(browser: TestClient, token: str) -> TestClient:
    return sign_in(browser, token)


@pytest.fixture
def study(sessions: Sessions, owner: Principal) -> StudyView:
    """A measured study of two seeds, in which LoRA and adapter are close."""
    made = a_study(sessions, owner, name="close", seeds=2, methods=["lora", "adapter", "frozen"])
    run_all(sessions, ordinary)
    return made


def jobs_in(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(Job)).one()


def hidden(page: str) -> list[str]:
    return re.findall(r'name="seed" value="(\d+)"', page)


def seeds_of(sessions: Sessions, name: str) -> set[int]:
    with sessions() as session:
        cells = studies.get(session, name).cells
    return {seed for cell in cells for job in cell.jobs for seed in job.seeds}


def test_the_cost_is_shown_before_anything_is_created(
    signed_in: TestClient, sessions: Sessions, study: StudyView
) -> None:
    before = jobs_in(sessions)
    page = signed_in.get(f"/studies/{study.name}").text
    address = f"/studies/{study.id}/extend"
    assert f'action="{address}"' in page

    plan = signed_in.get(f"{address}?more=3")
    text = text_of(plan.text)
    assert "Add 3 seeds to close" in text
    assert re.search(r"New jobs [1-9]", text)
    assert "on one worker, one job at a time" in text
    assert hidden(plan.text) == ["2", "3", "4"]
    assert jobs_in(sessions) == before


def test_confirmed_seeds_are_added_once_even_if_sent_twice(
    signed_in: TestClient, sessions: Sessions, study: StudyView
) -> None:
    address = f"/studies/{study.id}/extend"
    seeds = hidden(signed_in.get(f"{address}?more=2").text)
    first = signed_in.post(address, data={"seed": seeds}, headers=HERE)
    assert first.headers["Location"] == "/studies/close"
    added = jobs_in(sessions)
    assert seeds_of(sessions, "close") == {0, 1, 2, 3}
    signed_in.post(address, data={"seed": seeds}, headers=HERE)
    assert jobs_in(sessions) == added


def test_a_running_or_cancelled_study_offers_none(
    signed_in: TestClient, sessions: Sessions, owner: Principal
) -> None:
    running = a_study(sessions, owner, name="running", seeds=2, methods=["lora"])
    assert "/extend" not in signed_in.get("/studies/running").text
    with sessions.begin() as session:
        studies.cancel(session, owner, "running")
    assert "/extend" not in signed_in.get("/studies/running").text
    refused = signed_in.get(f"/studies/{running.id}/extend?more=2")
    assert refused.status_code == 409
    assert "was cancelled" in refused.text


def test_a_study_whose_methods_all_fail_offers_none(
    signed_in: TestClient, sessions: Sessions, owner: Principal
) -> None:
    a_study(sessions, owner, name="lost", seeds=2, methods=["lora"])
    run_all(sessions, failing("lora"))
    page = text_of(signed_in.get("/studies/lost").text)
    assert "more-seeds" not in signed_in.get("/studies/lost").text
    assert "Settles which method" not in page


def test_the_button_is_in_the_block_of_the_sentence_that_it_settles(
    signed_in: TestClient, study: StudyView
) -> None:
    page = signed_in.get(f"/studies/{study.name}").text
    block = page.partition('<div class="panel answer">')[2].partition('id="facts"')[0]
    assert "seeds…" in text_of(block)
    assert "settles which method is the best" in text_of(block)
    assert f'action="/studies/{study.id}/extend"' in block
    assert page.count('class="more-seeds"') == 1


IMPOSSIBLE: list[Any] = ["0", "63", "x"]


def test_a_number_of_seeds_that_is_not_possible_is_refused(
    signed_in: TestClient, study: StudyView
) -> None:
    for more in IMPOSSIBLE:
        answer = signed_in.get(f"/studies/{study.id}/extend?more={more}")
        assert answer.status_code == 422


NO_SEEDS: list[Any] = [[], ["-1"], ["99999999999"]]


def test_a_form_without_seeds_adds_nothing(
    signed_in: TestClient, sessions: Sessions, study: StudyView
) -> None:
    for seeds in NO_SEEDS:
        before = jobs_in(sessions)
        answer = signed_in.post(
            f"/studies/{study.id}/extend", data={"seed": seeds, "x": "y"}, headers=HERE
        )
        assert answer.status_code == 422
        assert jobs_in(sessions) == before


def test_others_may_look_at_a_study_and_not_extend_it(
    browser: TestClient, sessions: Sessions, study: StudyView
) -> None:
    with sessions.begin() as session:
        a_member(session, a_user(session, "ada"))
    token = somebody(sessions, {"default": "submitter"}, ("read", "submit"))
    stranger = sign_in(browser, token)
    assert "/extend" not in stranger.get(f"/studies/{study.id}").text
    address = f"/studies/{study.id}/extend"
    answer = stranger.post(address, data={"seed": ["5"]}, headers=HERE)
    assert answer.status_code == 403
    assert seeds_of(sessions, "close") == {0, 1}


def test_the_controls_of_a_diagnosis_are_one_button_with_their_time(
    signed_in: TestClient, sessions: Sessions, owner: Principal
) -> None:
    made = a_study(sessions, owner, name="why", seeds=5)
    run_all(sessions, ordinary)
    page = signed_in.get("/studies/why").text
    (form, *_) = re.findall(r'<form[^>]*>(<input type="hidden" name="extension".*?)</form>', page)
    assert "Run these controls" in form
    assert re.search(r"To decide it, train .*(Under a minute|About \d+ minutes?)\.", page)
    (proposed,) = re.findall(r'value="(.*?)"', form)
    before, address = jobs_in(sessions), f"/studies/{made.id}/extend"
    answer = signed_in.post(address, data={"extension": html.unescape(proposed)}, headers=HERE)
    assert answer.status_code in (200, 303)
    assert jobs_in(sessions) > before
    answer = signed_in.post(address, data={"extension": '{"controls": 1}'}, headers=HERE)
    assert answer.status_code == 422
