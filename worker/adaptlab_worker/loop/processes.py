"""The worker and beat as processes: set-up, main loop and timely exit."""

import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

from celery import Celery, signals
from celery.exceptions import SecurityWarning
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.doorbell import ring
from adaptlab_services.server import logs
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_services.webhooks.courier import Courier
from adaptlab_worker.confinement.confinement import close_to_others
from adaptlab_worker.errors import TrainersUnusable
from adaptlab_worker.loop.app import (
    MAINTENANCE_QUEUE,
    Duties,
    celery_app,
    doorbell_queue,
    pending_doorbells,
)
from adaptlab_worker.loop.launcher import Launcher
from adaptlab_worker.loop.maintenance import Maintenance
from adaptlab_worker.loop.reaper import Reaper
from adaptlab_worker.loop.slot_settings import slot_options
from adaptlab_worker.loop.storage_upkeep import StorageUpkeep

Ring = Callable[[Sequence[str]], None]

DRAIN_SECONDS = 3.0
EXIT_SECONDS = 3.7  # after SIGTERM; a supervisor expects the exit within 4
LEAVE_SIGNAL = signal.SIGUSR2
"""Asks for an end without haste. Celery handles SIGUSR1 itself."""
LEAVE_SECONDS = 20.0  # for runs to save their state after that signal
TIDY_SECONDS = 2.0  # for the worker itself, after its runs have saved their state
LOOK_SECONDS = 0.05
# They log every message, but nothing about jobs.
QUIET_LOGGERS = ("celery.app.trace", "celery.worker.strategy", "celery.beat")

log = logging.getLogger(__name__)


def run_worker(slots: int, runner: str | None, save_seconds: float | None = None) -> int:
    """Serve until a signal comes; return the exit status.

    Args:
        slots: the number of jobs that run at the same time.
        runner: a replacement of the engine, as `module:function`; for tests.
        save_seconds: time for runs to save their state after any signal; None for
            `LEAVE_SECONDS` after `LEAVE_SIGNAL`, and next to none after others.
    """
    settings = Settings()  # pyright: ignore[reportCallIssue] - from the environment
    _set_up_logging(settings)
    close_to_others()
    sessions = open_sessions(settings)
    bell = partial(ring, settings.broker_url)
    try:
        launcher = _launcher(settings, sessions, bell, slots, runner)
    except TrainersUnusable as cause:
        log.error("the worker does not start: %s", cause)  # noqa: TRY400 - the message says it all
        return 1
    haste = _Haste(launcher, save_seconds)
    reaper = Reaper(sessions, bell, settings.reap_seconds, settings.reaper_arm_seconds)
    courier = Courier(sessions, settings)
    _exit_on_early_signals()
    signal.signal(LEAVE_SIGNAL, haste.leave)
    try:
        # First, because loading torch takes the longest.
        launcher.start()
        reaper.start()
        courier.start()
        app = _app(settings, sessions, bell, launcher, courier)
        return _serve(app, settings.queues, haste, slots)
    finally:
        if launcher.close(haste.drain_seconds):
            launcher.say_goodbye()  # otherwise it would be reported as lost


def run_beat() -> None:
    """Send the periodic messages until a signal comes."""
    settings = Settings()  # pyright: ignore[reportCallIssue] - from the environment
    _set_up_logging(settings)
    celery_app(settings).Beat(loglevel="INFO", quiet=True).run()


def _launcher(
    settings: Settings,
    sessions: sessionmaker[Session],
    bell: Ring,
    slots: int,
    runner: str | None,
) -> Launcher:
    ledger = DatabaseLedger(sessions, settings.lease_seconds, settings.max_running_jobs)
    options = slot_options(settings, slots, runner)
    return Launcher(ledger, options, slots, settings.data_dir / "worker", bell)


def _app(
    settings: Settings,
    sessions: sessionmaker[Session],
    bell: Ring,
    launcher: Launcher,
    courier: Courier,
) -> Celery:
    def pending(queue: str) -> int:
        return pending_doorbells(app, queue)

    maintenance = Maintenance(sessions, bell, pending, pace=settings.sweep_seconds / 2)
    duties = Duties(
        ring=lambda _: launcher.ring(),
        sweep=maintenance.sweep,
        tend_storage=StorageUpkeep(sessions, settings).tend,
        deliver=courier.call,
    )
    app = celery_app(settings, duties)
    return app


class _Haste:
    """How long the end of a worker may take, by what asked for it."""

    def __init__(self, launcher: Launcher, save_seconds: float | None) -> None:
        self._launcher = launcher
        self._save_seconds = save_seconds
        self._is_leaving = False
        extra = 0.0 if save_seconds is None else save_seconds + TIDY_SECONDS
        self.drain_seconds = max(DRAIN_SECONDS, extra)
        self._exit_seconds = max(EXIT_SECONDS, extra + TIDY_SECONDS)

    def shut_down(self) -> None:
        """Give back running jobs, and exit in any case."""
        self._launcher.drain(self._save_seconds)
        threading.Thread(target=_exit_late, args=(self._exit_seconds,), daemon=True).start()

    def leave(self, number: int, frame: FrameType | None) -> None:
        """Give back running jobs without haste, and then shut down."""
        if not self._is_leaving:
            self._is_leaving = True
            threading.Thread(target=self._leave, daemon=True).start()

    def _leave(self) -> None:
        seconds = LEAVE_SECONDS if self._save_seconds is None else self._save_seconds
        log.info("leaving; runs have %.0f s to save their state", seconds)
        until = time.monotonic() + seconds + TIDY_SECONDS
        self._launcher.drain(seconds)
        while not self._launcher.has_ended() and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)


def _serve(app: Celery, queues: tuple[str, ...], haste: _Haste, slots: int) -> int:
    def shut_down(**_: Any) -> None:  # Celery sends what it likes
        haste.shut_down()

    signals.worker_shutting_down.connect(shut_down, weak=False)
    worker = app.Worker(
        pool_cls="threads",
        # Doorbells and periodic duties last milliseconds; jobs run in the slots' own threads.
        concurrency=slots + 1,
        queues=[*map(doorbell_queue, queues), MAINTENANCE_QUEUE],
        loglevel="INFO",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _exit_on_early_signals() -> None:
    """Exit cleanly on a signal until Celery installs its own handlers."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)


def _exit_late(seconds: float) -> None:
    """Exit in any case: an unresponsive broker must not keep the worker alive."""
    time.sleep(seconds)
    log.warning("leaving without the broker's goodbye")
    os._exit(0)


def _set_up_logging(settings: Settings) -> None:
    """Set up one log format, and keep Celery from setting up its own later."""
    logs.set_up(settings)
    signals.setup_logging.connect(_keep_logging, weak=False)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    # Celery advises against root because pickled messages could run code; ours are JSON only.
    warnings.filterwarnings("ignore", category=SecurityWarning)


def _keep_logging(**_: Any) -> None:  # Celery sends what it likes
    """Do nothing: a connected handler keeps Celery from setting up logging."""
