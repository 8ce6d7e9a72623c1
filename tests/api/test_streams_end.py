"""Streams, waits and exports end with the rights of their users.

One real server, everybody at once: what ends for one must not end for another.
"""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.serving import Running, a_server
from tests.making import a_job, a_member, a_user
from tests.nursery import Nursery

from adaptlab_api.app import create_app
from adaptlab_db.tables import Membership, Token
from adaptlab_services.lifecycle.transitions import append_event
from adaptlab_services.people import admission
from adaptlab_services.people.admission import Admitted
from adaptlab_services.people.tokens import create_token
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
GENEROUS = 120
ENDLESS = """
import time
import adaptlab_api.routes.queries as queries
def endless(*_):
    while True:
        time.sleep(0.02)  # the pace at which rows come
        yield [["x"] * 8] * 20
queries.bulk_rows.all_curves = endless
"""


@dataclass
class Somebody:
    """A member of the project with a token of their own, and what they follow."""

    name: str
    user_id: int
    token: str
    headers: dict[str, str]
    started: list[Event] = field(default_factory=list[Event])
    ends: list[Future[str]] = field(default_factory=list[Future[str]])


def revoked(who: Somebody, server: Running, sessions: Sessions) -> None:
    me = httpx.get(f"{server.url}/v1/me", headers=who.headers, timeout=GENEROUS).json()
    path = f"{server.url}/v1/tokens/{me['token']['id']}/revoke"
    httpx.post(path, headers=who.headers, timeout=GENEROUS).raise_for_status()


def expired(who: Somebody, server: Running, sessions: Sessions) -> None:
    with sessions.begin() as session:
        over = update(Token).where(Token.user_id == who.user_id)
        session.execute(over.values(expires_at=func.clock_timestamp()))


def removed(who: Somebody, server: Running, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.execute(delete(Membership).where(Membership.user_id == who.user_id))


def shut_out(who: Somebody, server: Running, sessions: Sessions) -> None:
    path = f"{server.url}/v1/users/{who.name}"
    server.client.patch(path, json={"is_active": False}).raise_for_status()


def gained(who: Somebody, server: Running, sessions: Sessions) -> None:
    """A higher role, and another project."""
    with sessions.begin() as session:
        where = Membership.user_id == who.user_id
        session.execute(update(Membership).where(where).values(role="operator"))
    server.client.post("/v1/projects", json={"name": "another"}).raise_for_status()
    place = f"/v1/projects/another/members/{who.name}"
    server.client.put(place, json={"role": "reader"}).raise_for_status()


def signed_out(who: Somebody, server: Running, sessions: Sessions) -> None:
    here = who.headers | {"Sec-Fetch-Site": "same-origin"}
    answer = httpx.post(f"{server.url}/logout", headers=here, timeout=GENEROUS)
    assert answer.status_code == 303


End = Callable[[Somebody, Running, Sessions], None]
ENDS: tuple[End, ...] = (revoked, expired, removed, shut_out, signed_out)


@pytest.fixture
def server(settings: Settings, token: str, tmp_path: Path, nursery: Nursery) -> Iterator[Running]:
    """A server whose exports have no end."""
    with a_server(settings, token, tmp_path / "log", ENDLESS, nursery=nursery) as running:
        yield running


def somebody(sessions: Sessions, server: Running, name: str) -> Somebody:
    """With a cookie instead of a token where they are to sign out."""
    with sessions.begin() as session:
        user = a_user(session, name)
        a_member(session, user, role="reader")
        token = create_token(session, user, "for a test", ("read",))
    if name != "signed_out":
        return Somebody(name, user, token, {"Authorization": f"Bearer {token}"})
    signed_in = httpx.post(f"{server.url}/login", data={"token": token}, timeout=GENEROUS)
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    return Somebody(name, user, token, {"Cookie": cookie})


def follow(url: str, headers: dict[str, str], started: Event) -> str:
    """Take a stream until it ends, and return whether it ended properly."""
    try:
        with httpx.stream("GET", url, headers=headers, timeout=GENEROUS) as answer:
            assert answer.status_code == 200
            started.set()
            for _ in answer.iter_bytes():
                pass
    except httpx.RemoteProtocolError:
        return "broke off"
    return "ended"


def wait(url: str, headers: dict[str, str], started: Event) -> str:
    """Wait for news of a job that has none, over and over."""
    started.set()
    while (answer := httpx.get(url, headers=headers, timeout=GENEROUS)).status_code == 200:
        pass
    return str(answer.status_code)


def follow_everything(who: Somebody, job: str, server: Running, pool: ThreadPoolExecutor) -> None:
    stream = who.headers | {"Accept": "text/event-stream"}
    for function, path, headers in (
        (follow, f"{job}/events", stream),
        (follow, "/v1/results/curves", who.headers),
        (wait, f"{job}?wait=60", who.headers),
    ):
        who.started.append(Event())
        who.ends.append(pool.submit(function, server.url + path, headers, who.started[-1]))


def test_what_is_followed_ends_with_the_rights_and_only_then(
    server: Running, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        job = f"/v1/jobs/{a_job(session)}"
    people = {end: somebody(sessions, server, end.__name__) for end in ENDS}
    stays = somebody(sessions, server, "stays")
    with ThreadPoolExecutor(3 * (len(ENDS) + 1)) as pool:
        for who in (*people.values(), stays):
            follow_everything(who, job, server, pool)
        for who in (*people.values(), stays):
            assert all(started.wait(GENEROUS) for started in who.started), who.name
        gained(stays, server, sessions)
        for end, who in people.items():
            end(who, server, sessions)
            told = [one.result(GENEROUS) for one in who.ends]
            # A wait that begins after the end is refused as any request is.
            assert told in (["ended", "broke off", "401"], ["ended", "broke off", "403"]), who.name
        assert not any(one.done() for one in stays.ends[:2])
        shut_out(stays, server, sessions)
        assert [one.result(GENEROUS) for one in stays.ends[:2]] == ["ended", "broke off"]


def test_nothing_is_told_of_what_happened_after_the_rights_have_ended(
    settings: Settings, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the rights is found with the news of the next event."""
    with sessions.begin() as session:
        job_id = a_job(session)
        append_event(session, job_id, "before", {})
        user = a_user(session, "bert")
        a_member(session, user)
        token = create_token(session, user, "x", ("read",))
    real = admission.still_good

    def ending(session: Session, known: Collection[Admitted]) -> Collection[Admitted]:
        with sessions.begin() as other:
            other.execute(update(Token).values(revoked_at=func.clock_timestamp()))
            append_event(other, job_id, "afterwards", {})
        return real(session, known)

    monkeypatch.setattr(admission, "still_good", ending)
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    with TestClient(create_app(settings), headers=headers) as client:
        told = client.get(f"/v1/jobs/{job_id}/events").text
    assert "before" in told
    assert "afterwards" not in told
