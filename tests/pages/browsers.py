"""The browser of a process of tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.pages.visitors import PATIENCE

BROWSERS = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
"""Debian's Chromium, without the parts for windows if installed.

Both have the same engine; the smaller one takes a quarter less processor time per test.
"""
# The sandbox needs rights that a container has not; the rest keeps the browser from phoning home.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without it, tests skip on a laptop and fail in CI."""
    path = next((path for path in BROWSERS if path.exists()), None)
    if path is None:
        missing = "Chromium is not installed; `apt-get install chromium-headless-shell`."
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()
