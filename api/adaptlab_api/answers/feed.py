"""News of jobs: one query serves all watchers.

A watcher holds no connection. While there are watchers, one task reads the pulses of all watched
jobs in one statement, several times a second, and wakes the watchers of jobs with news. If only
steps have changed for a while, it reads less often, and least often if no job is near its last
step. Once a second it ends the watches whose token has expired or was revoked, and those whose
user has lost permissions.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol
from uuid import UUID

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError

from adaptlab_services.lifecycle.events import Pulse
from adaptlab_services.people.admission import Admitted

LOOK_SECONDS = 0.2
QUIET_LOOK_SECONDS = 0.5
FAR_LOOK_SECONDS = 1.0
FAR = 0.9
"""The fraction of its steps up to which a job is far from its end."""
QUIET_AFTER_SECONDS = 5.0
"""Without other news than steps; from then on, reads are rarer."""
LOOK_AGAIN_SECONDS = 2.0
CHECK_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
"""For a read that does not return, before the server stops without it."""


class PulseReader(Protocol):
    """Reads the pulses of jobs; permission is checked when a watch begins."""

    def __call__(self, job_ids: Collection[UUID]) -> Mapping[UUID, Pulse]:
        """Return the pulses of the jobs that exist."""
        ...

    def rest(self) -> None:
        """Release what is kept between reads."""
        ...


StillGood = Callable[[Collection[Admitted]], Collection[Admitted]]

log = logging.getLogger(__name__)


class Watch:
    """A watch of one job: the latest pulse, and a wait for the next.

    `is_over` is True once the watcher has lost permission.
    """

    def __init__(self, job_id: UUID, watcher: Admitted) -> None:
        self.job_id = job_id
        self.watcher = watcher
        self.is_over = False
        self.pulse: Pulse | None = None
        self.closed = False
        self._news = asyncio.Event()

    async def changed(self, known: Pulse | None, timeout: float) -> bool:
        """Wait for another pulse than `known` or the end; False after `timeout`."""
        try:
            async with asyncio.timeout(timeout):
                while not self.closed and self.pulse in (known, None):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def tell(self, pulse: Pulse) -> None:
        """Store a pulse and wake the watcher."""
        if pulse != self.pulse:
            self.pulse = pulse
            self._news.set()

    def close(self) -> None:
        """End every wait, now and later."""
        self.closed = True
        self._news.set()

    def send_away(self) -> None:
        """End the watch because the watcher has lost permission."""
        self.is_over = True
        self.close()


class Feed:
    """The watchers of one application."""

    def __init__(self, look: PulseReader, still_good: StillGood) -> None:
        self._look = look
        self._still_good = still_good
        self._watches: set[Watch] = set()
        self._task: asyncio.Task[None] | None = None
        self._told: Mapping[UUID, Pulse] = {}
        self._is_quiet = False
        self._roused = asyncio.Event()
        # A thread of its own: slow requests must not delay the end of a watch.
        self._thread = CapacityLimiter(1)
        self.closed = False

    @contextmanager
    def watch(self, job_id: UUID, watcher: Admitted) -> Generator[Watch]:
        """Watch one job for as long as the context lasts."""
        watch = Watch(job_id, watcher)
        if self.closed:
            watch.close()
        self._watches.add(watch)
        if self._is_quiet and job_id not in self._told:
            self._roused.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    def close(self) -> None:
        """End all watches, so that the server can stop; call from the event loop."""
        self.closed = True
        for watch in self._watches:
            watch.close()
        self._roused.set()

    async def ended(self) -> None:
        """Wait, after `close`, until no read holds a connection."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait until the feed closes or, in quiet times, another job is watched."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._roused.wait()

    async def _run(self) -> None:
        while self._watches and not self.closed:
            await self._serve()
            # A new watcher may arrive meanwhile and rely on this task.
            await to_thread.run_sync(self._look.rest, limiter=self._thread)

    async def _serve(self) -> None:
        """Read pulses while there are watchers."""
        clock = asyncio.get_running_loop()
        checked, news_at = 0.0, clock.time()
        while self._watches and not self.closed:
            self._roused.clear()
            is_due = clock.time() - checked >= CHECK_SECONDS
            watched = {watch.job_id for watch in self._watches}
            watchers = {watch.watcher for watch in self._watches} if is_due else set[Admitted]()
            try:
                pulses, lost = await to_thread.run_sync(
                    self._ask, watched, watchers, limiter=self._thread
                )
            except SQLAlchemyError as error:
                # Watchers wait through an outage; their next request will get an error.
                log.warning("The database did not answer: %s", type(error).__name__)
                self._is_quiet = False  # new watchers do not shorten the pause
                await self._pause(LOOK_AGAIN_SECONDS)
                continue
            if is_due:
                checked = clock.time()
            if self._has_news(pulses):
                news_at = clock.time()
            self._tell(pulses, lost)
            self._is_quiet = clock.time() - news_at >= QUIET_AFTER_SECONDS
            await self._pause(self._rest())

    def _rest(self) -> float:
        """Return the seconds until the next read."""
        if not self._is_quiet:
            return LOOK_SECONDS
        pulses = self._told.values()
        is_far = all(
            pulse.state == "running" and pulse.step < FAR * pulse.total for pulse in pulses
        )
        return FAR_LOOK_SECONDS if is_far else QUIET_LOOK_SECONDS

    def _tell(self, pulses: Mapping[UUID, Pulse], lost: Collection[Admitted]) -> None:
        """Pass the pulses to their watchers, and end the watches of `lost`."""
        self._told = pulses
        for watch in tuple(self._watches):
            if watch.watcher in lost:
                watch.send_away()
            elif (pulse := pulses.get(watch.job_id)) is not None:
                watch.tell(pulse)

    def _has_news(self, pulses: Mapping[UUID, Pulse]) -> bool:
        """Return True if there is a new job, or more news than steps."""
        return any(
            (before := self._told.get(job_id)) is None
            or (before.state, before.sequence) != (pulse.state, pulse.sequence)
            for job_id, pulse in pulses.items()
        )

    def _ask(
        self, job_ids: Collection[UUID], watchers: Collection[Admitted]
    ) -> tuple[Mapping[UUID, Pulse], Collection[Admitted]]:
        """Return the pulses, and the watchers who have lost permission.

        Both in one call, because passing work to a thread takes half as long as a read.
        """
        lost = set(watchers).difference(self._still_good(watchers)) if watchers else ()
        return self._look(job_ids), lost
