"""The filter above the jobs: its matches, and errors at their place."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect
from tests.pages.made_up import PRETRAINING, MadeUpWorker, some_jobs
from tests.pages.visitors import NARROW, WIDE, Visitor

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

HERE = {"Sec-Fetch-Site": "same-origin"}
WRONG = 'method = "lora" AND metrics.acuracy.mean > 0.9'


@pytest.fixture
def signed_in(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody signed in, without a browser."""
    with TestClient(create_app(settings), follow_redirects=False) as client:
        client.post("/login", data={"token": token, "next": "/"}, headers=HERE)
        yield client


@pytest.mark.long("browser walks")
@pytest.mark.browser
def test_a_filter_narrows_the_list_down(visitor: Visitor, worker: MadeUpWorker):
    some_jobs(worker)
    visitor.sign_in()
    rows = visitor.page.locator("table.jobs tbody tr")
    bar = visitor.page.get_by_role("searchbox", name="Filter")
    bar.fill("metrics.accuracy.mean > 0.9 AND kind = adapt")
    bar.press("Enter")
    visitor.page.wait_for_url("**filter=**")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Full fine-tuning")
    expect(bar).to_have_value("metrics.accuracy.mean > 0.9 AND kind = adapt")
    visitor.page.get_by_text("Fields that a filter can use").click()
    expect(visitor.page.get_by_text("metrics.<name>.<statistic>")).to_be_visible()
    visitor.page.get_by_label("State").select_option("failed")
    expect(visitor.page.get_by_text("No matching jobs")).to_be_visible()


@pytest.mark.long("browser walks")
@pytest.mark.browser
@pytest.mark.parametrize("window", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_mistake_is_marked_where_it_is(
    visitor: Visitor, worker: MadeUpWorker, window: dict[str, int]
):
    some_jobs(worker)
    visitor.page.set_viewport_size({"width": window["width"], "height": window["height"]})
    visitor.sign_in()
    visitor.expected.append("status of 400")
    bar = visitor.page.get_by_role("searchbox", name="Filter")
    bar.fill(WRONG)
    bar.press("Enter")
    fault = visitor.page.get_by_role("alert")
    expect(fault).to_contain_text("Did you mean metrics.accuracy.mean")
    expect(fault.locator("mark")).to_have_text("metrics.acuracy.mean")
    expect(bar).to_have_value(WRONG)
    expect(bar).to_have_attribute("aria-invalid", "true")
    wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not visitor.page.evaluate(wider)
    if folder := os.environ.get("ADAPTLAB_SCREENSHOTS"):
        visitor.page.screenshot(path=Path(folder) / f"filter-{window['width']}.png")


MISTAKES: list[Any] = [
    (WRONG, "<mark>metrics.acuracy.mean</mark>"),
    ("state = queued AND", "AND<mark> </mark>"),
    ("state = <script>", "state = <mark>&lt;</mark>script&gt;"),
    ('method = "lo', "method = <mark>&#34;lo</mark>"),
    ("x" * 4001, "<mark> </mark>"),
]


def test_every_mistake_is_a_page(signed_in: TestClient):
    for text, at in MISTAKES:
        answer = signed_in.get("/", params={"filter": text})
        assert answer.status_code == 400
        assert at in answer.text
        assert "This filter is not valid" in answer.text


def test_pages_keep_the_filter(signed_in: TestClient, worker: MadeUpWorker):
    for number in range(52):
        labels = {"team": "a b" if number else "c"}
        worker.submit(PRETRAINING, name=f"m-{number}", labels=labels)
    page = signed_in.get("/", params={"filter": 'labels.team = "a b"', "state": "queued"})
    assert page.text.count("<tr>") == 51
    assert "filter=labels.team" in page.text
    following = page.text.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
    second = signed_in.get(following.replace("&amp;", "&"))
    assert second.text.count("<tr>") == 2
