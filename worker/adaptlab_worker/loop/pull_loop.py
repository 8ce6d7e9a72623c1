"""A worker without Celery, which polls until its shift ends.

It is for batch jobs, without a broker and with limited time. Slots, attempts and trainers are the
same as in the worker that Celery wakes.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from adaptlab_services import log_formats
from adaptlab_services.errors import LedgerRefused
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.server import logs
from adaptlab_services.settings import Settings
from adaptlab_worker.confinement.confinement import close_to_others
from adaptlab_worker.errors import TrainersUnusable
from adaptlab_worker.ledger.ledger_access import open_door
from adaptlab_worker.loop.batch_job import allocation_of, seconds_until
from adaptlab_worker.loop.launcher import Launcher
from adaptlab_worker.loop.slot_settings import slot_options
from adaptlab_worker.loop.work_limits import REACH_SECONDS, Shift, ShiftLimits

LOOK_SECONDS = 0.1
POLL_SECONDS = 2.0  # there is no doorbell
AGAIN_SECONDS = 5.0
"""Seconds after a first signal within which others are duplicates: `scancel` signals every process
of a batch job, and a script may forward a signal that the worker has received."""
TIDY_SECONDS = 5.0  # for the worker itself, after its runs have saved their state
STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)

# The same codes as in `adaptlab`, so that one table documents both.
DONE = 0
JOB_FAILED = 1
REFUSED = 4
UNREACHABLE = 69
SICK = 70
AGAIN = 75

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PullOptions:
    """The options of a pull worker.

    Attributes:
        slots: the number of jobs that run at the same time.
        once: whether it takes one job, whose outcome is the exit status.
        max_jobs: the number of jobs that it takes; None for no limit.
        idle_seconds: how long it waits for work; None for ever.
        until: the end of claiming, as in `batch_job.seconds_until`; None for no end.
        save_seconds: time for runs to save their state after a signal.
        queues: the queues to serve, instead of the settings', if any.
        scratch: the folder for files, instead of the settings'.
        server: the address of the server whose API it uses; None for the database.
        runner: a replacement of the engine, as `module:function`; for tests.
    """

    slots: int = 1
    once: bool = False
    max_jobs: int | None = None
    idle_seconds: float | None = None
    until: str | None = None
    save_seconds: float = 20.0
    queues: tuple[str, ...] = ()
    scratch: Path | None = None
    server: str | None = None
    runner: str | None = None


class Signals:
    """The signals that request an exit; their handler only records them.

    Attributes:
        is_insistent: True once a signal came at least `AGAIN_SECONDS` after the first.
        last: the number of the latest signal.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_insistent = False
        self.last = 0
        self._clock = clock
        self._first_at: float | None = None

    @property
    def has_come(self) -> bool:
        """Return True if any signal came."""
        return self._first_at is not None

    def listen(self) -> None:
        """Install the handlers; only the main thread can."""
        for number in STOPPING:
            signal.signal(number, self.note)

    def note(self, number: int, _: object = None) -> None:
        """Record a signal."""
        now, self.last = self._clock(), number
        if self._first_at is None:
            self._first_at = now
        elif now - self._first_at >= AGAIN_SECONDS:
            self.is_insistent = True


def run_pull_worker(options: PullOptions) -> int:
    """Serve until the shift is over or a signal comes; return the exit status.

    Raises:
        NoEndKnown: `until` cannot be read.
    """
    limits = limits_of(options, os.environ, datetime.now().astimezone())
    signals = Signals()
    signals.listen()
    log_formats.set_up_child()  # until the settings are read
    close_to_others()
    try:
        with open_door(options.server) as door:
            logs.set_up(door.settings)
            return serve(door.settings, door.ledger, door.ring, options, limits, signals)
    except LedgerRefused as refused:
        log.error("the worker does not start: %s", refused)  # noqa: TRY400 - as below
        return REFUSED


