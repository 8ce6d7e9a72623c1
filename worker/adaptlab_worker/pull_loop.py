"""A worker without Celery: it pulls jobs until its shift is over or a signal comes.

For batch jobs, where there is no broker and the time is limited. Slots, attempts and trainers are
those of the worker that Celery wakes.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from adaptlab_services.errors import LedgerRefused
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.settings import Settings
from adaptlab_worker.batch_job import allocation_of, seconds_until
from adaptlab_worker.confinement import close_to_others
from adaptlab_worker.doors import open_door
from adaptlab_worker.errors import TrainerUserBarred
from adaptlab_worker.launcher import Launcher
from adaptlab_worker.shift import REACH_SECONDS, Shift, ShiftLimits
from adaptlab_worker.slot_settings import set_up_logging, slot_options

LOOK_SECONDS = 0.1
POLL_SECONDS = 2.0  # nobody rings here
AGAIN_SECONDS = 5.0
"""How long after a first signal others mean the same: `scancel` signals every process of a batch
job, and a script that passes signals on makes two of one."""
TIDY_SECONDS = 5.0  # what a worker needs besides what its runs get to save themselves
STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)

# As `adaptlab` itself, so that one table of exit codes serves both.
DONE = 0
JOB_FAILED = 1
REFUSED = 4
UNREACHABLE = 69
SICK = 70
AGAIN = 75

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PullOptions:
    """What a worker was asked to do.

    Attributes:
        slots: jobs that run at the same time.
        once: whether it takes one job, and its exit status tells how that ended.
        max_jobs: how many jobs it takes; None is any number.
        idle_seconds: for how long it waits for work; None is for ever.
        until: until when it claims, as `batch_job.seconds_until` reads it; None is for ever.
        save_seconds: what runs get to save themselves after a signal.
        queues: instead of those of the settings, if any.
        scratch: the folder for files, instead of that of the settings.
        server: the address of a server through which it goes; None goes to the database.
        runner: what stands in for the engine, as `module:function`; for tests.
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
    """Notes the signals that ask to leave; their handler does nothing else.

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
        """True once any signal came."""
        return self._first_at is not None

    def listen(self) -> None:
        """Take the signals over; only the main thread can."""
        for number in STOPPING:
            signal.signal(number, self.note)

    def note(self, number: int, _: object = None) -> None:
        """Note that a signal came."""
        now, self.last = self._clock(), number
        if self._first_at is None:
            self._first_at = now
        elif now - self._first_at >= AGAIN_SECONDS:
            self.is_insistent = True


def run_pull_worker(options: PullOptions) -> int:
    """Serve until the shift is over or a signal comes; returns the exit status.

    Raises:
        NoEndKnown: `until` cannot be read.
    """
    limits = limits_of(options, os.environ, datetime.now().astimezone())
    signals = Signals()
    signals.listen()
    set_up_logging()
    close_to_others()
    try:
        with open_door(options.server) as door:
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
    """Pull jobs through a ledger; returns the exit status."""
    settings = _with_what_was_given(settings, options)
    shift = Shift(limits)
    try:
        slot = slot_options(settings, options.slots, options.runner)
    except TrainerUserBarred as barred:
        log.error("the worker does not start: %s", barred)  # noqa: TRY400 - the message says it all
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
    log.info("jobs taken: %d; leaving with status %d", shift.jobs, code)
    return code


def limits_of(options: PullOptions, environment: Mapping[str, str], now: datetime) -> ShiftLimits:
    """When the shift ends: what is left of a batch job, less what saving and leaving take."""
    until = None
    if options.until is not None:
        left = seconds_until(options.until, environment, now)
        if left is None:
            log.warning(
                "--until auto: no end is known, because SLURM_JOB_END_TIME is not set and squeue "
                "names none; jobs are begun however long they take"
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
    given: dict[str, object] = {}
    if options.queues:
        given["queues"] = options.queues
    if options.scratch is not None:
        given["data_dir"] = options.scratch
    return settings.model_copy(update=given)


def _leave(launcher: Launcher, signals: Signals, seconds: float) -> None:
    """Give back what runs and end; at once when a later signal insists or the time is over."""
    until = time.monotonic() + seconds
    launcher.drain()
    if signals.has_come:
        log.info(
            "asked to leave; runs have %.0f s to save themselves (a signal after %.0f s or more "
            "ends the worker at once)",
            seconds - TIDY_SECONDS,
            AGAIN_SECONDS,
        )
    while not launcher.has_ended():
        if signals.is_insistent:
            log.warning("asked twice: leaving at once, and what ran goes on when its lease ends")
            os._exit(128 + signals.last)
        if time.monotonic() >= until:
            log.warning("runs did not end in time; they go on elsewhere when their leases end")
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
        log.error("nobody answered for %.0f s", REACH_SECONDS)
        return UNREACHABLE
    return SICK if shift.is_sick else DONE
