"""Studies and chosen jobs as a person meets them, in a real browser."""

import pytest
from playwright.sync_api import expect
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.pages.made_up_studies import METHODS, a_base, a_study, failing, ordinary
from tests.pages.visitors import (
    HOSTILE_LABEL,
    NARROW,
    OPPOSITES,
    WIDE,
    Visitor,
    draw_everything,
    look_like,
)

from adaptlab.studies.study import StudyExtension
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

pytestmark = [pytest.mark.browser, pytest.mark.long("browser walks")]
Sessions = sessionmaker[Session]


@pytest.fixture
def admin(sessions: Sessions, token: str) -> Principal:
    """The admin, on a server that has the base model of the studies."""
    a_base(sessions)
    with sessions.begin() as session:
        return tokens.authenticate(session, token)


def test_every_chart_is_drawn_and_nothing_overflows(
    visitor: Visitor, sessions: Sessions, admin: Principal
) -> None:
    hostile = {"name": "lora", "alpha": 3, "label": HOSTILE_LABEL}
    study = a_study(sessions, admin, name="done", methods=[*METHODS, hostile, "bitfit"])
    run_all(sessions, failing("adapter"))
    visitor.sign_in()
    chosen = [job.id for cell in study.cells[:6] for job in cell.jobs]
    compared = "/compare?" + "&".join(f"job={one}" for one in dict.fromkeys(chosen))
    for path, charts in (("/studies", 0), ("/studies/done", 11), (compared, 5), ("/compare", 0)):
        for viewport, scheme in OPPOSITES:
            look_like(visitor.page, viewport, scheme)
            visitor.page.goto(visitor.server + path)
            draw_everything(visitor)
            expect(visitor.page.locator(".chart svg.marks")).to_have_count(charts)
            width = visitor.page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], path
            assert visitor.page.title() != "owned"
            assert visitor.page.locator("script:not([src])").count() == 0
            # A chart is as wide as its place and scrolls at no width.
            for chart in visitor.page.locator(".chart .drawing").all():
                assert chart.evaluate("box => box.scrollWidth <= box.clientWidth + 1")


def test_a_study_is_watched_without_reloading(
    visitor: Visitor, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="live")
    visitor.sign_in("/studies/live")
    expect(visitor.page.get_by_text("No scores yet")).to_be_visible()
    visitor.page.evaluate("window.sameDocument = true")
    run_all(sessions, ordinary)
    expect(visitor.page.locator(".job-head .state")).to_have_text("succeeded")
    expect(visitor.page.locator("#table-0-curves svg.marks")).to_be_visible()
    expect(visitor.page.locator("#table-0-0")).to_contain_text("Bottleneck adapter")
    assert visitor.page.evaluate("window.sameDocument") is True
    assert visitor.page.evaluate("document.body.dataset.poll") == ""


def test_drawings_that_show_the_same_stay_when_the_rest_changes(
    visitor: Visitor, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="live", methods=["frozen", "lora"])
    run_all(sessions, ordinary)
    visitor.sign_in("/studies/live")
    curves = visitor.page.locator("#table-0-curves")
    expect(curves.locator("svg.marks")).to_be_visible()
    curves.evaluate("chart => { chart.kept = true; }")
    more = StudyExtension.model_validate({"seeds": 4})
    with sessions.begin() as session:
        studies.extend(session, admin, "live", more, Rules())
    visitor.page.evaluate(
        "document.body.dataset.poll = '4'; document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(visitor.page.locator("#table-0-scores")).to_contain_text("Scores are missing")
    expect(curves.locator("svg.marks")).to_be_visible()
    assert curves.evaluate("chart => chart.kept") is True


def test_jobs_are_ticked_in_the_list_and_compared(
    visitor: Visitor, sessions: Sessions, admin: Principal
) -> None:
    name = "a-study-whose-name-is-wider-than-its-column-in-a-narrow-window"
    a_study(sessions, admin, name=name, methods=["frozen", "lora", "prefix_tuning"])
    run_all(sessions, ordinary)
    visitor.sign_in("/?method=lora")
    expect(visitor.page.locator('input[name="job"]')).to_have_count(2)
    look_like(visitor.page, NARROW, "light")
    link = visitor.page.get_by_role("link", name=name).first
    assert link.evaluate("link => link.scrollWidth <= link.clientWidth"), "it is not cut there"
    look_like(visitor.page, WIDE, "light")
    visitor.page.get_by_label("all on this page").check()
    visitor.page.get_by_label("Label for the selected jobs").fill("not = sent")
    visitor.page.get_by_role("button", name="Compare", exact=True).click()
    visitor.page.wait_for_url("**/compare?job=*&job=*")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Compare jobs")
    expect(visitor.page.locator(".scores tbody tr")).to_have_count(2)


def test_a_tick_outlives_a_refresh_of_the_list(
    visitor: Visitor, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="live", methods=["frozen", "lora"])
    visitor.sign_in("/?method=lora")
    box = visitor.page.locator('input[name="job"]').first
    box.check()
    run_all(sessions, ordinary)
    expect(visitor.page.locator("table.jobs tbody tr").first).to_contain_text("succeeded")
    expect(box).to_be_checked()


def test_a_study_is_cancelled_after_a_question(
    visitor: Visitor, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="live")
    visitor.sign_in("/studies/live")
    visitor.agree()
    visitor.page.get_by_role("button", name="Cancel study").click()
    expect(visitor.page.locator(".job-head .state")).to_have_text("cancelled")
