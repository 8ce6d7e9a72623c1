"""Whether the server can do its work, asked without a thread and without a pooled connection.

Readers that hold all of those are no reason to call a server dead, which whoever watches it would
then restart. So there is one connection for this alone, and however many ask at once, one question.
"""

import asyncio

from psycopg import AsyncConnection, Error
from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import make_url

from adaptlab_db.session import KEEPALIVE

ANSWER_SECONDS = 5.0


class Readiness:
    """The database's answer, by a connection that is kept; of one event loop."""

    def __init__(self, database_url: str) -> None:
        address = make_url(database_url).set(drivername="postgresql")
        self._address = make_conninfo(address.render_as_string(hide_password=False), **KEEPALIVE)
        self._connection: AsyncConnection | None = None
        self._asking: asyncio.Task[bool] | None = None

    async def answers(self) -> bool:
        """Whether the database answers in good time; who comes meanwhile shares the answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        """Hang up."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._hang_up()

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                # The connection of before may have ended with a restart of the database.
                return await self._answered() or await self._answered()
        except TimeoutError:
            await self._hang_up()
            return False

    async def _answered(self) -> bool:
        try:
            if self._connection is None:
                self._connection = await AsyncConnection.connect(self._address, autocommit=True)
            await self._connection.execute("SELECT 1")
        except (Error, OSError):
            await self._hang_up()
            return False
        return True

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
