"""Serving the application: uvicorn, stopped in good time even while streams are open."""

import asyncio
import ctypes
import socket

import uvicorn
from fastapi import FastAPI

from adaptlab_api.app import create_app
from adaptlab_api.state import Resources

STOP_SECONDS = 2
M_ARENA_MAX = -8  # from malloc.h


class Server(uvicorn.Server):
    """A uvicorn server that ends its event streams before it waits for connections to close."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        self._app = app
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                access_log=False,
                log_level="info",
                server_header=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: no new requests, streams and waits ended, the rest given a moment."""
        opened = getattr(self._app.state, "resources", None)
        if isinstance(opened, Resources):
            opened.feed.close()
        await super().shutdown(sockets)


def serve(host: str, port: int) -> None:
    """Serve until a signal says stop."""
    _share_one_arena()
    asyncio.run(Server(create_app(), host, port).serve())


def _share_one_arena() -> None:
    """Keep glibc from giving every thread a heap of its own; saves 10 MB of memory.

    The threads wait for each other's Python anyway. Elsewhere than on glibc this does nothing.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_ARENA_MAX, 1)
