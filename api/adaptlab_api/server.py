"""Serving the application: uvicorn, stopped in good time even while streams are open."""

import asyncio
import ctypes
import socket

import uvicorn
from fastapi import FastAPI

from adaptlab_api.app import create_app
from adaptlab_api.state import Resources

STOP_SECONDS = 2
# From malloc.h.
M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1
LARGE = 64 * 1024  # bytes of what goes back to the system when it is free


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
    _use_little_memory()
    asyncio.run(Server(create_app(), host, port).serve())


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
