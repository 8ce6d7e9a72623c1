"""Going back to a form keeps its input, with scripts and without."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.pages.made_up import MadeUpWorker
from tests.pages.visitors import PATIENCE, WIDE, Visitor, unfold

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.long("browser walks")]
BUDGET = "Trainable parameters"


@pytest.fixture
def plain(browser: Browser, server: str, token: str, base: None) -> Iterator[Page]:
    """The page of a signed-in user, in a browser without scripts."""
    context = browser.new_context(viewport=WIDE, java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    Visitor(page, server, token).sign_in("/jobs/new")
    yield page
    context.close()


def a_job_is_shown(page: Page) -> None:
    page.wait_for_url(lambda url: "/jobs/" in url and "/new" not in url)


def test_a_job_that_was_submitted_can_be_gone_back_from(
    visitor: Visitor, base: None, worker: MadeUpWorker
) -> None:
    page = visitor.page
    visitor.sign_in("/jobs/new")
    page.get_by_label("Method", exact=True).select_option("soft_prompt")
    length = page.locator("#knobs-method").get_by_label("Length")
    length.fill("2")
    page.get_by_label(BUDGET, exact=True).fill("")
    unfold(page, "Training")
    page.get_by_label("Steps").fill("7")
    expect(page.locator("#told")).to_contain_text("length 2")
    page.get_by_label("Steps").fill("9")  # and at once:
    page.get_by_role("button", name="Submit job").click()
    a_job_is_shown(page)
    page.go_back()
    expect(length).to_have_value("2")
    expect(page.get_by_label("Steps")).to_have_value("9")
    expect(page.get_by_label("Method", exact=True)).to_have_value("soft_prompt")
    expect(page.locator("#told")).to_contain_text("length 2")
    page.reload()
    expect(length).to_have_value("2")
    page.goto(visitor.server + "/")
    page.get_by_role("link", name="New job").click()  # opened anew, it is a fresh one
    expect(page.locator("form[data-preview]:not([inert])")).to_be_visible()
    expect(page.get_by_label("Method", exact=True)).to_have_value("lora")


def a_study_with_a_fault(visitor: Visitor, name: str) -> Page:
    """The form of a study whose number of trials is none, not sent yet."""
    visitor.sign_in("/studies/new")
    visitor.expected.append("status of 422")
    visitor.page.get_by_label("Name").fill(name)
    unfold(visitor.page, "Training")
    visitor.page.get_by_label("Trials").fill("x")
    return visitor.page


def test_a_study_that_was_refused_and_made_can_be_gone_back_from(
    visitor: Visitor, base: None, worker: MadeUpWorker
) -> None:
    page = a_study_with_a_fault(visitor, "back")
    with page.expect_response("**/studies/new") as refused:
        page.get_by_role("button", name="Create study").click()
    assert refused.value.status == 422
    # Not the page that was sent, in which a preview may say the same beside the field.
    expect(page.locator("form[data-address]")).to_be_visible()
    page.get_by_label("Trials").fill("2")
    page.get_by_label("IA3").check()
    expect(page.locator("#told")).to_contain_text("of them new")
    page.get_by_role("button", name="Create study").click()
    page.wait_for_url("**/studies/back")
    page.go_back()
    expect(page.get_by_label("Name")).to_have_value("back")
    expect(page.get_by_label("Trials")).to_have_value("2")
    expect(page.get_by_label("IA3")).to_be_checked()


def test_what_is_typed_into_a_refused_form_before_its_script_is_there_is_answered(
    visitor: Visitor, base: None, worker: MadeUpWorker
) -> None:
    page = a_study_with_a_fault(visitor, "late")
    held: list[Route] = []
    page.route("**/submit.js*", lambda route: held.append(route))
    with page.expect_request("**/submit.js*"):
        page.get_by_role("button", name="Create study").click(no_wait_after=True)
    expect(page.locator("form[data-address]")).to_be_attached()
    page.get_by_label("Trials").fill("2")
    expect(page.locator("#told")).not_to_contain_text("of them new")
    (route,) = held
    route.continue_()
    expect(page.locator("#told")).to_contain_text("of them new")


def test_without_scripts_the_browser_keeps_what_was_typed(
    plain: Page, worker: MadeUpWorker
) -> None:
    plain.get_by_label(BUDGET, exact=True).fill("64")
    unfold(plain, "Training")
    plain.get_by_label("Steps").fill("7")
    plain.get_by_role("button", name="Submit job").click()
    a_job_is_shown(plain)
    plain.go_back()
    expect(plain.get_by_label("Steps")).to_have_value("7")
    expect(plain.get_by_label(BUDGET, exact=True)).to_have_value("64")
