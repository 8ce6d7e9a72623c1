"""The dashboard on a real server with a real worker, end to end.

Each test makes what it needs, or takes the base model and the adaptation that are made once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.pages.visitors import ONCE_OR_MORE, PATIENCE, Visitor, a_visitor

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900), pytest.mark.long("browser walks")]

TASK = {"length": 4, "alphabet": 4, "few_distinct": False}
BASE = {
    "kind": "pretrain",
    "name": "watched",
    "family": {"name": "minigpt", "layers": 2, "heads": 2, "width": 16},
    "task": {"name": "sort_ascending", **TASK},
    "training": {"steps": 60, "batch_size": 16},
    "seeds": 2,
    "evaluation": {"samples": 40},
}
ADAPTATION = {
    "kind": "adapt",
    "base_model": "watched",
    "task": {"name": "sort_descending", **TASK},
    "training": {"steps": 40, "batch_size": 16},
    "seeds": 2,
    "evaluation": {"samples": 40},
    "capture": {"attention": {"samples": 2}},
}


@dataclass(frozen=True)
class Dashboard:
    """A running stack, with the id of a trained prefix."""

    url: str
    token: str
    prefix: str


@pytest.fixture(scope="module")
def dashboard(stack: Stack, client: Client) -> Dashboard:
    """A server and a worker, with one base model and an adaptation."""
    client.jobs.submit(BASE)
    prefix = client.jobs.submit({**ADAPTATION, "method": {"name": "prefix_tuning", "length": 2}})
    assert client.jobs.wait(prefix.id, timeout=300).state == "succeeded"
    return Dashboard(stack.url, stack.token, str(prefix.id))


@pytest.fixture
def person(browser: Browser, dashboard: Dashboard) -> Iterator[Visitor]:
    """A person at a wide window, with no hidden errors at the end."""
    with a_visitor(browser, dashboard.url, dashboard.token) as made:
        yield made


def test_a_job_is_submitted_from_the_form_and_watched_to_its_end(person: Visitor) -> None:
    person.sign_in("/jobs/new?kind=pretrain")
    page = person.page
    page.locator('[name="/name"]').fill("from-the-form")
    page.locator('[name="/training/steps"]').fill("50")
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    page.evaluate("window.sameDocument = true")
    expect(page.locator(".job-head .state")).to_have_text("succeeded", timeout=5 * PATIENCE)
    expect(page.locator("#curves-chart svg.marks")).to_be_visible()
    expect(page.locator("#scores tbody tr").first).to_be_visible()
    expect(page.locator("#events")).to_contain_text("succeeded")
    assert page.evaluate("window.sameDocument") is True
    # Nor is there one if the job had ended before the browser came to its page.
    assert page.evaluate("document.body.dataset.stream ?? ''") == ""


def test_attention_is_opened_and_says_what_the_theory_says(
    person: Visitor, dashboard: Dashboard
) -> None:
    person.sign_in(f"/jobs/{dashboard.prefix}")
    page = person.page
    page.get_by_role("button", name="All heads, step by step").click()
    page.wait_for_url("**/attention?*")
    expect(page.locator("#guide")).to_contain_text(
        "which rounding explains: the pattern did not change"
    )
    expect(page.locator("#attention-heads canvas")).to_be_visible()
    for name in ("attention", "attention-difference", "attention-step"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        expect(page.locator(f"#{name} svg.marks")).to_be_visible()
        expect(page.locator(f"#{name}")).to_have_attribute("data-drawn", ONCE_OR_MORE)
    drawn = page.locator("#attention-step").get_attribute("data-drawn") or ""
    page.locator('#choice select[name="layer"]').select_option("1")
    expect(page.locator("#one-words")).to_contain_text("layer 1")
    expect(page.locator("#attention-step")).not_to_have_attribute("data-drawn", drawn)
    assert "layer=1" in page.url


def press_until(page: Page, key: str, focused: str, most: int = 60) -> None:
    """Press a key until what has the focus matches a selector."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("which => document.activeElement.matches(which)", focused):
            return
    raise AssertionError(f"{key} never leads to {focused}")


def test_the_keyboard_leads_from_signing_in_to_one_step_of_one_head(
    person: Visitor, dashboard: Dashboard
) -> None:
    page = person.page
    person.sign_in_by_keyboard("/?base_model=watched&method=prefix_tuning")
    press_until(page, "Tab", f'a[href="/jobs/{dashboard.prefix}"]')
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{dashboard.prefix}")
    press_until(page, "Tab", "form[data-selects] button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/attention?*")
    press_until(page, "Tab", 'input[type="range"]')
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step-words")).to_contain_text("Step 2 of 4")
    press_until(page, "Shift+Tab", 'select[name="head"]')
    page.keyboard.press("ArrowDown")
    expect(page.locator("#one-words")).to_contain_text("head 1")
    expect(page.locator("#step-words")).to_contain_text("Step 2 of 4")


def test_dark_mode_is_followed_by_the_page_and_its_charts(
    person: Visitor, dashboard: Dashboard
) -> None:
    person.sign_in(f"/jobs/{dashboard.prefix}/attention")
    page = person.page
    chart = page.locator("#attention-step")
    chart.scroll_into_view_if_needed()
    expect(chart.locator("svg.marks")).to_be_visible()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    # Ink on a light ground, paper on a dark one: the colours of the two palettes' text.
    expect(chart.locator('svg text[fill="#1f2328"]').first).to_be_visible()
    page.emulate_media(color_scheme="dark")
    expect(chart.locator('svg text[fill="#e6edf3"]').first).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
