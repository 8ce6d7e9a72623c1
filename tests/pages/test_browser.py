"""The pages in a real browser, against a real server."""

import re

import pytest
from playwright.sync_api import APIResponse, Route, expect
from tests.pages.made_up import ADAPTATION, PRETRAINING, MadeUpWorker, some_jobs
from tests.pages.visitors import HOSTILE, ONCE_OR_MORE, Visitor, in_every_window
from tests.watching import until

from adaptlab_services.lifecycle.held_leases import Claim

pytestmark = [pytest.mark.browser, pytest.mark.long("browser walks")]
CUT = """
[...document.querySelectorAll(".scroll")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .filter((box) => box.tabIndex < 0 || box.querySelector(".stacks")
    || !(box.ariaLabel || document.getElementById(box.getAttribute("aria-labelledby"))))
  .map((box) => box.outerHTML.slice(0, 200))
"""
"""What is cut off though it could be stacked, or that the keyboard cannot scroll by its name."""

HEADS = """
window.heads = [];
new MutationObserver(() => window.heads.push(document.getElementById("head").innerText))
  .observe(document.body, { childList: true, subtree: true, characterData: true });
"""
"""Keeps every head of the page that is shown from now on, also one that the next takes back."""


def open_a_run(visitor: Visitor, worker: MadeUpWorker) -> Claim:
    """Look at the page of a job that a worker has begun."""
    job = worker.submit(PRETRAINING)
    claim = worker.claim()
    visitor.sign_in()
    visitor.open_job(job)
    return claim


def test_signing_in_leads_where_one_wanted_to_go_and_out_again(visitor: Visitor):
    visitor.sign_in("/base-models")
    expect(visitor.page.get_by_role("heading", name="Base models", exact=True)).to_be_visible()
    cookie = next(c for c in visitor.page.context.cookies() if c.get("httpOnly"))
    assert cookie.get("sameSite") == "Lax"
    assert visitor.token not in str(visitor.page.context.cookies())
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.page.wait_for_url("**/login")
    visitor.page.goto(visitor.server + "/")
    assert "/login?next=" in visitor.page.url


def test_an_empty_server_tells_how_to_submit_the_first_job(visitor: Visitor):
    visitor.sign_in()
    expect(visitor.page.get_by_text("No jobs yet")).to_be_visible()
    expect(visitor.page.locator("pre")).to_contain_text(f"curl {visitor.server}/v1/jobs")


def test_the_list_shows_every_state_and_filters(visitor: Visitor, worker: MadeUpWorker):
    some_jobs(worker)
    visitor.sign_in()
    rows = visitor.page.locator("table.jobs tbody tr")
    expect(rows).to_have_count(7)
    expect(rows.filter(has_text="Full fine-tuning")).to_contain_text("94.6")
    expect(visitor.page.get_by_text("No live worker serves the queue “gpu”")).to_be_visible()
    visitor.page.get_by_label("State").select_option("failed")
    visitor.page.wait_for_url("**state=failed**")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Soft prompt")


def test_a_row_of_the_list_follows_its_job_without_reloading(
    visitor: Visitor, worker: MadeUpWorker
):
    worker.submit(PRETRAINING)
    visitor.sign_in()
    row = visitor.page.locator("table.jobs tbody tr").first
    expect(row).to_contain_text("queued")
    visitor.page.evaluate("window.sameDocument = true")
    claim = worker.claim()
    worker.train(claim, 300)
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("30")
    assert visitor.page.evaluate("window.sameDocument") is True


def test_a_job_is_watched_to_its_end_without_reloading(visitor: Visitor, worker: MadeUpWorker):
    worker.complete(PRETRAINING, 0.99)
    job = worker.submit(ADAPTATION)
    claim = worker.claim()
    worker.train(claim, 300)
    visitor.sign_in()
    visitor.open_job(job)
    visitor.page.evaluate("window.sameDocument = true")
    curves = visitor.page.locator("#curves-chart")
    expect(curves.locator("svg").first).to_be_visible()
    expect(curves).to_have_attribute("data-drawn", ONCE_OR_MORE)
    drawn = curves.get_attribute("data-drawn") or ""
    worker.train(claim, 1000, start=300)
    expect(visitor.page.get_by_text(re.compile("step 1.000 of 1.000"))).to_be_visible()
    expect(curves).not_to_have_attribute("data-drawn", drawn)
    worker.score(claim, 0.6, 0.01)
    worker.attend(claim, learned=2)
    worker.finish(claim)
    expect(visitor.page.locator(".job-head .state")).to_have_text("succeeded")
    expect(visitor.page.locator("#scores")).to_contain_text("95 % interval")
    expect(visitor.page.locator("#attention-chart svg").first).to_be_visible()
    assert visitor.page.evaluate("window.sameDocument") is True
    assert visitor.page.evaluate("document.body.dataset.poll") == ""


def test_attention_is_chosen_by_layer_and_head(visitor: Visitor, worker: MadeUpWorker):
    worker.complete(PRETRAINING, 0.99)
    job = worker.complete(ADAPTATION, 0.6, 0.01, learned=2)
    visitor.sign_in()
    visitor.open_job(job)
    chart = visitor.page.locator("#attention-chart")
    expect(chart).to_contain_text("after, content only")
    expect(chart).to_contain_text("p2")
    expect(chart).to_have_attribute("data-drawn", "1")
    before = chart.inner_html()
    visitor.page.locator('select[name="layer"]').select_option("1")
    expect(chart).to_have_attribute("data-drawn", "2")
    assert chart.inner_html() != before
    expect(visitor.page.locator("#attention tbody tr").first).to_contain_text("3.1×10⁻⁸")


