"""Too many requests or wrong tokens: the caller waits, nobody else."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from fastapi.testclient import TestClient
from pyrate_limiter import Rate
from sqlalchemy.orm import Session, sessionmaker
from tests.api.serving import Running, a_server
from tests.making import a_job, a_token
from tests.nursery import Nursery
from tests.patience import LONG, nobody_listens
from tests.watching import until

from adaptlab_api.app import THREADS, create_app
from adaptlab_api.limits import buckets
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
WRITE = ("POST", "/v1/jobs/00000000-0000-0000-0000-000000000000/cancel")
READ = ("GET", "/v1/methods/none")
WRONG = "al_" + "0" * 43 + "_0000000"
MOST = 60
pytestmark = pytest.mark.may_stand_still(
    "a bucket is full again after a second in which nobody asks"
)
SLOW: dict[str, Any] = {"write_rate": 1, "write_burst": 3, "read_rate": 1, "read_burst": 6}
FEW: dict[str, Any] = {"wrong_tokens_per_minute": 5}


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bucket here fills up, and Valkey's answers are waited for.

    With the clock of the machine a stop of a second would let one request more through, and after
    an answer that takes a fifth of it the application counts for itself for a while.
    """
    now = round(time.time() * 1000)
    monkeypatch.setattr("adaptlab_api.limits.buckets._now", lambda: now)
    monkeypatch.setattr("adaptlab_api.limits.buckets.ANSWER_SECONDS", LONG)


@contextmanager
def a_client(
    settings: Settings, token: str | None = None, *, address: str = "10.0.0.1", **changes: object
) -> Iterator[TestClient]:
    """Somebody at an address, of a server with other settings."""
    app = create_app(settings.model_copy(update=changes))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with TestClient(app, headers=headers, client=(address, 50000)) as client:
        yield client


def until_refused(client: TestClient, asked: tuple[str, str], token: str = "") -> int:
    """The number of requests before one is told to wait, at most `MOST`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for answered in range(MOST):
        form = {"token": WRONG} if asked[1] == "/login" else None
        answer = client.request(*asked, headers=headers, data=form)
        if answer.status_code == 429:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == "urn:adaptlab:problem:too-many-requests"
            assert int(answer.headers["retry-after"]) >= 1
            return answered
        assert answer.status_code in (401, 404)
    return MOST


@pytest.fixture
def other(sessions: Sessions) -> str:
    """Somebody else's token."""
    with sessions.begin() as session:
        return a_token(session, "ben")


def test_one_person_waits_and_others_do_not(settings: Settings, token: str, other: str) -> None:
    with a_client(settings, token, **SLOW) as client:
        assert 3 <= until_refused(client, WRITE) < 20
        assert 6 <= until_refused(client, READ) < 40
        theirs = {"Authorization": f"Bearer {other}"}
        for asked in (WRITE, READ):
            assert client.request(*asked, headers=theirs).status_code == 404
        assert client.get("/healthz").status_code == 200


def test_the_refusal_names_the_limit(settings: Settings, token: str) -> None:
    with a_client(settings, token, write_rate=1, write_burst=3) as client:
        until_refused(client, WRITE)
        detail = client.request(*WRITE).json()["detail"]
    assert "1 writes per second" in detail
    assert "3 at once" in detail


def test_with_room_for_all_nobody_waits(settings: Settings, token: str) -> None:
    with a_client(settings, token) as client:
        assert until_refused(client, WRITE) == until_refused(client, READ) == MOST


def test_writes_are_counted_for_all_servers_together(settings: Settings, token: str) -> None:
    with a_client(settings, token, **SLOW) as one, a_client(settings, token, **SLOW) as two:
        until_refused(one, WRITE)
        assert until_refused(two, WRITE) < 3


def test_no_server_reserves_writes_for_itself(settings: Settings, token: str) -> None:
    many: dict[str, Any] = {"write_rate": 1, "write_burst": 40}
    with a_client(settings, token, **many) as one, a_client(settings, token, **many) as two:
        for _ in range(5):
            assert one.request(*WRITE).status_code == 404
        assert until_refused(two, WRITE) == 35
        assert until_refused(one, WRITE) == 0


