"""Pages that no other test opens in a browser, and deletion from the list."""

import pytest
from playwright.sync_api import expect
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job
from tests.pages.made_up_studies import a_base
from tests.pages.visitors import Visitor, overflows_nowhere

from adaptlab_db.tables import Job

pytestmark = pytest.mark.browser
Sessions = sessionmaker[Session]
PAGES = {
    "/results": "Results",
    "/datasets": "Datasets",
    "/datasets/generated": "generated",
    "/projects": "Projects",
    "/users": "Users",
    "/audit": "Audit log",
    "/webhooks": "Webhooks",
    "/methods/lora": "LoRA",
    "/recommend": "Recommend a method",
}


def test_pages_open_in_every_window_without_an_error(visitor: Visitor, sessions: Sessions) -> None:
    """The visitor notes errors of scripts, and requests to other sites."""
    a_base(sessions)
    visitor.sign_in()
    for path, title in PAGES.items():
        answer = visitor.page.goto(visitor.server + path)
        assert answer is not None
        assert answer.status == 200, path
        expect(visitor.page.locator("h1")).to_contain_text(title)
        overflows_nowhere(visitor.page)


def test_selected_jobs_are_deleted_after_a_question(visitor: Visitor, sessions: Sessions) -> None:
    with sessions.begin() as session:
        for _ in range(2):
            a_job(session, state="failed")
    visitor.agree()
    visitor.sign_in()
    visitor.page.locator('input[name="job"]').first.check()
    visitor.page.get_by_role("button", name="Delete").click()
    expect(visitor.page.locator('input[name="job"]')).to_have_count(1)
    with sessions() as session:
        assert session.scalars(select(func.count()).select_from(Job)).one() == 1
