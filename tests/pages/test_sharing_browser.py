"""A study and its base model are shared by forms, read and taken back."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.making import a_project
from tests.pages.made_up_studies import a_base, a_study, ordinary
from tests.pages.submitting import somebody
from tests.pages.visitors import Visitor, a_visitor, overflows_nowhere, unfold_all

from adaptlab_answers.studies import StudyView
from adaptlab_services.people import tokens

pytestmark = [pytest.mark.browser, pytest.mark.long("browser walks")]
Sessions = sessionmaker[Session]


@pytest.fixture
def study(sessions: Sessions, token: str) -> StudyView:
    """A measured study of the admin, in the project `default`."""
    a_base(sessions)
    with sessions.begin() as session:
        admin = tokens.authenticate(session, token)
        a_project(session, "robotics")
    made = a_study(sessions, admin, name="close", seeds=2, methods=["lora", "adapter", "frozen"])
    run_all(sessions, ordinary)
    return made


def share(visitor: Visitor, path: str) -> None:
    """Fill the form on the page of something in."""
    page = visitor.page
    page.goto(visitor.server + path)
    unfold_all(visitor)
    page.locator("#sharing").get_by_label("Project").fill("robotics")
    page.get_by_role("button", name="Share").click()
    expect(page.locator("#sharing li")).to_contain_text("robotics")


@pytest.fixture
def shared(visitor: Visitor, study: StudyView) -> StudyView:
    """The study, after its forms and that of its base model were sent."""
    visitor.sign_in()
    share(visitor, f"/base-models/{study.base_models[0].name}")
    share(visitor, "/studies/close")
    return study


@pytest.fixture
def reader(
    visitor: Visitor, browser: Browser, sessions: Sessions, shared: StudyView
) -> Iterator[Visitor]:
    """Somebody of the other project at a browser of their own."""
    neighbour = somebody(sessions, {"robotics": "operator"}, ("read", "submit"))
    with a_visitor(browser, visitor.server, neighbour) as made:
        made.sign_in("/studies")
        yield made


def test_a_shared_study_is_read_without_buttons(visitor: Visitor, reader: Visitor) -> None:
    overflows_nowhere(visitor.page)
    verdict = visitor.page.locator(".answer").first.inner_text()
    page = reader.page
    expect(page.locator("#studies")).to_contain_text("default")
    page.get_by_role("link", name="close").click()
    expect(page.locator("#facts")).to_contain_text("shared by the project default for reading only")
    assert verdict.startswith(page.locator(".answer").first.inner_text()[:40])
    for name in ("Cancel study", "Delete study", "Share", "Add 3 seeds"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.locator("#table-0-curves svg.marks")).to_be_visible()
    unfold_all(reader)
    page.locator("#cells a.state").first.click()
    expect(page.locator(".job-head")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)


def test_it_ends_when_the_study_is_taken_back(
    visitor: Visitor, reader: Visitor, shared: StudyView
) -> None:
    reader.expected.append("status of 404")
    reader.page.goto(f"{reader.server}/base-models/{shared.base_models[0].name}")
    expect(reader.page.locator("#head")).to_contain_text("shared by default")
    overflows_nowhere(reader.page)
    visitor.page.get_by_role("button", name="Take back").click()
    expect(visitor.page.locator("#sharing li")).to_have_count(0)
    answer = reader.page.goto(f"{reader.server}/studies/close")
    assert answer is not None
    assert answer.status == 404
