"""The thread that follows a run looks rarely, but sees its end at once."""

import select
import threading
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_ledger, a_pretrain_spec, a_principal
from tests.worker.conftest import PATIENCE, ROOT, Control, Watched, wait_for_threads

from adaptlab_services.jobs import jobs
from adaptlab_worker.attempt import attempt
from adaptlab_worker.loop.launcher import Launcher
from adaptlab_worker.loop.slot import SlotOptions
from adaptlab_worker.trainer.pipe_wake import Wake
from adaptlab_worker.trainer.trainer_process import TrainerOptions

NEVER = 3600.0


@pytest.fixture
def launcher(
    sessions: sessionmaker[Session],
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Launcher:
    """A worker that never looks after a silent run; not yet started."""
    monkeypatch.setattr(attempt, "CALM_LOOK_SECONDS", NEVER)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RUNNER_CONTROL", str(control.folder))
    trainer = TrainerOptions(runner="tests.worker.runners:held", passed_on=("RUNNER_CONTROL",))
    options = SlotOptions(("cpu",), 0.2, NEVER, 0.2, trainer=trainer)
    return Launcher(a_ledger(sessions), options, 1, tmp_path / "worker", ring=lambda _: None)


def test_a_cancel_and_a_farewell_are_seen_at_once(
    launcher: Launcher, sessions: sessionmaker[Session], watched: Watched
) -> None:
    with sessions.begin() as session:
        cancelled = a_job(session, a_pretrain_spec(seeds=1, name="one"))
        given_back = a_job(session, a_pretrain_spec(seeds=1, name="other"))
    launcher.start()
    try:
        watched.wait_for_step(cancelled)
        with sessions.begin() as session:
            jobs.cancel(session, a_principal(session), cancelled)
        watched.wait_for_state(cancelled, "cancelled")
        watched.wait_for_step(given_back)
    finally:
        has_ended = launcher.close(PATIENCE)
        wait_for_threads()
    assert has_ended
    assert watched.job(given_back).state == "queued"


def test_who_is_woken_often_before_it_looks_wakes_once() -> None:
    wake, looked = Wake(), select.poll()
    looked.register(wake, select.POLLIN)
    assert not looked.poll(0)
    callers = [threading.Thread(target=lambda: [wake() for _ in range(1000)]) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert looked.poll(0)
    wake.forget()
    assert not looked.poll(0)
    wake.close()
    wake()  # nobody listens any more, which is no fault
