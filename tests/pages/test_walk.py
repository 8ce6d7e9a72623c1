"""A newcomer's walk through the dashboard, photographed.

`make walk` writes the pictures that the tutorial shows; the suite writes them to a temporary
folder. The jobs are made up, everything else is as users meet it.
"""

import csv
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.making import a_member, a_user
from tests.pages.conftest import serving
from tests.pages.made_up_studies import a_base, a_study, ordinary
from tests.pages.visitors import NARROW, WIDE, Visitor, a_visitor, draw_everything, look_like
from tests.receiving import a_webhook, deliver, open_to_loopback, receiving
from tests.texts import CLASSIFICATION, COMPLETION, reviews

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_client import Client
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import create_token
from adaptlab_services.settings import Settings

pytestmark = pytest.mark.long("browser walks")

Sessions = sessionmaker[Session]
ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "a-walk.md"
PICTURES = ROOT / "docs" / "images" / "walk"
MOST_BYTES = 150_000
HEIGHTS = {WIDE["width"]: 720, NARROW["width"]: 1060}
STOPS = {
    "verdict": ("/studies/new-task", "At up to "),
    "dataset": ("/datasets/reviews", "Start a study with it"),
    "own-verdict": ("/studies/reviews", "LoRA (95.5 %)"),
    "shared": ("/studies", "new-task"),
    "webhook": ("/webhooks", "delivered"),
    "metrics": ("/metrics", 'adaptlab_attempts_total{outcome="succeeded"'),
}
"""The pages of the walk in order, each with a text that has to be on it."""
SHORT = {"metrics": 480}
"""Heights of pictures of much text, which would be large files."""
NAMES = [f"{stop}-{width['width']}.png" for stop in STOPS for width in (WIDE, NARROW)]
READER = {
    "kind": "pretrain",
    "name": "reader",
    "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 32},
    "task": COMPLETION,
    "training": {"steps": 2000},
    "seeds": 3,
}
OWN_STUDY = {
    "name": "reviews",
    "base_models": ["reader"],
    "tasks": [CLASSIFICATION],
    "methods": ["frozen", "full_finetuning", "lora", "prefix_tuning"],
    "budgets": [512],
    "seeds": 3,
    "training": {"steps": 200},
    "tuning": {"trials": 3},
}


def on_texts(spec: ResolvedSpec) -> Run:
    """LoRA is as good as full fine-tuning, and prefixes are behind."""
    right = {"full_finetuning": 384, "lora": 380, "prefix_tuning": 301, "frozen": 262}
    name = str((spec.method or {}).get("name"))
    return Run(right=right.get(name, 270), shift=2, validation=0.7)


@pytest.fixture
def open_settings(settings: Settings) -> Settings:
    return open_to_loopback(settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the pictures go."""
    return Path(os.environ.get("WALK_FOLDER", tmp_path / "walk"))


@pytest.fixture
def address(
    open_settings: Settings, sessions: Sessions, token: str, chart_cache: Path, tmp_path: Path
) -> Iterator[str]:
    """A server on which everything of the walk has happened."""
    a_base(sessions)
    with sessions.begin() as session:
        ada = tokens.authenticate(session, token)
        a_member(session, a_user(session, "grace"), role="reader")
    file = tmp_path / "reviews.csv"
    records = reviews(2000)
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, records[0].keys())
        writer.writeheader()
        writer.writerows(records)
    with serving(open_settings, chart_cache) as server, receiving() as receiver:
        a_study(sessions, ada, name="new-task", budgets=[64])
        run_all(sessions, ordinary)
        with sessions.begin() as session:
            a_webhook(session, receiver.url, "study.ended", owner_id=ada.user_id)
        with Client(server, token) as client:
            client.datasets.upload_file("reviews", file, kind="records")
            client.jobs.submit(READER)
            run_all(sessions, on_texts)
            client.studies.create(OWN_STUDY)
        run_all(sessions, on_texts)
        deliver(sessions, open_settings)
        assert [one.message["data"]["name"] for one in receiver.received] == ["reviews"]
        yield server


@pytest.mark.browser
def test_every_stop_of_the_walk_is_photographed(
    browser: Browser, address: str, token: str, sessions: Sessions, folder: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sessions.begin() as session:
        graces = create_token(session, a_user(session, "grace"), "walk", ("read",))
    with a_visitor(browser, address, token) as ada, a_visitor(browser, address, graces) as grace:
        ada.sign_in()
        grace.sign_in()
        for stop in STOPS:
            photograph(grace if stop == "shared" else ada, stop, folder)
    assert sorted(NAMES) == sorted(path.name for path in folder.iterdir())


def photograph(visitor: Visitor, stop: str, folder: Path) -> None:
    """Take a picture of the top of a page in both windows."""
    page, (path, shown) = visitor.page, STOPS[stop]
    if stop == "metrics":  # as Prometheus reads them, which shows a token
        page.set_extra_http_headers({"Authorization": f"Bearer {visitor.token}"})
    page.goto(visitor.server + path)
    expect(page.get_by_text(shown).first).to_be_visible()
    for window in (WIDE, NARROW):
        height = SHORT.get(stop, HEIGHTS[window["width"]])
        look_like(page, {"width": window["width"], "height": height}, "light")
        draw_everything(visitor)
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=folder / f"{stop}-{window['width']}.png")


def test_the_tutorial_shows_every_stop_in_both_widths() -> None:
    shown = re.findall(r"\]\(\.\./images/walk/(.*?)\)", TUTORIAL.read_text())
    assert shown == NAMES
    assert len(NAMES) <= 12
    for name in NAMES:
        content = (PICTURES / name).read_bytes()
        assert len(content) <= MOST_BYTES
        (width,) = struct.unpack(">I", content[16:20])
        assert name.endswith(f"-{width}.png"), "`make walk` writes the pictures"
