"""Serving the application: uvicorn, stopped in good time even while streams are open."""

import asyncio
import ctypes
import gc
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

Headers = list[tuple[bytes, bytes]]

STOP_SECONDS = 2
# Between two looks for a signal that another thread was given; a stop allows for more.
TICK_SECONDS = 2.0
# From malloc.h.
M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1
# Bytes of what goes back to the system when it is free. Not less: asyncio reads 256 KiB at a time,
# and an upload is kept in rows of 1 MiB. Fresh memory for each of the one took a third of the time
# that an upload needs, and for each of the other a twelfth.
LARGE = 1280 * 1024
COLLECTED_AFTER = 5000  # objects


class DatedState(ServerState):
    """What uvicorn's connections share, of which the date is made when it is asked for."""

    def __init__(self) -> None:
        self._second = 0
        self._headers: Headers = []
        super().__init__()

    @property
    def default_headers(self) -> Headers:
        """What every answer begins with; the date is that of this second."""
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
    """A uvicorn server that ends its event streams before it waits for connections to close.

    It sleeps where uvicorn's own wakes up ten times a second, which was most of what an idle server
    did: a signal wakes it, and the date in answers is made when there is an answer.
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
                # uvicorn would believe whoever is on this machine, or the first entry, which is
                # the client's own.
                proxy_headers=False,
                http=ProxiedProtocol if behind_proxy else PatientProtocol,
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
                access_log=False,
                log_level="info",
                server_header=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self.server_state = DatedState()

    async def main_loop(self) -> None:
        """Wait until it is time to leave."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # 0: the first makes the headers of answers
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._leaving.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Leave because of a signal."""
        super().handle_exit(sig, frame)
        self.leave()

    def leave(self) -> None:
        """Begin to stop at once; any thread may ask for it."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._leaving.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: no new requests, streams and waits ended, the rest given a moment."""
        opened = getattr(self._app.state, "resources", None)
        if isinstance(opened, Resources):
            opened.feed.close()
        await super().shutdown(sockets)


def serve(listening: Listening, inherited: int | None = None) -> None:
    """Serve until a signal says stop, on a new socket or on one inherited by its number.

    Raises `UnsafeAddress` where others would send their tokens in the clear.
    """
    listening.check()
    _use_little_memory()
    sockets = None if inherited is None else [socket.socket(fileno=inherited)]
    with uncollected():
        app = create_app()
    server = Server(
        app,
        listening.host,
        listening.port,
        certificate=listening.certificate,
        key=listening.key,
        behind_proxy=listening.behind_proxy,
    )
    _give_back_memory()
    asyncio.run(server.serve(sockets))


def _use_little_memory() -> None:
    """Keep glibc from giving every thread a heap of its own, and from keeping what is free.

    That saves 10 MB and 1 MB. The threads wait for each other's Python anyway. Elsewhere than on
    glibc this does nothing.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_ARENA_MAX, 1)
        tune(M_MMAP_THRESHOLD, LARGE)
        tune(M_TRIM_THRESHOLD, LARGE)


def _give_back_memory() -> None:
    """Free what loading has left over, and never look again at what stays; saves 1 MB.

    What requests leave behind is looked through for cycles after so many objects: by default that
    happened several times for a page of a list, and took a twentieth of it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
