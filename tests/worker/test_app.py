"""The Celery app: what it must not do, and the periodic duties."""

import pytest
from celery.beat import Scheduler
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec

from adaptlab_services.doorbell import DOORBELL as RUNG
from adaptlab_services.doorbell import ring
from adaptlab_services.settings import Settings
from adaptlab_worker import app as worker_app
from adaptlab_worker.app import celery_app, doorbell_queue, pending_doorbells
from adaptlab_worker.maintenance import Maintenance, Pace


def test_celery_keeps_nothing_and_delivers_at_most_once(settings: Settings) -> None:
    conf = celery_app(settings).conf
    assert conf.result_backend is None
    assert conf.task_ignore_result is True
    assert conf.task_acks_late is False
    assert list(conf.accept_content) == ["json"]
    assert conf.worker_disable_prefetch is True
    assert conf.beat_scheduler == "celery.beat:Scheduler"  # in memory
    # Leases are taken back whether the broker lives or not, so beat has no part in it.
    assert {entry["task"] for entry in conf.beat_schedule.values()} == {
        worker_app.SWEEP,
        worker_app.STORAGE,
    }


def test_storage_is_tended_soon_after_the_start(settings: Settings) -> None:
    """Beat alone would wait for an hour, and a server that is restarted often for ever."""
    beat = Scheduler(celery_app(settings))
    assert beat.schedule["storage"].is_due()[0]
    again = next(beat.schedule["storage"])
    assert not again.is_due()[0]
    assert again.is_due()[1] == pytest.approx(worker_app.STORAGE_SECONDS, rel=0.1)


def test_the_worker_listens_to_what_is_rung(settings: Settings) -> None:
    assert worker_app.DOORBELL == RUNG
    app = celery_app(settings)
    assert pending_doorbells(app, "cpu") == 0
    ring(settings.broker_url, ["cpu", "cpu"])
    assert pending_doorbells(app, "cpu") == 2
    assert pending_doorbells(app, "gpu") == 0
    assert doorbell_queue("cpu") == "doorbell.cpu"
    app.close()


@pytest.mark.parametrize(("pending", "expected"), [(0, [["cpu"]]), (1, [[]])])
def test_a_sweep_rings_for_work_unless_a_bell_still_waits(
    sessions: sessionmaker[Session], pending: int, expected: list[list[str]]
) -> None:
    with sessions.begin() as session:
        a_job(session, a_pretrain_spec())
    rung: list[list[str]] = []
    duties = Maintenance(sessions, lambda q: rung.append(list(q)), lambda _: pending, pace=60)
    duties.sweep()
    duties.sweep()  # messages that piled up are worked off without another look
    assert rung == expected


def test_a_pace_says_yes_once_in_its_time() -> None:
    slow, quick = Pace(60), Pace(0)
    assert [slow.is_due() for _ in range(3)] == [True, False, False]
    assert [quick.is_due() for _ in range(3)] == [True, True, True]
