"""A server that stands still: connections stay open, nothing arrives."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from sqlalchemy import make_url


class Passage:
    """A port on this machine that leads to a server, until it is frozen.

    To whoever uses it that is what SIGSTOP does to the server: the kernel still takes connections
    and bytes, and nobody answers.
    """

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._loop: asyncio.AbstractEventLoop
        self._moves: asyncio.Event
        self._over: asyncio.Event
        self._opened: set[asyncio.StreamWriter] = set()
        self.port = 0

    def freeze(self) -> None:
        """Pass nothing on until `thaw`."""
        self._loop.call_soon_threadsafe(self._moves.clear)

    def thaw(self) -> None:
        """Pass on what came meanwhile, and all that follows."""
        self._loop.call_soon_threadsafe(self._moves.set)

    def end(self) -> None:
        """Cut every connection and stop serving."""
        self._loop.call_soon_threadsafe(self._over.set)

    async def run(self, ready: threading.Event) -> None:
        """Serve until `end`."""
        self._loop, self._moves, self._over = (
            asyncio.get_running_loop(),
            asyncio.Event(),
            asyncio.Event(),
        )
        self._moves.set()
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._over.wait()
        server.close()
        self._moves.set()
        for writer in self._opened:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._moves.wait()
        there, back = await asyncio.open_connection(*self._to)
        self._opened |= {writer, back}
        await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        self._opened -= {writer, back}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                await self._moves.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextmanager
def passage_to(url: str) -> Generator[tuple[Passage, str]]:
    """A passage to the server of a URL, and the URL that leads through it."""
    address = make_url(url)
    passage, ready = Passage(address.host or "", address.port or 5432), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(passage.run(ready)), daemon=True)
    thread.start()
    assert ready.wait(60)
    through = address.set(host="127.0.0.1", port=passage.port)
    try:
        yield passage, through.render_as_string(hide_password=False)
    finally:
        passage.end()
        thread.join(60)
