"""Two hundred hostile texts, shown as text everywhere, in Chromium.

The visitor's fixture fails a test in which a dialog opened, the console told of an error or of a
violation of the Content-Security-Policy, or anything was asked of another site.
"""

import re
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import expect
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.making import an_adapt_document
from tests.pages.made_up_studies import a_base, a_study, ordinary
from tests.pages.visitors import DRAWN, ONCE_OR_MORE, Visitor, unfold_all
from tests.security.hostile_texts import TEXTS

from adaptlab.specs.annotations import SHOWABLE
from adaptlab_db.tables import User
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import Principal

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.long("browser walks")]
Sessions = sessionmaker[Session]
LABELS_OF_A_JOB = 32
SHOWN = [text[:120] for text in TEXTS if re.fullmatch(SHOWABLE, text[:120])]
NO_ELEMENT = (
    "script:not([src]), img:not([src^='/jobs/'], [src^='/studies/'], [src^='/compare/']), "
    "iframe, object, embed, base, marquee, video, audio, math, x"
)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(event.violatedDirective + " " + event.blockedURI);
});
"""
"""Noted by the page itself, beside what the console tells."""
FIRST_VIOLATIONS = """
() => new Promise((resolve) => {
  const look = () => violations.length ? resolve(violations) : setTimeout(look, 20);
  look();
})
"""
"""The page hears of them some time after the console."""
HANDLERS = """
() => [...document.querySelectorAll("*")].flatMap((element) =>
  [...element.attributes]
    .filter(({name, value}) => name.startsWith("on") || /^\\s*(java|vb)script:/i.test(value))
    .map(({name}) => `${element.tagName} ${name}`))
