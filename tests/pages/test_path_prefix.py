"""Pages below a path of the host: no address leaves it."""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect
from sqlalchemy.orm import Session, sessionmaker
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tests.pages.conftest import running_at, serving
from tests.pages.made_up import MadeUpWorker, some_jobs
from tests.pages.made_up_studies import a_base, a_study, run_some
from tests.pages.reading import HERE, PAGE
from tests.pages.visitors import ONCE_OR_MORE, a_visitor

from adaptlab.errors import BadSettings
from adaptlab_api.app import create_app
from adaptlab_client import Client
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

PREFIX = "/lab/adaptlab"
ADDRESS = re.compile(r'\s([a-z-]+)="(/(?!/)[^"\s]*)"')
"""An attribute that may be an address on this server."""
FOLLOWED = {"href", "src", "data-source"}
"""Attributes whose addresses are read; others are of buttons and forms."""
NO_ADDRESSES = {"name", "value"}
"""Attributes with paths of fields in a spec, or of hidden fields."""
MOST_PAGES = 150


@pytest.fixture
def below(settings: Settings, token: str) -> Iterator[TestClient]:
    """A signed-in reader of a server below the prefix, by HTTPS."""
    placed = settings.model_copy(update={"public_url": f"https://lab.example{PREFIX}/"})
    with TestClient(
        create_app(placed), "https://lab.example", follow_redirects=False, headers=PAGE
    ) as client:
        answer = client.post(f"{PREFIX}/login", data={"token": token, "next": "/"}, headers=HERE)
        assert answer.headers["location"] == f"{PREFIX}/"
        assert "__Secure-" in answer.headers["set-cookie"]
        assert f"; Path={PREFIX};" in answer.headers["set-cookie"]
        yield client


def addresses(page: str) -> set[tuple[str, str]]:
    """The attributes of a page's tags that are addresses, with them."""
    tags = re.findall(r"<[a-z][^>]*>", page)
    found = (pair for tag in tags for pair in ADDRESS.findall(tag))
    return {(name, unescape(address)) for name, address in found if name not in NO_ADDRESSES}


def test_links_in_answers_lead_below_the_prefix(
    below: TestClient, worker: MadeUpWorker, token: str
) -> None:
    some_jobs(worker)
    below.headers["Authorization"] = f"Bearer {token}"
    listed = below.get(f"{PREFIX}/v1/jobs").json()["data"]
    links = [link for job in listed for link in job["links"].values() if link]
    followed = [link for link in links if below.get(link).status_code == 200]
    assert all(link.startswith(f"{PREFIX}/v1/") for link in links)
    assert len(followed) >= 8 * len(listed), "others wait for changes"


def test_every_page_that_can_be_reached_stays_below_the_prefix(
    below: TestClient, worker: MadeUpWorker, sessions: sessionmaker[Session], token: str
) -> None:
    some_jobs(worker)
    with sessions.begin() as session:
        principal = tokens.authenticate(session, token)
    a_base(sessions)
    a_study(sessions, principal)
    run_some(sessions, 4)
    waiting, seen, left = [f"{PREFIX}/"], set[str](), set[str]()
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.pop(0)
        answer = below.get(address)
        assert answer.status_code in (200, 204, 303), address
        redirected = {("href", one) for one in [answer.headers.get("location")] if one}
        found = addresses(answer.text) | redirected
        left |= {one for _, one in found if not one.startswith(f"{PREFIX}/")}
        seen.add(address)
        followed = {one.partition("#")[0] for name, one in found if name in FOLLOWED}
        waiting += sorted(one for one in followed - seen - {*waiting} if "?" not in one)
    assert left == set()
    assert len(seen) > 60


@pytest.mark.parametrize("path", ["/jobs", "/v1/lab", "/a b", "/a//b"])
def test_a_prefix_that_is_an_address_of_the_server_is_refused(
    settings: Settings, path: str
) -> None:
    placed = settings.model_copy(update={"public_url": f"https://lab.example{path}"})
    with pytest.raises(BadSettings, match="ADAPTLAB_PUBLIC_URL has the path"):
        TestClient(create_app(placed)).get("/healthz")


def proxy_of(server: str) -> Starlette:
    """A proxy that knows nothing but the prefix, and takes it away."""
    client = httpx.AsyncClient(base_url=server, timeout=60)

    async def forward(request: Request) -> Response:
        headers = [*request.headers.raw, (b"x-forwarded-prefix", PREFIX.encode())]
        path = f"/{request.path_params['path']}"
        sent = client.build_request(
            request.method, httpx.URL(path, query=request.url.query.encode()),
            headers=headers, content=await request.body(),
        )  # fmt: skip
        answer = await client.send(sent, stream=True)
        return _passed_on(answer)

    @asynccontextmanager
    async def closing(_: Starlette) -> AsyncGenerator[None]:
        async with client:
            yield

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    routes = [Route(f"{PREFIX}/{{path:path}}", forward, methods=methods)]
    return Starlette(routes=routes, lifespan=closing)


def _passed_on(answer: httpx.Response) -> Response:
    passed = StreamingResponse(
        answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose)
    )
    passed.raw_headers = [
        header for header in answer.headers.raw if header[0].lower() != b"transfer-encoding"
    ]
    return passed


@pytest.fixture
def proxied(settings: Settings, chart_cache: Path) -> Iterator[str]:
    """The address of a server behind a proxy, which tells it the prefix."""
    with (
        serving(settings, chart_cache, behind_proxy=True) as server,
        running_at(proxy_of(server)) as proxy,
    ):
        yield f"{proxy}{PREFIX}"


@pytest.mark.browser
@pytest.mark.long("browser walks")
def test_a_person_and_a_program_work_behind_a_proxy_that_takes_the_prefix_away(
    browser: Browser, proxied: str, token: str, worker: MadeUpWorker
) -> None:
    """The visitor notes every request that leaves the prefix."""
    jobs = some_jobs(worker)
    with a_visitor(browser, proxied, token) as visitor, Client(proxied, token) as client:
        page = visitor.page
        visitor.sign_in("/jobs/new")
        page.get_by_role("button", name="Submit job").click()
        page.wait_for_url(re.compile(rf"{PREFIX}/jobs/[0-9a-f-]{{36}}$"))
        made = client.jobs.get(page.url.rpartition("/")[2])
        client.jobs.cancel(made.id)
        expect(page.locator(".job-head .state")).to_have_text("cancelled")  # by the stream
        trained = next(job for job in jobs.values() if client.jobs.get(job.id).succeeded)
        visitor.open_job(trained)
        expect(page.locator("#curves-chart")).to_have_attribute("data-drawn", ONCE_OR_MORE)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{proxied}/login")
