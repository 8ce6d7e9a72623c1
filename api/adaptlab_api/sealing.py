"""Seals the audit log while the server runs, some seconds behind what is written."""

import asyncio
import logging
from contextlib import suppress

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.server import audit_seals

SEAL_SECONDS = 30.0
PATIENCE_SECONDS = 5.0
"""With a database that does not answer, before the server stops all the same."""
MOST_SEALS = 20
"""Of one round, so that a long log that was never sealed is caught up with little by little."""

log = logging.getLogger(__name__)


class Sealing:
    """The sealing of one process; where several servers run, one of them does each round."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        # Its own, so that it neither waits for requests nor keeps them waiting.
        self._thread = CapacityLimiter(1)

    def start(self) -> None:
        """Begin; called from the event loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End, when the round that is under way has; the rest is sealed after the next start."""
        self._over.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)

    async def _run(self) -> None:
        while not await self._is_over(SEAL_SECONDS):
            try:
                await to_thread.run_sync(seal_all, self._sessions, limiter=self._thread)
            except SQLAlchemyError as error:
                log.warning("The audit log was not sealed: %s", type(error).__name__)

    async def _is_over(self, seconds: float) -> bool:
        """Wait for so long, or until the server stops; whether it does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return self._over.is_set()


def seal_all(sessions: sessionmaker[Session]) -> int:
    """Seal what is old enough, each seal in a unit of work of its own; how many entries."""
    total = 0
    for _ in range(MOST_SEALS):
        with sessions.begin() as session:
            sealed = audit_seals.seal(session)
        total += sealed
        if sealed < audit_seals.AT_ONCE:
            break
    return total