"""
"""Whatever would run when it is clicked, focused or loaded."""


@pytest.fixture
def admin(sessions: Sessions, token: str) -> Principal:
    """The admin, who calls themselves something that is not nice either."""
    a_base(sessions)
    with sessions.begin() as session:
        found = tokens.authenticate(session, token)
        named = update(User).where(User.id == found.user_id)
        session.execute(named.values(name=f"</bdi>{TEXTS[0]}\u202e"))
        return found


@pytest.fixture
def api(server: str, token: str) -> Iterator[httpx.Client]:
    """The admin as a program."""
    known = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server, headers=known, timeout=60) as client:
        yield client


def look(visitor: Visitor, path: str) -> None:
    """Open a page and check that nothing on it came to life."""
    page = visitor.page
    page.goto(visitor.server + path)
    page.mouse.move(200, 200)
    assert page.evaluate("window.violations") == [], path
    assert page.title() != "owned", path
    assert page.locator(NO_ELEMENT).count() == 0, path
    assert page.evaluate(HANDLERS) == [], path


def test_labels_and_errors(
    visitor: Visitor, api: httpx.Client, admin: Principal, sessions: Sessions
) -> None:
    visitor.page.add_init_script(WATCH)
    jobs: dict[str, dict[str, str]] = {}
    for start in range(0, len(TEXTS), LABELS_OF_A_JOB):
        some = TEXTS[start : start + LABELS_OF_A_JOB]
        labels = {f"label-{place}": text for place, text in enumerate(some)}
        answer = api.post("/v1/jobs", json=an_adapt_document(labels=labels))
        assert answer.status_code == 201, answer.text
        assert answer.json()["labels"] == labels  # letter by letter
        jobs[answer.json()["id"]] = labels
    ledger = DatabaseLedger(sessions, lease_seconds=3600)
    worker = ledger.register_worker(f"{TEXTS[0]}", 1, ["cpu"])
    for _ in jobs:
        claim = ledger.claim(worker, ["cpu"])
        assert claim is not None
        ledger.fail(claim, "diverged", "\n".join(TEXTS), retry=False)
    visitor.sign_in()
    for path in ("/", "/?state=failed", "/base-models", "/methods", "/recipes", "/studies"):
        look(visitor, path)
    for job, labels in jobs.items():
        look(visitor, f"/jobs/{job}")
        shown = visitor.page.locator("main").inner_text()
        for text in labels.values():
            if text.isprintable() and text.isascii() and "  " not in text.strip():
                assert text.strip() in shown or text.strip()[:20] in shown, text
    assert len(jobs) == -(-len(TEXTS) // LABELS_OF_A_JOB)


def test_names_of_methods_in_tables_and_charts(
    visitor: Visitor, admin: Principal, sessions: Sessions
) -> None:
    visitor.page.add_init_script(WATCH)
    methods = [
        {"name": "lora", "alpha": place + 1, "label": text}
        for place, text in enumerate(dict.fromkeys(SHOWN[:: len(SHOWN) // 24]))
    ]
    labels = {f"l{place}": text for place, text in enumerate(TEXTS[:32])}
    study = a_study(
        sessions, admin, name="hostile", methods=["frozen", *methods], labels=labels, budgets=[64]
    )
    run_all(sessions, ordinary)
    visitor.sign_in()
    jobs = list(dict.fromkeys(job.id for cell in study.cells for job in cell.jobs))[:8]
    compared = "/compare?" + "&".join(f"job={one}" for one in jobs)
    for path in ("/studies", "/studies/hostile", compared):
        look(visitor, path)
        unfold_all(visitor)
        for chart in visitor.page.locator(DRAWN).all():
            chart.scroll_into_view_if_needed()
            expect(chart).to_have_attribute("data-drawn", ONCE_OR_MORE)
            expect(chart.locator("svg.marks").first).to_be_visible()
        assert visitor.page.evaluate("window.violations") == []
        assert visitor.page.evaluate(HANDLERS) == []
        assert visitor.page.title() != "owned"


def test_names_of_tokens(visitor: Visitor, api: httpx.Client, admin: Principal) -> None:
    visitor.page.add_init_script(WATCH)
    names = [text[:64] for text in TEXTS if text.strip()]
    with_nul = [name for name in names if api.post("/v1/tokens", json={"name": name}).is_error]
    assert all("\0" in name for name in with_nul), with_nul
    visitor.sign_in()
    pages, address = 0, "/tokens"
    while address:
        look(visitor, address)
        pages += 1
        older = visitor.page.get_by_role("link", name="Older")
        address = older.get_attribute("href") if older.count() else ""
    assert pages >= len(names) // 50
    look(visitor, "/workers")


def test_addresses(visitor: Visitor, admin: Principal) -> None:
    visitor.page.add_init_script(WATCH)
    wanted = [text for text in TEXTS if "alert" in text or "owned" in text][::10]
    for text in wanted:
        look(visitor, f"/login?next={quote(text, safe='')}")
    visitor.sign_in()
    visitor.expected += ["status of 400", "status of 404"]
    for number, text in enumerate(wanted):
        asked = quote(text, safe="")
        forms = (f"/?task={asked}", f"/?method={asked}&state={asked}", f"/recipes/x{asked}")
        look(visitor, forms[number % len(forms)])


def test_what_is_a_name_is_no_text(api: httpx.Client, admin: Principal) -> None:
    for text in TEXTS[::3]:
        if text in ("null", "undefined", "constructor", "true", "0x10"):
            continue  # are names
        for path, document in (
            ("/v1/jobs", an_adapt_document(base_model=text)),
            ("/v1/jobs", an_adapt_document(labels={text: "x"})),
            ("/v1/studies", {"name": text}),
            ("/v1/datasets", {"name": text}),
        ):
            if path == "/v1/jobs" and text.isalnum() and text.isascii():
                continue  # may name a label
            answer = api.post(path, json=document)
            assert answer.status_code == 422, (path, text, answer.text[:200])


def test_the_watch_sees_what_it_watches_for(visitor: Visitor, admin: Principal) -> None:
    visitor.page.add_init_script(WATCH)
    visitor.sign_in()
    with visitor.page.expect_console_message(lambda told: "Content Security" in told.text):
        visitor.page.evaluate(
            "document.querySelector('main').innerHTML = '<img src=x onerror=alert(1)>'"
        )
    assert "script-src-attr inline" in visitor.page.evaluate(FIRST_VIOLATIONS)
    assert visitor.page.locator(NO_ELEMENT).count() == 1
    assert visitor.page.evaluate(HANDLERS) == ["IMG onerror"]
    assert any("Content Security Policy" in fault for fault in visitor.faults)
    # The image that is not there may be asked for when this is over.
    visitor.expected += ["Content Security Policy", "status of 404"]
