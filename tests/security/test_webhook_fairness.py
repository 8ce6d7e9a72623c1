"""Attempts of a project to delay webhooks of others, or to scan by them."""

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, TypeVar

import pytest
from sqlalchemy import insert
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_project
from tests.receiving import Receiver, a_webhook, open_to_loopback, receiving

from adaptlab_db.tables import WebhookDelivery
from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.settings import Settings
from adaptlab_services.webhooks import due_deliveries
from adaptlab_services.webhooks.delivering import Deliveries
from adaptlab_services.webhooks.sending import WebhookRequest, send

Sessions = sessionmaker[Session]
SILENT_WEBHOOKS, MESSAGES = 30, 4
SOON = 3.0
"""Seconds; before, a round of silent receivers took ten."""


T = TypeVar("T")


def awaited(sending: Coroutine[Any, Any, T]) -> T:
    """Return the result, from a thread without another event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, sending).result()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a receiver that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1000)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def messages_due(session: Session, webhook: int, project: int, count: int) -> None:
    """Messages to a webhook that are due now."""
    rows = [
        {"id": uuid.uuid4(), "webhook_id": webhook, "project_id": project, "event": "webhook.test",
         "key": f"test:{uuid.uuid4()}"}
        for _ in range(count)
    ]  # fmt: skip
    session.execute(insert(WebhookDelivery), rows)


def test_silent_receivers_of_one_project_delay_no_other(
    sessions: Sessions, settings: Settings, silent: str, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        attacker, other = a_project(session, "attacker"), a_project(session, "other")
        for _ in range(SILENT_WEBHOOKS):
            messages_due(
                session, a_webhook(session, silent, project_id=attacker), attacker, MESSAGES
            )
        honest = a_webhook(session, receiver.url, project_id=other)
    deliveries = Deliveries(sessions, open_to_loopback(settings))
    is_over = threading.Event()

    def deliver() -> None:
        while not is_over.is_set():
            deliveries.round()

    thread = threading.Thread(target=deliver)
    thread.start()
    try:
        time.sleep(1)  # the silent ones are all under way
        with sessions.begin() as session:
            messages_due(session, honest, other, 1)
        began = time.monotonic()
        while not receiver.received and time.monotonic() < began + 30:
            time.sleep(0.02)
        assert time.monotonic() - began < SOON
    finally:
        is_over.set()
        thread.join()
        deliveries.close()


def test_projects_with_much_to_send_leave_room_for_another(sessions: Sessions, silent: str) -> None:
    """Though their messages alone would fill what a process sends at once."""
    with sessions.begin() as session:
        for number in range(due_deliveries.MOST_AT_ONCE // due_deliveries.MOST_PER_PROJECT):
            busy = a_project(session, f"busy-{number}")
            webhook = a_webhook(session, silent, project_id=busy)
            messages_due(session, webhook, busy, due_deliveries.MOST_PER_PROJECT)
    with sessions.begin() as session:
        other = a_project(session, "other")
        messages_due(session, a_webhook(session, silent, project_id=other), other, 1)
    with sessions.begin() as session:
        claimed = due_deliveries.claim(session)
    assert len(claimed) == due_deliveries.MOST_AT_ONCE
    assert other in {one.project_id for one in claimed}


@pytest.mark.parametrize("name", ["internal.example", "database.local"])
def test_a_name_of_an_internal_host_is_answered_without_its_address(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain = socket.getaddrinfo

    def internal(host: str, *rest: object, **more: object) -> object:
        if host != name or more.get("flags") == socket.AI_NUMERICHOST:
            return plain(host, *rest, **more)  # type: ignore[arg-type]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.11.12.13", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", internal)
    outcome = awaited(send(WebhookRequest(f"https://{name}/hook", {}, b""), AddressRules()))
    assert outcome.error is not None
    assert "10.11" not in outcome.error
    assert name in outcome.error


def test_a_refused_connection_is_answered_without_its_address(settings: Settings) -> None:
    rules = AddressRules.of(open_to_loopback(settings))
    request = WebhookRequest("http://localhost:1/hook", {}, b"")
    outcome = awaited(send(request, rules))
    assert outcome.error is not None
    assert "127.0.0.1" not in outcome.error


@pytest.mark.parametrize(
    "address",
    [
        *("168.63.129.16", "169.254.169.254", "100.100.100.200", "192.88.99.1", "198.18.0.1"),
        *("0.0.0.0", "255.255.255.255", "240.0.0.1", "224.0.0.1"),
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fc00::1", "2002:7f00:1::"),
        *("fec0::1", "feff::1", "fe80::1", "fd00:ec2::254", "ff02::1", "::1", "::"),
        *("3fff::1", "3fff:fff::1", "2001:db8::1", "100::1", "5f00::1", "4000::1"),
        *("64:ff9b:1::a00:1", "::7f00:1", "::ffff:0:7f00:1", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
        *("2002:0a00:0001::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe"),
        *("2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "fe80::5efe:8.8.8.8"),
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert not AddressRules().allows(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("93.184.216.34", "8.8.8.8", "2606:4700::1111", "2001:4860:4860::8888"),
        *("2606:4700::5efe:8.8.8.8", "64:ff9b::5db8:d822", "168.63.129.17"),
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert AddressRules().allows(ip_address(address))
