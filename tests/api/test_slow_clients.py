"""Slow, silent and wrong clients are answered, and nobody waits."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from tests.api.serving import Running, a_server
from tests.nursery import Nursery
from tests.security.slow_clients import MEGABYTE, attack

from adaptlab_services.settings import Settings

pytestmark = pytest.mark.may_stand_still(
    "the server waits seconds for clients, which stand still too"
)
CROWDED = """
from adaptlab_api.doors import body_limit
from adaptlab_api.doors import http_protocol
from adaptlab_api.doors import open_requests
body_limit.DRAIN_SECONDS = 1.0
http_protocol.MOST_CONNECTIONS = 200
open_requests.PATIENCE_SECONDS = 60.0  # what is read meanwhile is not refused on a slow machine
"""
HURRIED = f"""{CROWDED}
http_protocol.HEADER_SECONDS = body_limit.GRACE_SECONDS = 1.0
"""
"""What takes ten seconds in production takes one here."""
SMALL_BUFFERS = """
import socket
from adaptlab_api.doors import http_protocol
made = http_protocol.PatientProtocol.connection_made
def made_small(self, transport):
    own = transport.get_extra_info("socket")
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    made(self, transport)
http_protocol.PatientProtocol.connection_made = made_small
"""
"""The kernel takes little of an answer, so that most of its 33 KB are left to the server."""
FEW_FROM_ONE = f"{SMALL_BUFFERS}http_protocol.MOST_FROM_ONE_ADDRESS = 40\n"
IMPATIENT = f"{SMALL_BUFFERS}http_protocol.SEND_SECONDS = 2.0\n"
HURRIED_LITTLE = HURRIED.replace("1.0", "5.0")
"""For attackers that share two cores: one that says nothing for a second need not be silent."""
UNDEFENDED = """
from adaptlab_api import server
from uvicorn.protocols.http.h11_impl import H11Protocol
server.PatientProtocol = H11Protocol
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def server(settings: Settings, token: str, log: Path, nursery: Nursery) -> Iterator[Running]:
    """A server whose patience with heads and bodies is that of production."""
    with a_server(settings, token, log, before=CROWDED, nursery=nursery) as running:
        yield running


@pytest.mark.long("large uploads and slow clients")
def test_an_attack_is_not_noticed_by_others(settings: Settings, token: str, log: Path) -> None:
    # In a thread of its own: Playwright leaves a loop running in that of the tests.
    with a_server(settings, token, log, HURRIED_LITTLE) as server, ThreadPoolExecutor(1) as own:
        attacking = attack(server, slow=60, silent=20, large=100 * MEGABYTE, seconds=3)
        found = own.submit(asyncio.run, attacking).result()
    assert found.failed == []
    assert found.grown < 64 * MEGABYTE
    assert found.ends == {
        "slow head: 408": 60,
        "silent: closed without a word": 20,
        "slow body: 408": 1,
        "large body: 413": 1,
        "large body, chunked: 413": 1,
    }
    assert "Traceback" not in log.read_text()


def address_of(server: Running) -> tuple[str, int]:
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def connect(server: Running) -> socket.socket:
    return socket.create_connection(address_of(server), timeout=60)


