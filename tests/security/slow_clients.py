"""Clients that hold a real server up.

Run `python -m tests.security.slow_clients`.

500 connections that send their heads a byte at a time, 100 that say nothing, a body of 300 MB and
one that comes a byte a second, all at once. Printed are what other requests took before and
meanwhile, what the server's memory grew by, and how each attacker was answered.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from sqlalchemy import make_url
from tests.api.serving import Running, a_server
from tests.databases import Databases
from tests.making import a_token

from adaptlab_db.migrate import upgrade
from adaptlab_db.session import close, session_factory
from adaptlab_services.settings import Settings
from adaptlab_stack.servers import embedded_servers

MEGABYTE = 2**20
LARGE = 300 * MEGABYTE
SLOW = 500
SILENT = 100
PIECE = 64 * 1024
ASKED_A_SECOND = 20
WATCHED = ("/healthz", "/v1/jobs", "/login")


@dataclass
class Found:
    """What was seen of one server under attack; times are in seconds."""

    calm: list[float] = field(default_factory=list[float])
    attacked: list[float] = field(default_factory=list[float])
    failed: list[str] = field(default_factory=list[str])
    grown: int = 0
    ends: Counter[str] = field(default_factory=Counter[str])

    @property
    def bounds(self) -> tuple[float, float]:
        """The 99th percentile of other requests' times, before and meanwhile."""
        return _percentile(self.calm), _percentile(self.attacked)


@dataclass(frozen=True)
class Target:
    """Where the server listens, and a token for it."""

    host: str
    port: int
    token: str

    @classmethod
    def of(cls, server: Running) -> "Target":
        host, port = server.url.removeprefix("http://").split(":")
        return cls(host, int(port), server.client.headers["authorization"])


async def attack(server: Running, *, slow: int, silent: int, large: int, seconds: float) -> Found:
    """Attack with connections and bytes; watch before and meanwhile."""
    found, target = Found(), Target.of(server)
    async with httpx.AsyncClient(
        base_url=server.url, headers={"Authorization": target.token}, timeout=30
    ) as others:
        await _watch(others, 1, [], found.failed)  # what happens once, at the first requests
        await _watch(others, seconds / 2, found.calm, found.failed)
        before = server.resident
        ends = [
            *(_drip(target) for _ in range(slow)),
            *(_say_nothing(target) for _ in range(silent)),
            _large(target, large, chunked=False),
            _large(target, large, chunked=True),
            _dripping_body(target),
        ]
        attackers = [asyncio.create_task(one) for one in ends]
        peak = asyncio.create_task(_peak(server))
        await _watch(others, seconds, found.attacked, found.failed)
        done = await asyncio.gather(*attackers)
        peak.cancel()
        found.grown = max(server.resident, *await asyncio.gather(peak)) - before
    found.ends.update(done)
    return found


async def _watch(
    client: httpx.AsyncClient, seconds: float, times: list[float], failed: list[str]
) -> None:
    """Ask as others would, at a steady rate, whatever the answers take."""

    async def ask(path: str) -> None:
        began = time.perf_counter()
        try:
            answer = await client.get(path)
        except httpx.TransportError as error:
            failed.append(f"{path}: {error!r}")
            return
        times.append(time.perf_counter() - began)
        if answer.status_code != 200:
            failed.append(f"{path}: {answer.status_code}")

    async with asyncio.TaskGroup() as group:
        for number in range(round(seconds * ASKED_A_SECOND)):
            group.create_task(ask(WATCHED[number % len(WATCHED)]))
            await asyncio.sleep(1 / ASKED_A_SECOND)


async def _peak(server: Running) -> int:
    most = 0
    try:
        while True:
            most = max(most, server.resident)
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        return most


async def _drip(target: Target) -> str:
    """A head that arrives a byte at a time, and never whole."""
    return await _send(target, _slowly(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "), "slow head")


async def _say_nothing(target: Target) -> str:
    return await _send(target, (), "silent")


async def _dripping_body(target: Target) -> str:
    """A body of which a byte a second arrives."""
    head = _head(target) + b"Content-Length: 1000000\r\n\r\n"
    return await _send(target, _slowly(b"{", head), "slow body")


async def _large(target: Target, size: int, *, chunked: bool) -> str:
    piece = b"x" * PIECE
    if chunked:
        head = _head(target) + b"Transfer-Encoding: chunked\r\n\r\n"
        one = b"%x\r\n%s\r\n" % (len(piece), piece)
    else:
        head = _head(target) + b"Content-Length: %d\r\n\r\n" % size
        one = piece
    pieces = (one for _ in range(size // PIECE))
    what = "large body, chunked" if chunked else "large body"
    return await _send(target, ((piece, 0.0) for piece in (head, *pieces)), what)


def _head(target: Target) -> bytes:
    return (
        f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: {target.token}\r\n"
        "Content-Type: application/json\r\n"
    ).encode()


def _slowly(rest: bytes, at_once: bytes = b"") -> Iterator[tuple[bytes, float]]:
    yield at_once or rest[:1], 0.0
    for byte in rest:
        yield bytes([byte]), 1.0
    while True:
        yield b"a", 1.0


async def _send(target: Target, pieces: Iterable[tuple[bytes, float]], what: str) -> str:
    """Send the pieces with their pauses, until the server reacts."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    answer = asyncio.create_task(_answer(reader))
    try:
        for piece, pause in pieces:
            if pause:
                await asyncio.wait([answer], timeout=pause)
            if answer.done():
                break
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    try:
        status = await asyncio.wait_for(answer, 60)
    finally:
        writer.close()
    return f"{what}: {status}"


async def _answer(reader: asyncio.StreamReader) -> str:
    try:
        said = await reader.read(64)  # not to the end, which a server that hangs up cuts off
    except OSError:
        return "cut off"
    return said[9:12].decode() if said else "closed without a word"


def _percentile(times: list[float], share: float = 0.99) -> float:
    return sorted(times)[int(share * (len(times) - 1))] if times else float("nan")


@contextmanager
def a_server_of_its_own() -> Iterator[Running]:
    """A server on embedded servers of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with (
            embedded_servers(folder / "data", durable=False) as servers,
            Databases(servers.database_url) as databases,
            databases.copy_of("template0") as url,
        ):
            upgrade(url)
            sessions = session_factory(url)
            with sessions.begin() as session:
                token = a_token(session)
            close(sessions)
            broker = make_url(servers.broker_url).render_as_string(hide_password=False)
            settings = Settings(database_url=url, broker_url=broker, data_dir=folder)
            with a_server(settings, token, folder / "log") as server:
                yield server


def main() -> None:
    """Attack once at full size and print what was found."""
    with a_server_of_its_own() as server:
        found = asyncio.run(attack(server, slow=SLOW, silent=SILENT, large=LARGE, seconds=30))
        after = server.resident
        files = psutil.Process(server.process.pid).num_fds()
    calm, attacked = found.bounds
    print(f"other requests, 99th percentile: {calm * 1000:.0f} ms calm, {attacked * 1000:.0f} ms "
          f"under attack ({len(found.attacked)} requests, {len(found.failed)} failed)")  # fmt: skip
    print(f"memory: {found.grown / MEGABYTE:.0f} MiB more at most, {after / MEGABYTE:.0f} MiB "
          f"afterwards; {files} open files")  # fmt: skip
    for end, count in sorted(found.ends.items()):
        print(f"{count:4} {end}")
    for fault in found.failed[:5]:
        print(f"failed: {fault}")


if __name__ == "__main__":
    main()
