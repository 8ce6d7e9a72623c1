"""The submitting forms in a browser: live answers, keyboard, scripts."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model
from tests.pages.made_up import MadeUpWorker
from tests.pages.visitors import (
    HOSTILE,
    PATIENCE,
    WIDE,
    Visitor,
    a_visitor,
    overflows_nowhere,
    unfold,
)

from adaptlab_services.people import tokens

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.long("browser walks")]
Sessions = sessionmaker[Session]
BUDGET = "Trainable parameters"
MOST_TABS = 80


@pytest.fixture
def at_form(visitor: Visitor, base: None) -> Visitor:
    """A visitor who has signed in, where there is a base model."""
    visitor.sign_in("/jobs/new")
    return visitor


@pytest.fixture
def api(server: str, token: str) -> Iterator[httpx.Client]:
    """The admin as a program."""
    with httpx.Client(
        base_url=server, headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as client:
        yield client


def budget_of(page: Page):
    return page.get_by_label(BUDGET, exact=True)


@pytest.fixture(scope="module")
def busy_server(shared_server: str, shared_sessions: Sessions, shared_token: str) -> str:
    """The module's server with a base model and a worker.

    For tests that submit nothing.
    """
    with shared_sessions.begin() as session:
        a_base_model(session)
        admin = tokens.authenticate(session, shared_token)
    MadeUpWorker(shared_sessions, admin).come("cpu")
    return shared_server


@pytest.fixture
def at_shared_form(browser: Browser, busy_server: str, shared_token: str) -> Iterator[Visitor]:
    """A visitor who has signed in there."""
    with a_visitor(browser, busy_server, shared_token) as visitor:
        visitor.sign_in("/jobs/new")
        yield visitor


def test_the_solver_answers_as_one_types(at_shared_form: Visitor) -> None:
    page = at_shared_form.page
    answer, told = page.locator("#answer"), page.locator("#told")
    # LoRA on q and v of one layer of width 8: 32 a rank.
    budget_of(page).fill("100")
    expect(told).to_contain_text("96 trainable parameters, rank 3")
    expect(answer).to_contain_text("of 100, 4 unused")
    answer.get_by_role("button", name="Use 128").click()
    expect(budget_of(page)).to_have_value("128")
    expect(told).to_contain_text("rank 4")
    page.get_by_label("Method", exact=True).select_option("soft_prompt")
    expect(page.locator("#knobs-method").get_by_label("Length")).to_be_visible()
    expect(told).to_contain_text("length 16")  # 8 a position
    expect(page.get_by_label("Method", exact=True)).to_have_value("soft_prompt")


def test_a_budget_that_is_too_small_is_marked_and_the_smallest_offered(
    at_shared_form: Visitor,
) -> None:
    page, told = at_shared_form.page, at_shared_form.page.locator("#told")
    budget_of(page).fill("3")
    expect(budget_of(page)).to_have_attribute("aria-invalid", "true")
    beside = page.locator("#fault-at-budget-trainable_parameters")
    expect(beside).to_contain_text("smallest configuration has 32 parameters")
    beside.get_by_role("button", name="Use 32").click()
    expect(budget_of(page)).to_have_value("32")
    expect(budget_of(page)).to_be_focused()
    expect(told).to_contain_text("rank 1")
    expect(budget_of(page)).not_to_have_attribute("aria-invalid", "true")


def test_the_json_follows_and_is_what_is_made(
    at_form: Visitor, worker: MadeUpWorker, api: httpx.Client
) -> None:
    page = at_form.page
    unfold(page, "Training")
    page.get_by_label("Steps").fill("7")
    page.locator("summary", has_text="JSON").last.click()
    expect(page.locator("#text-json")).to_contain_text('"steps": 7')
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(lambda url: "/jobs/" in url and not url.endswith("/new"))
    job = api.get(f"/v1/jobs/{page.url.rpartition('/')[2]}").json()
    assert job["spec"]["training"]["steps"] == 7
    page.get_by_role("link", name="copy to a new job").click()
    expect(page.get_by_label("Steps")).to_have_value("7")


def test_a_double_click_makes_one_job(
    at_form: Visitor, worker: MadeUpWorker, api: httpx.Client
) -> None:
    page = at_form.page
    before = len(api.get("/v1/jobs").json()["data"])
    page.get_by_role("button", name="Submit job").dblclick(no_wait_after=True)
    # Not wait_for_url, which takes it ill that the second click ends what the first one began.
    expect(page).to_have_url(re.compile(r"/jobs/(?!new$)"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("LoRA")
    page.reload()
    assert len(api.get("/v1/jobs").json()["data"]) == before + 1


def test_the_keyboard_is_enough(at_form: Visitor, worker: MadeUpWorker) -> None:
    page = at_form.page
    page.goto(at_form.server + "/")
    press_until(page, "New job", "Enter")
    page.wait_for_url("**/jobs/new")  # and its scripts
    expect(page.get_by_role("heading", level=1)).to_have_text("New job")
    tab_to(page, "#at-budget-trainable_parameters")
    ring = page.locator(":focus").evaluate("element => getComputedStyle(element).outlineStyle")
    assert ring == "solid"
    page.keyboard.press("Control+A")
    page.keyboard.type("64")
    expect(page.locator("#told")).to_contain_text("64 trainable parameters, rank 2")
    page.keyboard.press("Enter")  # asks, and makes nothing
    expect(page.locator("form[data-state=answered]")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("New job")
    press_until(page, "Submit job", "Enter")
    page.wait_for_url(lambda url: "/jobs/" in url and not url.endswith("/new"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("LoRA on sort descending")


def press_until(page: Page, text: str, key: str) -> None:
    """Press Tab until an element of that text has the focus, then a key."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.locator(":focus").inner_text().strip() == text:
            page.keyboard.press(key)
            return
    pytest.fail(f"The keyboard does not lead to {text!r}.")


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus, visibly on the way."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        assert focused.evaluate("element => element.matches('[aria-hidden=true]')") is False
        if focused.evaluate("(element, selector) => element.matches(selector)", selector):
            return
    pytest.fail(f"The keyboard does not lead to {selector!r}.")


