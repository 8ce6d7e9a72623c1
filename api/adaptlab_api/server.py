"""Serving with uvicorn, and stopping within seconds despite open streams."""

import asyncio
import ctypes
import gc
import signal
import socket
import sys
import time
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from types import FrameType, FunctionType
from typing import clear_overloads

import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from adaptlab.loading import uncollected
from adaptlab_api.answers.memory import give_memory_back
from adaptlab_api.answers.state import Resources
from adaptlab_api.app import create_app
from adaptlab_api.doors.http_protocol import MOST_HEADER_BYTES, PatientProtocol, ProxiedProtocol
from adaptlab_api.doors.listening import Listening
from adaptlab_api.doors.nearest_proxy import NearestProxy
from adaptlab_api.openapi import described_apart
from adaptlab_services.server import logs
from adaptlab_services.settings import Settings

Headers = list[tuple[bytes, bytes]]

STOP_SECONDS = 2
LEAVE_SIGNAL = signal.SIGUSR2
"""Asks for an end without haste, as when another process takes over the address."""
LEAVE_SECONDS = 60
# Between checks for a signal that another thread received; a stop may take longer.
TICK_SECONDS = 2.0
OURS = "adaptlab"  # how the names of our packages begin
# From malloc.h.
M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1
# Bytes from which a freed block returns to the system. Not fewer: asyncio reads 256 KiB at a time,
# and an upload is stored in rows of 1 MiB. New memory for every read took a third of an upload's
# time, and for every row a twelfth.
LARGE = 1280 * 1024
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
    _use_little_memory()
    _leave_out_pydantic_v1()
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
    app.state.description = described_apart(app)
    _give_back_memory()
    asyncio.run(server.serve(sockets))


def _use_little_memory() -> None:
    """Make glibc use one heap for all threads and return freed memory.

    This saves 10 MB and 1 MB. The threads already wait for each other because of Python's lock.
    Without glibc this does nothing.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_ARENA_MAX, 1)
        tune(M_MMAP_THRESHOLD, LARGE)
        tune(M_TRIM_THRESHOLD, LARGE)


def _leave_out_pydantic_v1() -> None:
    """Hide the first version of pydantic from FastAPI; saves 2 MB.

    FastAPI loads it only to warn of models of that version.
    """
    sys.modules.setdefault("pydantic.v1", None)  # pyright: ignore[reportArgumentType] - as documented for imports


def _forget_docstrings() -> None:
    """Delete the docstrings of other packages; requests reuse the 5 MB.

    Ours describe the routes.
    """
    for one in gc.get_objects():
        if isinstance(one, FunctionType | type) and not str(one.__module__).startswith(OURS):
            with suppress(AttributeError, TypeError):  # classes written in C
                one.__doc__ = None


def _give_back_memory() -> None:
    """Free memory after loading; saves 2 MB.

    Half of it are overloads, which Python keeps for type checkers.
    The garbage of requests is collected after `COLLECTED_AFTER` objects. By default this happened
    several times per page of a list and took 5 % of its time.
    """
    clear_overloads()
    _forget_docstrings()
    give_memory_back()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