def said(connection: socket.socket, *pieces: bytes) -> bytes:
    """What comes back until the server hangs up."""
    answer = b""
    try:
        for piece in pieces:
            connection.sendall(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has been answered before all of it was sent
    try:
        while piece := connection.recv(65536):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


STYLES = b"GET /static/adaptlab.css HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
NO_REQUESTS = {
    "no http": (b"hello\r\n\r\n", 400),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), 400),
    "another version": (b"GET / HTTP/two\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "a space before a colon": (GOOD + b"X : y\r\n\r\n", 400),
    "a folded first header": (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
    "a negative length": (GOOD + b"Content-Length: -1\r\n\r\n", 400),
    "two lengths": (GOOD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "a length and chunks": (
        GOOD + b"Connection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n",
        400,
    ),
    "chunks that are none": (
        b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\nxyz\r\n",
        400,
    ),
    "a head of 20 KiB": (GOOD + b"Connection: close\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", 431),
    "a head of 100 KiB": (GOOD + b"Connection: close\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431),
    "a head without an end": (GOOD + b"X: " + b"y" * 100_000, 431),
    "a long address": (b"GET /healthz?" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n"
                       b"Connection: close\r\n\r\n", 431),
    "4,000 headers": (GOOD + b"Connection: close\r\n" + b"a: b\r\n" * 4_000 + b"\r\n", 431),
}  # fmt: skip


def test_what_is_no_request_is_answered_with_a_problem(server: Running, log: Path) -> None:
    for what, (sent, status) in NO_REQUESTS.items():
        with connect(server) as connection:
            answer = said(connection, sent)
        assert answer.startswith(b"HTTP/1.1 %d " % status), (what, answer[:200])
        assert b"application/problem+json" in answer, what
    assert server.client.get("/healthz").status_code == 200
    assert "Traceback" not in log.read_text()


def test_a_body_that_breaks_off_is_nobodys_fault(server: Running, log: Path) -> None:
    token = server.client.headers["authorization"].encode()
    head = (
        b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n"
        b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{" % token
    )
    for _ in range(3):
        with connect(server) as connection:
            connection.sendall(head)
    assert server.client.get("/v1/jobs").json()["data"] == []
    assert "Traceback" not in log.read_text()
    assert "ERROR" not in log.read_text()


def test_a_request_in_pieces_and_one_after_the_other_is_none_of_this(server: Running) -> None:
    with connect(server) as connection:
        for _ in range(3):
            for piece in (b"GET /healthz HT", b"TP/1.1\r\nHost: x\r\n", b"\r\n"):
                connection.sendall(piece)
                time.sleep(0.2)  # a slow client, well within its time
            answer = b""
            while not answer.endswith(b"}"):  # the head may come before the body
                piece = connection.recv(65536)
                assert piece, answer
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall((GOOD + b"\r\n") * 2 + GOOD + b"Connection: close\r\n\r\n")
        assert said(connection).count(b"HTTP/1.1 200") == 3


def test_the_longest_silent_make_room_for_others(server: Running) -> None:
    silent = [connect(server) for _ in range(250)]
    try:
        for _ in range(20):
            with connect(server) as other:
                answer = said(other, GOOD + b"Connection: close\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 200")
    finally:
        for connection in silent:
            connection.close()


def leave_answers(server: Running, held: ExitStack, count: int) -> None:
    """Leave that many answers unread, each on a connection of its own."""
    for _ in range(count):
        one = held.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(60)
        one.connect(address_of(server))
        one.sendall(STYLES)
        assert one.recv(1) == b"H"


def open_files(server: Running) -> int:
    return psutil.Process(server.process.pid).num_fds()


def test_connections_count_until_the_last_byte_of_their_answer_is_taken(
    settings: Settings, token: str, log: Path, nursery: Nursery
) -> None:
    with (
        a_server(settings, token, log, FEW_FROM_ONE, nursery=nursery) as server,
        ExitStack() as held,
    ):
        before = open_files(server)
        leave_answers(server, held, 120)
        assert server.client.get("/healthz").status_code == 200
        assert open_files(server) <= before + 41


def test_answers_that_nobody_takes_are_given_up_to_the_last_byte(
    settings: Settings, token: str, log: Path, nursery: Nursery
) -> None:
    with a_server(settings, token, log, IMPATIENT, nursery=nursery) as server, ExitStack() as held:
        before = open_files(server)
        leave_answers(server, held, 10)
        deadline = time.monotonic() + 30
        while open_files(server) > before:
            assert time.monotonic() < deadline, "connections stay for what nobody takes"
            time.sleep(0.1)  # between two looks; the loop ends by what it waits for


@pytest.mark.long("ablation of a defence")
def test_without_the_defence_they_stay(
    settings: Settings, token: str, log: Path, nursery: Nursery
) -> None:
    before = HURRIED + UNDEFENDED
    with (
        a_server(settings, token, log, before, nursery=nursery) as server,
        connect(server) as connection,
    ):
        connection.settimeout(3)
        connection.sendall(b"GET")
        with pytest.raises(TimeoutError):
            connection.recv(1)