def serve(
    settings: Settings,
    ledger: Ledger,
    ring: Callable[[Sequence[str]], None],
    options: PullOptions,
    limits: ShiftLimits,
    signals: Signals,
) -> int:
    """Pull jobs through a ledger; return the exit status."""
    settings = _with_what_was_given(settings, options)
    shift = Shift(limits)
    try:
        slot = slot_options(settings, options.slots, options.runner)
    except TrainersUnusable as cause:
        log.error("the worker does not start: %s", cause)  # noqa: TRY400 - the message says it all
        return SICK
    slot = replace(
        slot,
        poll_seconds=min(slot.poll_seconds, POLL_SECONDS),
        release_seconds=options.save_seconds,
        allocation=allocation_of(os.environ),
    )
    launcher = Launcher(ledger, slot, options.slots, settings.data_dir / "worker", ring, shift)
    launcher.start()
    while not shift.is_over() and not signals.has_come:
        time.sleep(LOOK_SECONDS)
    _leave(launcher, signals, options.save_seconds + TIDY_SECONDS)
    code = _status(shift, options, was_asked_to_leave=signals.has_come)
    log.info("jobs taken: %d; exit status %d", shift.jobs, code)
    return code


def limits_of(options: PullOptions, environment: Mapping[str, str], now: datetime) -> ShiftLimits:
    """Return the shift's limits, less the time for saving and leaving."""
    until = None
    if options.until is not None:
        left = seconds_until(options.until, environment, now)
        if left is None:
            log.warning(
                "--until auto: the end is unknown, because SLURM_JOB_END_TIME is not set and "
                "squeue reports none; jobs of any length are started"
            )
        else:
            until = time.monotonic() + left - options.save_seconds - TIDY_SECONDS
    has_an_end = options.once or options.idle_seconds is not None or options.max_jobs is not None
    return ShiftLimits(
        most_jobs=1 if options.once else options.max_jobs,
        idle_seconds=0.0 if options.once and options.idle_seconds is None else options.idle_seconds,
        until=until,
        reach_seconds=REACH_SECONDS if has_an_end or until is not None else None,
    )


def _with_what_was_given(settings: Settings, options: PullOptions) -> Settings:
    changes: dict[str, object] = {}
    if options.queues:
        changes["queues"] = options.queues
    if options.scratch is not None:
        changes["data_dir"] = options.scratch
    return settings.model_copy(update=changes)


def _leave(launcher: Launcher, signals: Signals, seconds: float) -> None:
    """Give back running jobs and end.

    It ends at once on a later signal or after the time limit.
    """
    until = time.monotonic() + seconds
    launcher.drain()
    if signals.has_come:
        log.info(
            "stopping; runs have %.0f s to save their state (a signal after %.0f s or more ends "
            "the worker at once)",
            seconds - TIDY_SECONDS,
            AGAIN_SECONDS,
        )
    while not launcher.has_ended():
        if signals.is_insistent:
            log.warning("second signal: exiting now; jobs resume elsewhere when their leases end")
            os._exit(128 + signals.last)
        if time.monotonic() >= until:
            log.warning("runs did not end in time; jobs resume elsewhere when their leases end")
            os._exit(AGAIN)
        time.sleep(LOOK_SECONDS)
    launcher.close(0)
    launcher.say_goodbye()


def _status(shift: Shift, options: PullOptions, *, was_asked_to_leave: bool) -> int:
    if shift.refusal is not None:
        log.error("the server refuses this worker: %s", shift.refusal)
        return REFUSED
    if options.once and shift.conclusion is not None:
        return {"succeeded": DONE, "queued": AGAIN, "lost": AGAIN}.get(shift.conclusion, JOB_FAILED)
    if was_asked_to_leave or shift.is_short_of_room:
        return AGAIN
    if shift.is_cut_off:
        log.error("the ledger has been unreachable for %.0f s", REACH_SECONDS)
        return UNREACHABLE
    return SICK if shift.is_sick else DONE
