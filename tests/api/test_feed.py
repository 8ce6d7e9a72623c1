"""The queries of the feed of news, and that no news comes later."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_job, a_token, an_adapt_document
from tests.watching import until

from adaptlab.runs import events as results
from adaptlab_answers.jobs import EventPage
from adaptlab_api.answers import feed
from adaptlab_api.answers.feed import Feed, Watch
from adaptlab_db.tables import Job
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle import events
from adaptlab_services.lifecycle.events import Lookout, Pulse
from adaptlab_services.people import admission
from adaptlab_services.people.admission import Admitted, Grant

Sessions = sessionmaker[Session]
T = TypeVar("T")
GENEROUS = 60
NEVER = 3600.0


class CountedLookout(Lookout):
    """Counts how often it looked, and how often it gave its connection back."""

    looks = rests = 0

    def rest(self) -> None:
        """Count, and give it back."""
        self.rests += 1
        super().rest()

    def __call__(self, job_ids: Collection[UUID]) -> Mapping[UUID, Pulse]:
        """Count, and look."""
        self.looks += 1
        return super().__call__(job_ids)


@pytest.fixture
def watcher(sessions: Sessions) -> Admitted:
    with sessions.begin() as session:
        return admission.admitted(session, Grant(a_token(session), False, None))


def in_a_loop(work: Coroutine[object, object, T]) -> T:
    """Run the work in a thread, since other tests leave a loop running."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, work).result()


def jobs(sessions: Sessions) -> tuple[UUID, UUID]:
    with sessions.begin() as session:
        return a_job(session), a_job(session)


def test_who_comes_in_a_time_of_quiet_is_told_at_once(
    sessions: Sessions, watcher: Admitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "QUIET_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(feed, "QUIET_LOOK_SECONDS", NEVER)
    one, other = jobs(sessions)

    async def watch() -> None:
        news = Feed(Lookout(sessions), lambda known: known)
        with news.watch(one, watcher) as first:
            assert await first.changed(None, GENEROUS)  # and the next look is far away
            with news.watch(other, watcher) as second:
                assert await second.changed(None, GENEROUS)
        news.close()
        await news.ended()

    in_a_loop(watch())


def test_the_connection_is_kept_from_look_to_look(
    sessions: Sessions, watcher: Admitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.0)
    look = CountedLookout(sessions)
    one, _ = jobs(sessions)

    async def watch() -> int:
        news = Feed(look, lambda known: known)
        with news.watch(one, watcher) as first:
            assert await first.changed(None, GENEROUS)
            async with asyncio.timeout(GENEROUS):
                while look.looks < 5:
                    await asyncio.sleep(0)
            before = look.rests
        news.close()
        await news.ended()
        return before

    assert in_a_loop(watch()) == 0
    assert look.rests == 1


@pytest.mark.parametrize(
    ("step", "pause"), [(10, "FAR_LOOK_SECONDS"), (95, "QUIET_LOOK_SECONDS")], ids=["far", "near"]
)
def test_how_often_is_looked_in_quiet_times_depends_on_how_far_the_end_is(
    step: int,
    pause: str,
    sessions: Sessions,
    watcher: Admitted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "QUIET_AFTER_SECONDS", 0.0)
    for other in ("LOOK_SECONDS", "QUIET_LOOK_SECONDS", "FAR_LOOK_SECONDS"):
        monkeypatch.setattr(feed, other, 0.0 if other == pause else NEVER)
    look = CountedLookout(sessions)
    with sessions.begin() as session:
        one = a_job(session, state="running")
        job = session.get_one(Job, one)
        job.step, job.total_steps = step, 100

    async def watch() -> None:
        news = Feed(look, lambda known: known)
        with news.watch(one, watcher):
            async with asyncio.timeout(GENEROUS):
                while look.looks < 5:
                    await asyncio.sleep(0)
        news.close()
        await news.ended()

    in_a_loop(watch())


def test_of_steps_alone_a_stream_tells_without_looking_for_events(
    api: TestClient, base: None, ledger: DatabaseLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_after, real_changed = events.after, Watch.changed
    reads, told = list[int](), list[int]()

    def after(session: Session, job_id: UUID, after: int = 0, limit: int = 1000) -> EventPage:
        reads.append(after)
        return real_after(session, job_id, after, limit)

    async def changed(watch: Watch, known: Pulse | None, timeout: float) -> bool:
        is_news = await real_changed(watch, known, timeout)
        told.append(0 if watch.pulse is None else watch.pulse.step)
        return is_news

    monkeypatch.setattr(events, "after", after)
    monkeypatch.setattr(Watch, "changed", changed)
    spec = an_adapt_document(training={"steps": 9, "batch_size": 4})
    job = api.post("/v1/jobs", json=spec).headers["location"]
    claim = a_claim(ledger)
    ledger.record(claim, [results.Progress(phase="training", step=1, total=9)])
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(api.get, f"{job}/events", headers={"Accept": "text/event-stream"})
        try:
            for step in (2, 3):  # so that all there was has been read
                ledger.heartbeat(claim, step)
                until(lambda step=step: step in told, f"news of step {step}")
            before = len(reads)
            for step in (4, 5):
                ledger.heartbeat(claim, step)
                until(lambda step=step: step in told, f"news of step {step}")
            assert len(reads) == before
        finally:
            ledger.finish(claim)
        stream = followed.result().text
    assert stream.count("event: progress") >= 4
    assert stream.count("event: first_step") == 1
    assert stream.count("event: succeeded") == 1
