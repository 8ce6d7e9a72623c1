"""Two walks to a verdict in a browser, as a film in pictures.

Of the demo, and of a file that is dropped on a page. `make pictures` walks at full size, with a
published model and published sentences, and writes the pictures of the documents. In the suite both
are short, and what counts is that a person gets to the end.
"""

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Locator, Page, expect
from tests.folders import a_sentence_encoder
from tests.pages.visitors import Visitor, a_visitor
from tests.texts import a_word_piece_tokeniser, reviews

from adaptlab_client import Client
from adaptlab_stack import demo_study, text_demo
from adaptlab_stack.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3600), pytest.mark.long("browser walks")]

MOST_BYTES = 150_000
COLOURS = 256
HOUR = 3_600_000  # ms
NAMES_OF_JOBS = re.compile(r"/jobs/[0-9a-f-]{36}$")
DROP = """([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name, { type: "text/csv" }));
    const form = document.querySelector("form[data-drop]");
    for (const kind of ["dragover", "drop"]) {
        const options = { dataTransfer: data, bubbles: true, cancelable: true };
        form.dispatchEvent(new DragEvent(kind, options));
    }
}"""
"""Drops a file on the page's form, which no browser lets a script do otherwise."""


@dataclass(frozen=True)
class Film:
    """A visitor, and the folder of the pictures of their way."""

    visitor: Visitor
    folder: Path
    is_real: bool

    @property
    def page(self) -> Page:
        return self.visitor.page

    def take(self, name: str, last: Locator | None = None) -> None:
        """Write a picture of the window, or of the page to the end of a part."""
        if last is None:
            shot = self.page.screenshot(animations="disabled")
        else:
            box, size = last.bounding_box(), self.page.viewport_size
            assert box is not None
            assert size is not None
            end = box["y"] + box["height"] + 12
            clip = FloatRect(x=0, y=0, width=size["width"], height=end)
            shot = self.page.screenshot(full_page=True, clip=clip, animations="disabled")
        file = self.folder / f"{name}.png"
        Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS).save(file, optimize=True)
        assert file.stat().st_size < MOST_BYTES


@pytest.fixture
def film(
    browser: Browser, stack: Stack, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Film]:
    """A person at the server, with pictures in the folder of `--pictures`."""
    folder: str | None = request.config.getoption("--pictures")
    with a_visitor(browser, stack.url, stack.token) as visitor:
        yield Film(visitor, Path(folder) if folder else tmp_path, bool(folder))


def shorter(study: Any) -> Any:
    """The demo's study, trained for a moment by two seeds."""
    short = deepcopy(dict(study))
    training = {"steps": 4, "batch_size": 8}
    short["base_models"][0] |= {"training": training, "seeds": 2}
    return short | {"training": training, "seeds": 2, "controls": []}


def test_the_demo_ends_in_its_verdict(film: Film, client: Client) -> None:
    spec = demo_study.SPEC
    demo_study.begin(client, spec if film.is_real else shorter(spec))
    page = film.page
    film.visitor.sign_in(f"/studies/{demo_study.NAME}")
    succeeds(page)
    expect(page.locator("#verdicts .answer strong").first).to_contain_text("1,152")
    expect(page.locator("#verdicts table.report tbody tr")).to_have_count(5)
    if film.is_real:
        expect(page.locator("#verdicts")).to_contain_text("LoRA")
        expect(page.locator(".small-maps img")).to_have_count(3)
        loaded(page)
    film.take("study", page.locator("#verdicts"))


def succeeds(page: Page) -> None:
    """Wait for the end of a job or study."""
    state = page.locator(".job-head .state")
    expect(state).to_have_text(re.compile("succeeded|failed|cancelled"), timeout=HOUR)
    expect(state).to_have_text("succeeded")


def loaded(page: Page) -> None:
    """Wait until all pictures in the page have come."""
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_load_state("networkidle")


@pytest.fixture
def sentences(film: Film, model_root: Path, tmp_path: Path) -> str:
    """The text of a file with semicolons; its model is in a root."""
    if film.is_real:
        models, records = text_demo.prepared(tmp_path / "demo")
        shutil.copytree(models / text_demo.BASE, model_root / "encoder")
        with records.open(newline="") as file:
            rows = [(row["text"], row["label"]) for row in csv.DictReader(file)][::3]
    else:
        rows = [(row["text"], row["label"]) for row in reviews(400)]
        folder = a_sentence_encoder(model_root / "encoder", vocabulary=300)
        (folder / "tokenizer.json").write_bytes(a_word_piece_tokeniser([text for text, _ in rows]))
    written = io.StringIO()
    csv.writer(written, delimiter=";").writerows([("sentence", "opinion"), *rows])
    return written.getvalue()


def test_a_file_that_is_dropped_ends_in_a_verdict(film: Film, sentences: str) -> None:
    """Nothing is done outside the browser."""
    import_the_model(film)
    page = film.page
    page.goto(f"{film.visitor.server}/datasets")
    page.evaluate(DROP, ["opinions.csv", sentences])
    expect(page.locator("h1")).to_have_text("opinions.csv")
    expect(page.locator("main")).to_contain_text("read as CSV with semicolons")
    film.take("film-1-file", page.locator("#fields"))
    page.get_by_role("button", name="Create the dataset and start a study").click()
    choose(film)
    page.get_by_role("button", name="Create study").click()
    expect(page.locator("h1")).to_have_text("opinions")
    succeeds(page)
    expect(page.locator("#verdicts .answer strong").first).to_contain_text("trained parameters")
    expect(page.locator("#verdicts table.report tbody tr")).to_have_count(4)
    loaded(page)
    film.take("film-3-verdict", page.locator("#verdicts"))


def import_the_model(film: Film) -> None:
    page = film.page
    film.visitor.sign_in("/jobs/new?kind=import")
    page.locator('[name="/name"]').fill("encoder")
    page.locator('[name="/folder"]').fill("models/encoder")
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(NAMES_OF_JOBS)
    succeeds(page)


def choose(film: Film) -> None:
    """Fill in the form of the study: a head, four methods, few steps."""
    page = film.page
    budget, longest, steps = (14600, 80, 40) if film.is_real else (200, 30, 10)
    page.get_by_label("Name", exact=True).fill("opinions")
    for base in page.locator('[name="/base_models"]').all():
        base.set_checked(base.get_attribute("value") == "encoder")
    page.get_by_label("Score").select_option("head")
    page.get_by_label("Label", exact=True).fill('{"field": "opinion"}')
    page.get_by_label("Tokens", exact=True).fill(json.dumps({"longest": longest}))
    for method, is_in in (
        ("Head only", True),
        ("IA3", True),
        ("Soft prompt", False),
    ):
        page.get_by_label(method, exact=True).set_checked(is_in)
    page.get_by_label("Budgets", exact=True).fill(f"{budget}")
    training = page.locator("details", has=page.get_by_label("Steps"))
    training.last.evaluate("folded => { folded.open = true; }")
    page.get_by_label("Steps").fill(f"{steps}")
    page.get_by_label("Batch size").fill("8")
    expect(page.locator("#told")).to_contain_text("4 jobs, 4 of them new")
    page.evaluate("window.scrollTo(0, 0)")
    film.take("film-2-plan")