@pytest.mark.parametrize("at_once", [1, 4, 20])
def test_who_asks_at_the_same_time_loses_nothing(settings: Settings, at_once: int) -> None:
    rate = Rate(1, buckets.SECOND, burst=50)

    async def answered() -> int:
        asked = buckets.Buckets(settings.broker_url)
        try:
            for found in itertools.count():
                wave = (asked.take(f"writes:{at_once}", rate, shared=True) for _ in range(at_once))
                if refused := sum(seconds > 0 for seconds in await asyncio.gather(*wave)):
                    return (found + 1) * at_once - refused
        finally:
            await asked.close()
        raise AssertionError

    with ThreadPoolExecutor(1) as thread:  # Playwright's loop may run in this one
        assert thread.submit(asyncio.run, answered()).result() == 50


def test_writes_are_allowed_again_at_the_rate(
    settings: Settings, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_client(settings, token, write_rate=1, write_burst=20) as client:
        assert until_refused(client, WRITE) == 20
        now = buckets._now()
        for seconds, writes in ((2, 2), (22, 20)):
            later = now + seconds * buckets.SECOND
            monkeypatch.setattr("adaptlab_api.limits.buckets._now", lambda later=later: later)
            assert until_refused(client, WRITE) == writes


def test_limits_hold_while_valkey_is_away(settings: Settings, token: str, other: str) -> None:
    with nobody_listens() as port, ExitStack() as stack:
        nobody = f"redis://127.0.0.1:{port}/0"
        limited = a_client(settings, token, broker_url=nobody, **SLOW, **FEW)
        client = stack.enter_context(limited)
        assert 3 <= until_refused(client, WRITE) < 20
        assert (
            client.request(*WRITE, headers={"Authorization": f"Bearer {other}"}).status_code == 404
        )
        assert 5 <= until_refused(client, READ, WRONG) < 10
        page = client.get("/login")
        assert page.status_code == 200


def test_wrong_tokens_make_no_valid_one_of_their_address_wait(
    settings: Settings, token: str, other: str
) -> None:
    with a_client(settings, **FEW) as client:
        assert 5 <= until_refused(client, READ, WRONG) < 10
        # Never seen here before: newcomers behind the address of a script with an old token.
        for valid in (token, other):
            headers = {"Authorization": f"Bearer {valid}"}
            assert client.request(*READ, headers=headers).status_code == 404
        signed_in = client.post("/login", data={"token": other}, follow_redirects=False)
        assert signed_in.status_code == 303
        refused = client.request(*READ, headers={"Authorization": f"Bearer {WRONG}"})
        assert refused.status_code == 429, "which is still a failure"
        assert client.get("/login").status_code == 200
    with a_client(settings, other, address="10.0.0.2", **FEW) as elsewhere:
        assert elsewhere.request(*READ).status_code == 404


def test_wrong_tokens_in_the_form_are_counted_too(settings: Settings) -> None:
    with a_client(settings, **FEW) as client:
        assert 5 <= until_refused(client, ("POST", "/login")) < 10


def test_wrong_forms_keep_nobody_from_signing_in(settings: Settings, token: str) -> None:
    with a_client(settings, sign_ins_per_minute=3, **FEW) as client:
        until_refused(client, ("POST", "/login"))
        form = {"token": token}
        assert client.post("/login", data=form, follow_redirects=False).status_code == 303


def test_a_subscriber_of_ipv6_is_one_address(settings: Settings) -> None:
    with a_client(settings, address="2001:db8:1:2:3:4:5:6", **FEW) as client:
        until_refused(client, READ, WRONG)
    with a_client(settings, address="2001:db8:1:2:ffff::1", **FEW) as neighbour:
        assert until_refused(neighbour, READ, WRONG) < 5
    with a_client(settings, address="2001:db8:1:3::1", **FEW) as stranger:
        assert until_refused(stranger, READ, WRONG) >= 5


def test_a_request_without_a_token_is_no_wrong_one(settings: Settings) -> None:
    with a_client(settings, **FEW) as client:
        assert until_refused(client, READ) == MOST


def test_whoever_goes_on_waits_longer(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000_000
    monkeypatch.setattr("adaptlab_api.limits.buckets._now", lambda: now)
    began, waits, taken = now, list[int](), 0
    with a_client(settings, wrong_tokens_per_minute=1) as client:
        for _ in range(15):
            taken += until_refused(client, READ, WRONG)
            refused = client.request(*READ, headers={"Authorization": f"Bearer {WRONG}"})
            waits.append(int(refused.headers["retry-after"]))
            now += 1000 * waits[-1]
    assert waits[0] == 60  # one a minute
    hours = (now - began) / 3_600_000
    assert 8 * hours <= taken <= 8 * (hours + 1)  # eight an hour, and eight at once


def test_more_tokens_are_no_more_requests(
    settings: Settings, token: str, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        another = a_token(session)
    with a_client(settings, token, **SLOW) as client:
        for asked in (WRITE, READ):
            until_refused(client, asked)
            assert until_refused(client, asked, another) < 3


def test_a_good_sign_in_lets_no_wrong_one_past(settings: Settings, token: str) -> None:
    with a_client(settings, **FEW) as client:
        until_refused(client, READ, WRONG)
    with a_client(settings, address="10.0.0.2", **FEW) as client:
        form = {"token": token}
        assert client.post("/login", data=form, follow_redirects=False).status_code == 303
        until_refused(client, READ, WRONG)
        assert client.post("/login", data={"token": WRONG}).status_code == 429


def test_one_person_cannot_take_all_connections(
    settings: Settings, token: str, other: str, sessions: Sessions, tmp_path: Path, nursery: Nursery
) -> None:
    with sessions.begin() as session:
        job = a_job(session)
        another = a_token(session)
    few = "import os; os.environ['ADAPTLAB_MAX_OPEN_REQUESTS'] = '3'"
    with (
        a_server(settings, token, tmp_path / "log", few, nursery=nursery) as server,
        ExitStack() as streams,
    ):
        address = f"{server.url}/v1/jobs/{job}/events"
        mine = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
        for _ in range(3):
            following = httpx.stream("GET", address, headers=mine, timeout=LONG)
            stream = streams.enter_context(following)
            assert stream.status_code == 200
        for one in (token, another):
            header = {"Authorization": f"Bearer {one}"}
            refused = answer_of(address, header)
            assert refused.status_code == 429
            assert "3 requests of one user" in refused.json()["detail"]
        theirs = {"Authorization": f"Bearer {other}"}
        assert answer_of(address, theirs).status_code == 200
        assert answer_of(f"{server.url}/healthz", {}).status_code == 200
        streams.close()
        header = {"Authorization": f"Bearer {token}"}
        # The server hears of an end when it next sends something.
        until(lambda: answer_of(address, header).status_code == 200, "room for another request")


def answer_of(address: str, header: dict[str, str]) -> httpx.Response:
    return httpx.get(address, headers=header, timeout=LONG)


def test_one_person_cannot_take_all_threads(
    settings: Settings, token: str, other: str, tmp_path: Path, nursery: Nursery
) -> None:
    going = tmp_path / "going"
    going.touch()
    slow = (
        "import time; from pathlib import Path; from adaptlab_api.routes import jobs\n"
        "def cancel(*_):\n"
        f"    while Path({str(going)!r}).exists(): time.sleep(0.05)\n"
        "    raise jobs.jobs.Absent('job', 'none')\n"
        "jobs.jobs.cancel = cancel"
    )
    with (
        a_server(settings, token, tmp_path / "log", slow, nursery=nursery) as server,
        ThreadPoolExecutor(30) as us,
    ):
        mine, theirs = ({"Authorization": f"Bearer {one}"} for one in (token, other))
        changes = [
            us.submit(httpx.post, server.url + WRITE[1], headers=mine, timeout=120)
            for _ in range(THREADS + 4)
        ]
        try:
            until(lambda: connections(server) >= len(changes), "a connection for each change")
            # With every thread taken by the changes, it would wait for them, and they for its end.
            read = httpx.get(server.url + READ[1], headers=theirs, timeout=60)
            assert read.status_code == 404
            assert not any(one.done() for one in changes)
        finally:
            going.unlink()
        assert {one.result().status_code for one in changes} == {404}


def connections(server: Running) -> int:
    """How many clients a server is connected with."""
    port = urlsplit(server.url).port
    found = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(one.status == "ESTABLISHED" and one.laddr[1] == port for one in found)


def test_good_sign_ins_have_a_rate_too(settings: Settings, token: str, other: str) -> None:
    def signs_in(client: TestClient, with_token: str) -> int:
        return client.post("/login", data={"token": with_token}).status_code

    few = {"sign_ins_per_minute": 3, **FEW}
    with a_client(settings, **few) as client:
        client.follow_redirects = False
        told = [signs_in(client, token) for _ in range(10)]
        assert told[:3] == [303] * 3
        assert 429 in told
        assert client.get("/login").status_code == 200
        good = {"Authorization": f"Bearer {token}"}
        assert client.request(*READ, headers=good).status_code == 404
    with a_client(settings, address="10.0.0.2", **few) as elsewhere:
        elsewhere.follow_redirects = False
        assert signs_in(elsewhere, other) == 303