def test_a_study_is_made_from_the_form(
    at_form: Visitor, worker: MadeUpWorker, api: httpx.Client
) -> None:
    page, told = at_form.page, at_form.page.locator("#told")
    page.goto(at_form.server + "/studies")
    page.get_by_role("link", name="New study").click()
    page.get_by_label("Name").fill("by-hand")
    page.get_by_label("Budgets").fill("32, 64")
    page.get_by_label("Full fine-tuning").uncheck()
    expect(told).to_contain_text("5 jobs, 5 of them new")  # frozen, and two of LoRA and prefixes
    expect(page.locator("#answer")).to_contain_text("Equal effort")
    page.get_by_label("IA3").check()
    expect(told).to_contain_text("6 jobs")
    unfold(page, "Training")
    page.get_by_label("Trials").fill("x")
    expect(page.locator("#fault-at-tuning-trials")).to_contain_text("must be a whole number")
    page.get_by_label("Trials").fill("2")
    expect(told).to_contain_text("6 jobs")
    page.get_by_role("button", name="Create study").click()
    page.wait_for_url("**/studies/by-hand")
    expect(page.get_by_role("heading", level=1)).to_have_text("by-hand")
    assert api.get("/v1/studies/by-hand").json()["spec"]["tuning"] == {"trials": 2}


def test_without_scripts_everything_can_be_done(
    browser: Browser, server: str, token: str, base: None, worker: MadeUpWorker
) -> None:
    context = browser.new_context(viewport=WIDE, java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    visitor = Visitor(page, server, token)
    visitor.sign_in("/jobs/new")
    page.get_by_label("Method", exact=True).select_option("prefix_tuning")
    budget_of(page).fill("3")
    page.get_by_role("button", name="Preview", exact=True).click()
    page.wait_for_url("**/jobs/new/preview")
    expect(page.locator("#knobs-method").get_by_label("Side")).to_be_visible()
    # Keys and values come from one input row of width 8 in one layer.
    page.get_by_role("button", name="Use 8").first.click()
    expect(budget_of(page)).to_have_value("8")
    expect(page.locator("#told")).to_contain_text("8 trainable parameters, length 1")
    expect(page.locator("[data-copies]").first).to_be_hidden()
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(lambda url: "/jobs/" in url and "/new" not in url)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Prefix-tuning")
    page.goto(server + "/studies/new")
    page.get_by_label("Budgets").fill("16")
    page.get_by_label("Budgets").press("Enter")
    page.wait_for_url("**/studies/new/preview")
    expect(page.locator("#answer")).to_contain_text("Left out")
    page.get_by_label("Name").fill("no-scripts")
    page.get_by_role("button", name="Create study").click()
    page.wait_for_url("**/studies/no-scripts")
    context.close()


def test_nothing_overflows_and_every_field_has_its_label(at_form: Visitor) -> None:
    page = at_form.page
    kinds = [f"/jobs/new?kind={kind}" for kind in ("adapt", "pretrain", "import", "theory")]
    for path in (*kinds, "/studies/new", "/studies/new?recipe=petrov2024/table-1&preset=fair"):
        page.goto(at_form.server + path)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        overflows_nowhere(page)
        unlabelled = page.evaluate(
            "[...document.querySelectorAll('form.submitting :is(input, select, textarea)')]"
            ".filter((field) => field.type !== 'hidden' && !field.labels.length)"
            ".map((field) => field.name)"
        )
        assert unlabelled == [], path
        repeated = page.evaluate(
            "[...document.querySelectorAll('[id]')].map((one) => one.id)"
            ".filter((id, index, all) => all.indexOf(id) !== index)"
        )
        assert repeated == [], path
        assert page.locator("script:not([src]), [style]").count() == 0, path


def test_hostile_text_is_only_text(at_shared_form: Visitor) -> None:
    page = at_shared_form.page
    for part in ("Training", "Queue"):
        unfold(page, part)
    page.locator("summary", has_text="More queue options").click()
    for label in (BUDGET, "Steps", "Sites", "Labels", "Queue"):
        page.get_by_label(label, exact=True).fill(HOSTILE)
    expect(page.locator("#fault-at-training-steps")).to_contain_text("must be a whole number")
    expect(page.locator("#text-json")).to_contain_text("<script>document.title")
    assert page.title() != "owned"
    assert page.locator("script:not([src]), main img").count() == 0


def test_a_server_that_is_away_is_said_to_be(at_shared_form: Visitor) -> None:
    page = at_shared_form.page
    page.route("**/jobs/new/preview", lambda route: route.fulfill(status=200, body="<p></p>"))
    budget_of(page).fill("64")
    expect(page.locator("form[data-state=answered]")).to_be_visible()
    expect(budget_of(page)).to_have_value("64")  # what was typed is never lost
    page.unroute("**/jobs/new/preview")
    budget_of(page).fill("96")
    expect(page.locator("#told")).to_contain_text("rank 3")