def test_a_job_shows_what_was_retained(visitor: Visitor, worker: MadeUpWorker):
    base = worker.complete(PRETRAINING, 0.99)
    job = worker.complete(ADAPTATION, 0.6, 0.95)
    visitor.sign_in()
    visitor.open_job(job)
    own, learned = visitor.page.locator("#retention tbody tr").all()
    # Seeds 0, 1 and 2: 991, 989, 987 of 1000 before and 600, 593, 586 after, and the other task
    # 2, 0, 0 before and 950, 943, 936 after.
    expect(own).to_contain_text("sort ascending pretraining task")
    for text in (
        "98.9\xa0%",
        "59.3\xa0%",
        "\N{MINUS SIGN}39.6",
        "\N{MINUS SIGN}40.1 to \N{MINUS SIGN}39.1",
    ):
        expect(own).to_contain_text(text)
    for text in ("sort descending", "0.1\xa0%", "94.3\xa0%", "+94.2", "+93.6 to +94.8"):
        expect(learned).to_contain_text(text)
    expect(own.locator("td").last).to_contain_text("59.")
    expect(learned).to_contain_text("new task")
    # Elsewhere on the page are scores of the adapted model alone, those of its own task first.
    expect(visitor.page.locator(".facts")).to_contain_text("94.3")
    expect(visitor.page.locator("#scores tbody tr").first).to_have_text("095.0\xa0%60.0\xa0%")
    visitor.open_job(base)
    expect(visitor.page.locator("#retention")).to_have_count(0)


def test_a_failed_job_says_why(visitor: Visitor, worker: MadeUpWorker):
    job = some_jobs(worker)["failed"]
    visitor.sign_in()
    visitor.open_job(job)
    notice = visitor.page.locator(".notice.bad")
    expect(notice).to_contain_text("Diverged")
    expect(notice).to_contain_text("not finite by step 120")


def test_what_is_pressed_stays_until_it_is_let_go(visitor: Visitor, worker: MadeUpWorker):
    page, claim = visitor.page, open_a_run(visitor, worker)
    visitor.agree()
    box = page.get_by_role("button", name="Cancel job").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    with page.expect_response(page.url) as told:
        worker.train(claim, 500)  # the page hears of it, and asks
    told.value.finished()
    page.evaluate("fetch(location.href).then((answer) => answer.text())")  # after that answer
    expect(page.locator("#head")).to_contain_text("step 0")
    page.mouse.up()
    expect(page.locator("#head")).to_contain_text("cancelling")
    expect(page.locator("#head")).to_contain_text("step 500")


def test_an_older_answer_does_not_replace_a_newer_one(visitor: Visitor, worker: MadeUpWorker):
    page, claim = visitor.page, open_a_run(visitor, worker)
    held: list[Route] = []
    late: list[APIResponse] = []

    def hold_the_first(route: Route) -> None:
        held.append(route)
        if route is held[0]:
            late.append(route.fetch())  # others come meanwhile
        else:
            route.continue_()

    page.route(page.url, hold_the_first)
    with page.expect_request(page.url):
        worker.train(claim, 500)
    expect(page.locator("#head")).to_contain_text("step 0")
    # Handlers run while the page is asked something.
    until(lambda: bool(page.evaluate("1") and late), "answer to the first request")
    worker.train(claim, 700, start=500)
    expect(page.locator("#head")).to_contain_text("step 700")
    first, (answer,) = held[0], late
    assert "step 700" not in answer.text()
    page.evaluate(HEADS)
    with page.expect_event("requestfinished", lambda request: request == first.request):
        first.fulfill(response=answer)
    page.evaluate("fetch(location.href).then((answer) => answer.text())")  # after that answer
    assert all("step 700" in head for head in page.evaluate("window.heads"))


def test_a_button_keeps_the_focus_when_the_page_is_refreshed(
    visitor: Visitor, worker: MadeUpWorker
):
    page, claim = visitor.page, open_a_run(visitor, worker)
    cancel = page.get_by_role("button", name="Cancel job")
    cancel.focus()
    worker.train(claim, 500)
    expect(page.locator("#head")).to_contain_text("step 500")
    expect(cancel).to_be_focused()


def test_hostile_text_is_inert_and_nothing_overflows(visitor: Visitor, worker: MadeUpWorker):
    worker.complete(PRETRAINING, 0.99)
    labels = {"note": HOSTILE, "long": "W" * 256}
    job = worker.submit(ADAPTATION, labels=labels)
    worker.fail(worker.claim(), f"{HOSTILE}\n{'x' * 10_000}")
    visitor.sign_in()
    lists = ("/", "/base-models", "/workers", "/methods", "/?task=%3Cscript%3E")
    for path in (*lists, f"/jobs/{job.id}", "/base-models/sort-asc-1l"):
        visitor.page.goto(visitor.server + path)
        for viewport in in_every_window(visitor.page):
            width = visitor.page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], path
            assert visitor.page.evaluate(CUT) == [], path
        assert visitor.page.title() != "owned"
        assert visitor.page.locator("script:not([src])").count() == 0
    visitor.open_job(job)
    expect(visitor.page.locator(".notice.bad pre")).to_contain_text("<script>document.title")
    expect(visitor.page.locator(".label").filter(has_text="<script>")).to_be_visible()


def test_the_keyboard_is_enough(visitor: Visitor, worker: MadeUpWorker):
    worker.complete(PRETRAINING, 0.99)
    visitor.sign_in_by_keyboard()
    visitor.page.keyboard.press("Tab")
    expect(visitor.page.locator(":focus")).to_have_text("Skip to content")
    for _ in range(
        45
    ):  # help, filters, buttons for selected jobs, and columns to sort by come first
        visitor.page.keyboard.press("Tab")
        if "Pretraining" in visitor.page.locator(":focus").inner_text():
            break
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**/jobs/*")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Pretraining sort-asc-1l")
