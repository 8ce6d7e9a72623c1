"""Turns at the shared threads, so that one user cannot use them all."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

T = TypeVar("T")


class Turns(asyncio.Semaphore):
    """The threads that one user may use at a time for one kind of request."""


class Turn:
    """The turn of one request; a long answer takes it again for each piece."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_taken = False

    async def take(self, seconds: float | None = None) -> bool:
        """Wait for a turn; return False if there was none within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
        except TimeoutError:
            return False
        self._is_taken = True
        return True

    def give_back(self) -> None:
        """Give the turn back; safe to repeat."""
        if self._is_taken:
            self._is_taken = False
            self._turns.release()

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call the function in a thread, during the turn."""
        if not self._is_taken:
            await self.take()
        try:
            return await run_in_threadpool(function, *arguments)
        finally:
            self.give_back()


def turn_of(request: Request) -> Turn:
    """Return the turn of a request, or a new one if requests are not counted."""
    turn = getattr(request.state, "turn", None)
    return turn if isinstance(turn, Turn) else Turn(Turns())
