"""The page of workers and queues: live ones, jobs, unserved queues."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect
from sqlalchemy import func, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_member, a_user, an_adapt_spec
from tests.pages.made_up import PRETRAINING, MadeUpWorker
from tests.pages.visitors import (
    HOSTILE,
    NARROW,
    WIDE,
    Visitor,
    in_every_window,
    look_like,
    overflows_nowhere,
)

from adaptlab.c_compiler import WHAT_IT_COSTS
from adaptlab_answers.server import STARTING
from adaptlab_api.app import create_app
from adaptlab_db.tables import User, Worker
from adaptlab_services.lifecycle import workers
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HERE = {"Sec-Fetch-Site": "same-origin"}
NAVIGATION = {
    "": ("Jobs", "Studies", "Results", "Recommend", "Recipes"),
    "Models and data": ("Base models", "Datasets", "Uploads", "Methods"),
    "Team": ("Workers", "Projects and users"),
}
ON_GPU = {**PRETRAINING, "resources": {"queue": "gpu"}}


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    app = create_app(settings)
    with TestClient(app, follow_redirects=False, headers={"Accept": "text/html"}) as made:
        yield made


@pytest.fixture
def signed_in(client: TestClient, token: str) -> TestClient:
    assert client.post("/login", data={"token": token}, headers=HERE).status_code == 303
    return client


def height_of(page: Page, selector: str) -> float:
    return page.locator(selector).evaluate("(one) => one.getBoundingClientRect().height")


def shown(client: TestClient) -> str:
    """The text of the page, without its tags."""
    answer = client.get("/workers")
    assert answer.status_code == 200
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_an_empty_server_says_how_a_worker_is_started(signed_in: TestClient) -> None:
    page = shown(signed_in)
    assert "No live workers" in page
    assert "adaptlab worker" in page
    assert "There are no queues with a worker or a job" in page
    assert "This server removes" not in page


def test_what_the_server_removes_by_itself_is_said(settings: Settings, token: str) -> None:
    days = {"archived_days": 30, "worker_days": 1}
    with TestClient(create_app(settings.model_copy(update=days))) as client:
        client.post("/login", data={"token": token}, headers=HERE)
        said = "This server removes archived jobs that have ended after 30 days, workers without"
        assert f"{said} a heartbeat after 1 day." in shown(client)


def test_a_worker_is_shown_with_what_it_runs(signed_in: TestClient, worker: MadeUpWorker) -> None:
    job = worker.submit(PRETRAINING)
    assert "cpu 1 0 1" in shown(signed_in)  # queued, running, workers
    assert "idle made-up process 1 cpu no job that you can see" in shown(signed_in)
    worker.claim()
    page = shown(signed_in)
    assert "running made-up process 1 cpu Pretraining sort-asc-1l cpu" in page  # the device
    assert "cpu 0 1 1" in page
    assert f'href="/jobs/{job.id}"' in signed_in.get("/workers").text
    assert "No live worker serves" not in page


def test_a_worker_is_shown_with_its_memory_and_its_gpus(
    signed_in: TestClient, worker: MadeUpWorker, sessions: Sessions
) -> None:
    card = {"index": 0, "name": "<i>H200</i>", "memory_bytes": 140 * 2**30}
    reported = {
        "memory_used_bytes": 3 * 2**30,
        "machine_memory_bytes": 125 * 2**30,
        "machine_memory_available_bytes": 100 * 2**30,
        "has_compiler": None,
        "gpus": [{**card, "memory_used_bytes": 2 * 2**30, "busy": 0.755}],
    }
    told = ("3.0 GiB , 100.0 GiB of 125.0 GiB free", "<i>H200</i> : 2.0 GiB of 140.0 GiB, 75.5")
    assert not any(text in shown(signed_in) for text in told)
    for load in (reported, {"memory": "as another version reports it"}):
        with sessions.begin() as session:
            session.execute(update(Worker).values(load=load))
        page = shown(signed_in)
        assert [text in page for text in told] == [load is reported] * 2
        (listed,) = signed_in.get("/v1/workers").json()["data"]
        assert (listed["load"] == reported) == (load is reported)


@pytest.mark.parametrize(
    ("has_compiler", "gpus", "told"),
    [(False, 0, True), (False, 1, False), (True, 0, False), (None, 0, False)],
)
def test_a_worker_on_a_cpu_without_a_compiler_is_told_what_that_costs(
    signed_in: TestClient,
    worker: MadeUpWorker,
    sessions: Sessions,
    has_compiler: bool | None,
    gpus: int,
    told: bool,
) -> None:
    card = {"index": 0, "name": "H200", "memory_bytes": 9, "memory_used_bytes": 2, "busy": None}
    memory = ("memory_used_bytes", "machine_memory_bytes", "machine_memory_available_bytes")
    load = {**dict.fromkeys(memory, 5), "has_compiler": has_compiler, "gpus": [card] * gpus}
    worker.come("cpu")
    with sessions.begin() as session:
        session.execute(update(Worker).values(load=load))
    said = f"It has no C compiler, so {WHAT_IT_COSTS}."
    assert (said in shown(signed_in)) == told


def test_a_queue_that_nobody_serves_is_warned_of(
    signed_in: TestClient, worker: MadeUpWorker
) -> None:
    worker.submit(ON_GPU)
    page = shown(signed_in)
    assert "No live worker serves the queue “gpu”" in page
    assert "gpu 1 0 no worker" in page
    assert "No live worker serves the queue “cpu”" not in page
    worker.come("gpu")
    page = shown(signed_in)
    assert "No live worker serves" not in page
    assert "gpu 1 0 1" in page


def test_a_worker_that_takes_nothing_says_why_and_serves_no_queue(
    signed_in: TestClient, worker: MadeUpWorker, sessions: Sessions
) -> None:
    worker.submit(PRETRAINING)
    with sessions.begin() as session:
        (only,) = workers.recent(session)
        workers.looks_for_work(session, only.id, "the disk has 1 MiB left")
    page = shown(signed_in)
    assert "unschedulable made-up process 1 the disk has 1 MiB left" in page
    assert "No live worker serves the queue “cpu”" in page
    assert "cpu 1 0 no worker" in page


def test_a_worker_whose_trainer_is_not_ready_is_starting(
    signed_in: TestClient, worker: MadeUpWorker, sessions: Sessions
) -> None:
    job = worker.submit(PRETRAINING)
    with sessions.begin() as session:
        (only,) = workers.recent(session)
        workers.looks_for_work(session, only.id, STARTING)
    for page in (shown(signed_in), signed_in.get(f"/jobs/{job.id}").text):
        assert "The worker of the queue “cpu” is starting" in page
        assert "No live worker serves" not in page
    assert "starting made-up process 1 cpu" in shown(signed_in)


def test_a_worker_that_was_not_heard_of_is_only_counted(
    signed_in: TestClient, worker: MadeUpWorker, sessions: Sessions
) -> None:
    worker.submit(PRETRAINING)
    with sessions.begin() as session:
        long_ago = func.clock_timestamp() - workers.SILENCE - timedelta(seconds=1)
        session.execute(update(Worker).values(heartbeat_at=long_ago))
    page = shown(signed_in)
    assert "made-up" not in page
    assert "1 other worker has stopped, or sent no heartbeat for a minute" in page
    assert "No live worker serves the queue “cpu”" in page


def test_jobs_of_other_projects_are_neither_named_nor_counted(
    client: TestClient, sessions: Sessions, worker: MadeUpWorker
) -> None:
    with sessions.begin() as session:
        user = a_user(session, "ada")
        a_member(session, user, "ours")
        a_member(session, a_user(session, "bert"), "theirs")
        a_base_model(session, "base", owner="bert", project="theirs")
        (only,) = workers.recent(session)
        spec = an_adapt_spec(base_model="base")
        running = a_job(
            session, spec, owner="bert", project="theirs", state="running", worker_id=only.id
        )
        a_job(session, spec, owner="bert", project="theirs", queue="secret")
        text = tokens.create_token(session, user, "for a test", ("read",))
    client.post("/login", data={"token": text}, headers=HERE)
    page = client.get("/workers").text
    assert str(running) not in page
    assert "secret" not in page
    assert "no job that you can see" in page
    assert "cpu 0 0 1" in shown(client)


@pytest.mark.long("browser walks")
@pytest.mark.browser
def test_in_a_browser_it_follows_what_happens_and_nothing_overflows(
    visitor: Visitor, worker: MadeUpWorker, sessions: Sessions
) -> None:
    """One page in all windows in turn, which refreshes by the clock."""
    worker.submit(ON_GPU)
    with sessions.begin() as session:
        session.execute(update(Worker).values(host=f"{HOSTILE}{'w' * 100}"))
        session.execute(update(User).values(name=func.concat(User.name, "w" * 50)))
        (only,) = workers.recent(session)
        workers.looks_for_work(session, only.id, f"{HOSTILE}{'x' * 300}")
    page = visitor.page
    look_like(page, NARROW, "dark")
    visitor.sign_in("/workers")
    expect(page.locator("#unserved .notice")).to_contain_text("gpu")
    overflows_nowhere(page)
    assert page.title() != "owned"
    worker.come("gpu")
    expect(page.locator("#unserved .notice")).to_have_count(0)
    look_like(page, WIDE, "light")
    worker.claim("gpu")
    expect(page.locator("#workers")).to_contain_text("Pretraining sort-asc-1l")
    overflows_nowhere(page)
    navigation = page.get_by_role("navigation", name="Pages")
    for viewport in in_every_window(page):
        if viewport == NARROW:
            if not page.locator("#menu").is_checked():
                expect(navigation).not_to_be_visible()
                page.get_by_text("Menu", exact=True).click()
        else:
            assert height_of(page, ".top") < 2 * height_of(page, ".top .brand")
        for group, names in NAVIGATION.items():
            if group:
                navigation.get_by_text(group, exact=True).click()
            for name in names:
                link = navigation.get_by_role("link", name=name, exact=True)
                link.scroll_into_view_if_needed()
                expect(link).to_be_in_viewport()
        page.keyboard.press("Escape")
        expect(navigation.locator("details[open]")).to_have_count(0)
        overflows = page.evaluate("document.documentElement.scrollWidth")
        assert overflows <= viewport["width"]
