"""News of jobs for everybody who watches: one look at the database serves all of them.

A watcher holds no connection. While there is any, one task reads the pulse of every watched job
by one statement, several times a second, and wakes those whose job has news. Where nothing but
steps has come for a while it looks less often, and least where no job is near its last step: a long
training has news when it begins and when it ends. Once a second it also sends away those whose
token was revoked or has expired, or who may see less than when they came.
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
"""The part of its steps up to which a job is far from its end."""
QUIET_AFTER_SECONDS = 5.0
"""Without news but of steps, from which on the looks are rarer."""
LOOK_AGAIN_SECONDS = 2.0
CHECK_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
"""With a look that is not answered, before the server stops all the same."""


class Look(Protocol):
    """How the pulses of jobs are read; who may watch a job was decided when the watching began."""

    def __call__(self, job_ids: Collection[UUID]) -> Mapping[UUID, Pulse]:
        """The pulses of those that there are."""
        ...

    def rest(self) -> None:
        """Let go of what is kept between two looks."""
        ...


StillGood = Callable[[Collection[Admitted]], Collection[Admitted]]

log = logging.getLogger(__name__)


class Watch:
    """One watcher's view of one job: the latest pulse, and a wait for another.

    `is_over` once the watcher may not watch any more.
    """

    def __init__(self, job_id: UUID, watcher: Admitted) -> None:
        self.job_id = job_id
        self.watcher = watcher
        self.is_over = False
        self.pulse: Pulse | None = None
        self.closed = False
        self._news = asyncio.Event()

    async def changed(self, known: Pulse | None, timeout: float) -> bool:
        """Wait until the pulse differs from `known`, or the feed closes; False after `timeout`."""
        try:
            async with asyncio.timeout(timeout):
                while not self.closed and self.pulse in (known, None):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def tell(self, pulse: Pulse) -> None:
        """Take note of a pulse."""
        if pulse != self.pulse:
            self.pulse = pulse
            self._news.set()

    def close(self) -> None:
        """End every wait, now and later."""
        self.closed = True
        self._news.set()

    def send_away(self) -> None:
        """End it because the watcher may not watch any more."""
        self.is_over = True
        self.close()


class Feed:
    """The watchers of one application."""

    def __init__(self, look: Look, still_good: StillGood) -> None:
        self._look = look
        self._still_good = still_good
        self._watches: set[Watch] = set()
        self._task: asyncio.Task[None] | None = None
        self._told: Mapping[UUID, Pulse] = {}
        self._is_quiet = False
        self._roused = asyncio.Event()
        # Its own, or slow requests would keep those here who have to be sent away.
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
        """Send all watchers away, so that the server can stop; called from the event loop."""
        self.closed = True
        for watch in self._watches:
            watch.close()
        self._roused.set()

    async def ended(self) -> None:
        """Wait until no look is under way any more, after `close`: it has a connection."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait for so long, or until the feed closes or another job is watched in quiet times."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._roused.wait()

    async def _run(self) -> None:
        while self._watches and not self.closed:
            await self._serve()
            # Somebody may come meanwhile, who would find this task still there.
            await to_thread.run_sync(self._look.rest, limiter=self._thread)

    async def _serve(self) -> None:
        """Look for as long as anybody watches."""
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
                # Watchers wait through an outage; their next request would be told of it.
                log.warning("The database did not answer: %s", type(error).__name__)
                self._is_quiet = False  # who comes now does not make it be asked again sooner
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
        """The seconds until the next look."""
        if not self._is_quiet:
            return LOOK_SECONDS
        pulses = self._told.values()
        is_far = all(one.state == "running" and one.step < FAR * one.total for one in pulses)
        return FAR_LOOK_SECONDS if is_far else QUIET_LOOK_SECONDS

    def _tell(self, pulses: Mapping[UUID, Pulse], lost: Collection[Admitted]) -> None:
        """Tell the pulses to those who watch, and send away those who may not any more."""
        self._told = pulses
        for watch in tuple(self._watches):
            if watch.watcher in lost:
                watch.send_away()
            elif (pulse := pulses.get(watch.job_id)) is not None:
                watch.tell(pulse)

    def _has_news(self, pulses: Mapping[UUID, Pulse]) -> bool:
        """Whether a look tells of another job than the one before it, or of more than steps."""
        return any(
            (before := self._told.get(job_id)) is None
            or (before.state, before.sequence) != (pulse.state, pulse.sequence)
            for job_id, pulse in pulses.items()
        )

    def _ask(
        self, job_ids: Collection[UUID], watchers: Collection[Admitted]
    ) -> tuple[Mapping[UUID, Pulse], Collection[Admitted]]:
        """The pulses, and those of the watchers who may not watch any more.

        In one go: to hand work to a thread takes as long as half a look.
        """
        lost = set(watchers).difference(self._still_good(watchers)) if watchers else ()
        return self._look(job_ids), lost
