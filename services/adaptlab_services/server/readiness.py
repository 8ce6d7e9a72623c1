"""Readiness checks without a thread and without a pooled connection.

A server whose threads or connections are all in use must not look dead, or its supervisor would
restart it. Each part therefore has a connection for this purpose alone, and simultaneous requests
share one check. A check of a server that hangs is not cancelled, because psycopg takes five seconds
to cancel: it continues, and the next request waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Literal

from psycopg import AsyncConnection, Error
from psycopg.conninfo import make_conninfo
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from sqlalchemy.engine import make_url

from adaptlab_db.session import KEEPALIVE
from adaptlab_services.settings import Settings

ANSWER_SECONDS = 2.0
"""Time limit for all parts together, which are checked simultaneously."""

Part = Literal["database", "broker", "artifacts"]


class Readiness:
    """Readiness of the parts that a server needs; belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._database = _Database(settings.database_url)
        self._broker = _Broker(settings.broker_url)
        self._folder = _Folder(settings.artifact_folder)
        self._questions: dict[Part, _Question] = {
            "database": _Question(self._database.answers),
            "broker": _Question(self._broker.answers),
            "artifacts": _Question(self._folder.answers),
        }

    async def silent(self) -> tuple[Part, ...]:
        """Return the parts that do not answer within `ANSWER_SECONDS`.

        Simultaneous calls share one check.
        """
        tasks: dict[Part, asyncio.Task[bool]] = {
            part: question.task() for part, question in self._questions.items()
        }
        await asyncio.wait(tasks.values(), timeout=ANSWER_SECONDS)
        return tuple(part for part, task in tasks.items() if not (task.done() and task.result()))

    async def close(self) -> None:
        """Close the connections, waiting at most `ANSWER_SECONDS` for open checks."""
        cancelled = (question.cancel() for question in self._questions.values())
        tasks = [task for task in cancelled if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
        await self._database.hang_up()
        await self._broker.hang_up()
        self._folder.close()


class _Question:
    """A check that runs at most once at a time."""

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._task: asyncio.Task[bool] | None = None

    def task(self) -> asyncio.Task[bool]:
        """Return the running check, or start one."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer())
        return self._task

    def cancel(self) -> asyncio.Task[bool] | None:
        """Cancel the running check, if any."""
        if self._task is not None:
            self._task.cancel()
        return self._task

    async def _answer(self) -> bool:
        return await self._ask()


class _Database:
    """The database, over a persistent connection."""

    def __init__(self, url: str) -> None:
        address = make_url(url).set(drivername="postgresql")
        self._address = make_conninfo(address.render_as_string(hide_password=False), **KEEPALIVE)
        self._connection: AsyncConnection | None = None

    async def answers(self) -> bool:
        # The first attempt fails if the database was restarted since the last check.
        return await self._answered() or await self._answered()

    async def _answered(self) -> bool:
        try:
            if self._connection is None:
                self._connection = await AsyncConnection.connect(self._address, autocommit=True)
            await self._connection.execute("SELECT 1")
        except (Error, OSError):
            await self.hang_up()
            return False
        return True

    async def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class _Broker:
    """Valkey, over a client of its own."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options have no types
            url,
            socket_timeout=ANSWER_SECONDS / 2,
            socket_connect_timeout=ANSWER_SECONDS / 2,
            retry=Retry(NoBackoff(), 0),
        )

    async def answers(self) -> bool:
        with suppress(RedisError, OSError):
            return bool(await self._client.ping())  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues, reportUnknownArgumentType] - as above
        return False

    async def hang_up(self) -> None:
        await self._client.aclose()


class _Folder:
    """The folder of artifacts, if configured; a network disk can hang too.

    Bytes in Postgres are covered by the database. S3 is contacted only when needed, because its
    outage is no reason to restart servers.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "readiness") if folder is not None else None

    async def answers(self) -> bool:
        if self._folder is None:
            return True
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._folder.is_dir)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
