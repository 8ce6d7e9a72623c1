"""Serving with uvicorn, and stopping within seconds despite open streams."""

import asyncio
import gc
import signal
import socket
import time
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from adaptlab.loading import uncollected
from adaptlab_api.answers.state import Resources
from adaptlab_api.app import create_app
from adaptlab_api.doors.http_protocol import MOST_HEADER_BYTES, PatientProtocol, ProxiedProtocol
from adaptlab_api.doors.listening import Listening
from adaptlab_api.doors.nearest_proxy import NearestProxy
from adaptlab_services.server import logs
from adaptlab_services.settings import Settings

Headers = list[tuple[bytes, bytes]]

STOP_SECONDS = 2
LEAVE_SIGNAL = signal.SIGUSR2
"""Asks for an end without haste, as when another process takes over the address."""
LEAVE_SECONDS = 60
# Between checks for a signal that another thread received; a stop may take longer.
TICK_SECONDS = 2.0
COLLECTED_AFTER = 5000  # objects


class DatedState(ServerState):
    """State shared by uvicorn's connections; the date is formatted on demand."""

    def __init__(self) -> None:
        self._second = 0
        self._headers: Headers = []
        super().__init__()

    @property
    def default_headers(self) -> Headers:
        """Headers of every answer, with the date of this second."""
        now = int(time.time())
        if now != self._second:
            date = formatdate(now, usegmt=True).encode()
            changed = [(name, date if name == b"date" else value) for name, value in self._headers]
            self._second, self._headers = now, changed
        return self._headers

    @default_headers.setter
    def default_headers(self, headers: Headers) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] - uvicorn's is no property
        self._headers = headers


class Server(uvicorn.Server):
    """A uvicorn server that ends its event streams before it stops.

    uvicorn's own wakes up ten times a second, which was most of the work of an idle server. This
    one sleeps until a signal wakes it, and formats the date when there is an answer.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        *,
        certificate: Path | None = None,
        key: Path | None = None,
        behind_proxy: bool = False,
    ) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()
        super().__init__(
            uvicorn.Config(
                NearestProxy(app) if behind_proxy else app,
                host=host,
                port=port,
                ssl_certfile=certificate,
                ssl_keyfile=key,
                # uvicorn would trust any process on this machine, or the first entry, which the
                # client writes.
                proxy_headers=False,
                http=ProxiedProtocol if behind_proxy else PatientProtocol,
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
                access_log=False,  # `RequestRecord` has its own
                log_config=None,
                log_level=None,
                server_header=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self.server_state = DatedState()

    async def main_loop(self) -> None:
        """Wait until the server is to stop."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # 0: the first tick sets the headers of answers
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._leaving.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop because of a signal."""
        super().handle_exit(sig, frame)
        self.leave()

    def leave_without_haste(self, sig: int, frame: FrameType | None) -> None:
        """Accept no more requests, and give those that have begun more time."""
        self.config.timeout_graceful_shutdown = LEAVE_SECONDS
        self.leave()

    def leave(self) -> None:
        """Begin to stop at once; may be called from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._leaving.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more requests, end streams and waits, and finish the rest."""
        opened = getattr(self._app.state, "resources", None)
        if isinstance(opened, Resources):
            opened.feed.close()
        await super().shutdown(sockets)


def serve(listening: Listening, inherited: int | None = None) -> None:
    """Serve until a signal, on a new socket or one inherited by number.

    Raises:
        UnsafeAddress: if tokens would cross a network unencrypted.
    """
    listening.check()
    sockets = None if inherited is None else [socket.socket(fileno=inherited)]
    settings = Settings()  # pyright: ignore[reportCallIssue] - from the environment
    logs.set_up(settings)
    with uncollected():
        app = create_app(settings)
    server = Server(
        app,
        listening.host,
        listening.port,
        certificate=listening.certificate,
        key=listening.key,
        behind_proxy=listening.behind_proxy,
    )
    signal.signal(LEAVE_SIGNAL, server.leave_without_haste)
    _collect_rarely()
    asyncio.run(server.serve(sockets))


def _collect_rarely() -> None:
    """Collect the garbage of requests after `COLLECTED_AFTER` objects.

    By default this happened several times per page of a list and took 5 % of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
