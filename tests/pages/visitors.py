"""Visitors of the pages in a browser, their windows, and their faults."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    ViewportSize,
    expect,
)

from adaptlab_answers.jobs import JobView

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)> \u202eRTL 😀"
HOSTILE_LABEL = HOSTILE.replace("\u202e", "")
"""What a label of a method may still be: no control characters."""
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 400, "height": 800}
PATIENCE = 60_000
"""Milliseconds until a condition is given up, on however loaded a machine."""
DRAWN = '.chart:not([id$="-attention"])'
"""Charts of made-up studies that can be drawn; their attention has no readable file."""
ONCE_OR_MORE = re.compile(r"[1-9]\d*")
"""What `data-drawn` of a chart is when a drawing is done: its text is there some time before."""


@dataclass
class Visitor:
    """A person at a browser, and everything that went wrong behind their back.

    Attributes:
        expected: parts of faults that belong to the test, as `status of 422`. The console may tell
            of them long after the page has shown it, so they are known by their text, never by when
            they came.
    """

    page: Page
    server: str
    token: str
    faults: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def sign_in(self, path: str = "/") -> None:
        self.page.goto(self.server + path)
        self.page.get_by_label("Access token").fill(self.token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(self.server + path)

    def sign_in_by_keyboard(self, path: str = "/") -> None:
        """Type the token into the focused field, which has focus after the load."""
        self.page.goto(self.server + path)
        expect(self.page.get_by_label("Access token")).to_be_focused()
        self.page.keyboard.type(self.token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(self.server + path)

    def open_job(self, job: JobView) -> None:
        self.page.goto(f"{self.server}/jobs/{job.id}")

    def agree(self) -> None:
        """Say yes to every question from now on."""
        self.page.remove_listener("dialog", self.note_dialog)
        self.page.on("dialog", lambda dialog: dialog.accept())

    def note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text}")

    def note_dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def note_request(self, request: Request) -> None:
        if not request.url.startswith(self.server):
            self.faults.append(f"request to another site: {request.url}")


Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
OPPOSITES: tuple[tuple[ViewportSize, Scheme], ...] = ((WIDE, "light"), (NARROW, "dark"))
"""Both widths and both schemes, for what does not depend on how they go together."""


def unfold(page: Page, title: str) -> None:
    """Open a folded part of a form."""
    page.locator("details.folded > summary", has_text=re.compile(rf"^\s*{title}")).click()


def look_like(page: Page, viewport: ViewportSize, scheme: Scheme) -> None:
    """Have the page in a window of this size, by day or by night."""
    page.set_viewport_size(viewport)
    page.emulate_media(color_scheme=scheme)


def in_every_window(page: Page) -> Iterator[ViewportSize]:
    """Show the page in both widths, by day and by night, in turn."""
    for viewport, scheme in product((WIDE, NARROW), SCHEMES):
        look_like(page, viewport, scheme)
        yield viewport


def overflows_nowhere(page: Page) -> None:
    """Check that the page, as it is now, is as wide as each window."""
    for viewport in in_every_window(page):
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= viewport["width"], (page.url, viewport)


def unfold_all(visitor: Visitor) -> None:
    """Open everything that is folded."""
    visitor.page.evaluate("document.querySelectorAll('.fold').forEach(one => { one.open = true; })")


def draw_everything(visitor: Visitor) -> None:
    """Charts are drawn when somebody comes near them."""
    unfold_all(visitor)
    for chart in visitor.page.locator(DRAWN).all():
        chart.scroll_into_view_if_needed()
        expect(chart).to_have_attribute("data-drawn", ONCE_OR_MORE)
        expect(chart.locator(".note")).to_have_count(0)


@contextmanager
def a_visitor(browser: Browser, server: str, token: str) -> Iterator[Visitor]:
    """A person at a wide window, with no hidden errors at the end."""
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    made = Visitor(page, server, token)
    page.on("console", made.note_console)
    page.on("pageerror", lambda error: made.faults.append(f"script error: {error}"))
    page.on("request", made.note_request)
    page.on("dialog", made.note_dialog)
    yield made
    context.close()
    faults = [one for one in made.faults if not any(part in one for part in made.expected)]
    assert not faults, faults
