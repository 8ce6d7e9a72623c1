"""Charts as SVG, which need no script."""

import re
import subprocess
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect
from sqlalchemy.orm import Session, sessionmaker
from tests.pages.made_up import MadeUpWorker, some_jobs
from tests.pages.made_up_studies import a_base, a_study, ordinary, run_all
from tests.pages.visitors import ONCE_OR_MORE, PATIENCE, WIDE, Visitor

from adaptlab_services.comparisons import chart_drawer
from adaptlab_services.comparisons.chart_drawer import ChartDrawer
from adaptlab_services.comparisons.plot_drawing import DrawingFailed
from adaptlab_services.people import tokens

Sessions = sessionmaker[Session]
CHART = {
    "data": {"values": [{"x": 1, "y": 2}, {"x": 2, "y": 3}]},
    "mark": "line",
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
    },
}


def pictures(page: str) -> list[str]:
    """The addresses of the first drawings in a page."""
    found = re.findall(r'<picture class="first-drawing">.*?<img src="([^"]*)"', page)
    return [unescape(one) for one in found]


def test_every_page_with_a_chart_shows_it_without_scripts(
    reader: TestClient, worker: MadeUpWorker, sessions: Sessions, token: str
) -> None:
    jobs = [job.id for job in some_jobs(worker).values()]
    with sessions.begin() as session:
        principal = tokens.authenticate(session, token)
    a_base(sessions)
    study = a_study(sessions, principal)
    run_all(sessions, ordinary)
    places = {
        f"/jobs/{jobs[0]}": 1,
        f"/studies/{study.name}": 2,
        "/results?group_by=method": 1,
        **{f"/jobs/{job}/attention": 0 for job in jobs},
    }
    drawn = 0
    for place, fewest in places.items():
        addresses = pictures(reader.get(place).text)
        assert len(addresses) >= fewest, place
        for address in addresses:
            answer = reader.get(address)
            assert answer.status_code in (200, 204), address
            if answer.status_code == 200:
                assert answer.headers["content-type"] == "image/svg+xml", address
                assert ElementTree.fromstring(answer.content).tag.endswith("svg")
                drawn += 1
    assert drawn > 6


def test_a_drawing_is_kept_and_its_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    start = chart_drawer.started

    def noted() -> subprocess.Popen[bytes]:
        begun.append(start())
        return begun[-1]

    monkeypatch.setattr(chart_drawer, "started", noted)
    drawer = ChartDrawer(kept_seconds=0.01)
    first = drawer.draw(CHART, b"a chart")
    assert begun[0].wait(60) != 0
    assert drawer.draw({}, b"a chart") == first
    assert drawer.draw(CHART, b"another") == first
    drawer.close()
    assert [process.poll() is None for process in begun] == [False, False]


def test_a_process_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dies = tmp_path / "dies"
    dies.write_text("#!/bin/sh\nexit 1\n")
    dies.chmod(0o755)
    drawer = ChartDrawer()
    with monkeypatch.context() as patched:
        patched.setattr("adaptlab_services.comparisons.plot_drawing.sys.executable", str(dies))
        with pytest.raises(DrawingFailed):
            drawer.draw(CHART, b"a chart")
    assert drawer.draw(CHART, b"a chart").startswith(b"<svg")
    drawer.close()


@pytest.mark.browser
@pytest.mark.long("browser walks")
@pytest.mark.parametrize("scripts", [False, True])
def test_the_curves_of_a_job_are_a_picture_first(
    browser: Browser, server: str, token: str, worker: MadeUpWorker, scripts: bool
) -> None:
    job = next(iter(some_jobs(worker).values()))
    context = browser.new_context(viewport=WIDE, java_script_enabled=scripts)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    Visitor(page, server, token).sign_in(f"/jobs/{job.id}")
    chart = page.locator("#curves-chart")
    if scripts:
        expect(chart).to_have_attribute("data-drawn", ONCE_OR_MORE)
        expect(chart.locator(".first-drawing")).to_have_count(0)
    else:
        expect(chart.locator("img")).to_have_js_property("complete", True)
        assert chart.locator("img").evaluate("(image) => image.naturalWidth") == 560
    context.close()
