"""Turns at the threads that all requests share, so that one person does not use them all."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

T = TypeVar("T")


class Turns(asyncio.Semaphore):
    """So many threads at a time for one person and one kind of request."""


class Turn:
    """One request's turn: taken, given back, and taken again for each piece of a long answer."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_taken = False

    async def take(self, seconds: float | None = None) -> bool:
        """Wait for a turn; False if there was none for so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
        except TimeoutError:
            return False
        self._is_taken = True
        return True

    def give_back(self) -> None:
        """Let somebody else have it; once, however often this is called."""
        if self._is_taken:
            self._is_taken = False
            self._turns.release()

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call the function in a thread when it is its turn."""
        if not self._is_taken:
            await self.take()
        try:
            return await run_in_threadpool(function, *arguments)
        finally:
            self.give_back()


def turn_of(request: Request) -> Turn:
    """The turn of a request; one of its own, for as much as it likes, where nobody counts."""
    found = getattr(request.state, "turn", None)
    return found if isinstance(found, Turn) else Turn(Turns())
