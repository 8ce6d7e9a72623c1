"""A slot: a thread with a warm trainer that claims one job at a time."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from adaptlab.runs.events import Allocation
from adaptlab_answers.server import STARTING
from adaptlab_services.errors import LedgerRefused, LedgerUnreachable
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.log_formats import about
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots
from adaptlab_worker.attempt.attempt import GRACE, Attempt
from adaptlab_worker.attempt.disk_space import Room
from adaptlab_worker.attempt.waiting_limits import Patience
from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.loop.work_limits import Shift
from adaptlab_worker.trainer.scratch import LARGEST_CACHE, AssetCache, Scratch
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess

REPORT_SECONDS = 15.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """The settings that all slots of a worker share.

    Attributes:
        queues: the queues to claim from.
        heartbeat_seconds: between two renewals of a lease.
        save_seconds: between two saved states of a training.
        poll_seconds: between two looks for work without a doorbell.
        roots: folders that may contain model folders.
        memory_bytes: the memory limit of a run; None for most of what is free.
        scratch_free_bytes: bytes that must be free on disk to claim a job; None for a share of it.
        cache_bytes: bytes of fetched weights that are kept.
        trainer: the options of trainers.
        patience: limits on running without the ledger, and on silence.
        release_seconds: time for a run to save its state when the worker shuts down.
        allocation: the batch job that the worker is part of.
    """

    queues: tuple[str, ...]
    heartbeat_seconds: float
    save_seconds: float
    poll_seconds: float
    roots: ModelRoots = NO_ROOTS
    memory_bytes: int | None = None
    scratch_free_bytes: int | None = None
    cache_bytes: int = LARGEST_CACHE
    trainer: TrainerOptions = field(default_factory=TrainerOptions)
    patience: Patience = field(default_factory=Patience)
    release_seconds: float = GRACE["released"]
    allocation: Allocation | None = None


class Slot:
    """A thread that claims and trains until nothing is eligible, then waits.

    Its thread starts the trainers, and lives as long as the worker does (see `TrainerProcess`).

    Args:
        name: for the log.
        worker_id: returns the id under which the worker is registered.
        ring: wakes other workers, by queue.
        room: the free space for jobs.
        draining: set when no more jobs may be claimed.
        shift: limits on the number of jobs and the time; None for no limit.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        worker_id: Callable[[], UUID],
        ring: Callable[[Sequence[str]], None],
        options: SlotOptions,
        scratch: Scratch,
        cache: AssetCache,
        room: Room,
        draining: threading.Event,
        shift: Shift | None = None,
    ) -> None:
        self._ledger = ledger
        self._worker_id = worker_id
        self._has_looked = False
        self._reported_at = -math.inf
        self._ring = ring
        self._options = options
        self._release_seconds = options.release_seconds
        self._folders = scratch.slot(name)
        self._cache = cache
        self._room = room
        self._stands_back = False
        self._claim_id = uuid.uuid4()
        self._draining = draining
        self._shift = shift or Shift()
        self._bell = threading.Event()
        self._trainer: TrainerProcess | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Warm up a trainer and look for work."""
        self._thread.start()

    def ring(self) -> None:
        """Look for work now, or again after the present job."""
        self._bell.set()

    def allow(self, release_seconds: float) -> None:
        """Give runs this time to save their state; call before `draining` is set."""
        self._release_seconds = release_seconds

    def leave(self) -> None:
        """Wake the thread, after `draining` was set."""
        self.ring()
        trainer = self._trainer
        if trainer is not None:
            trainer.wake()

    def join(self, seconds: float) -> bool:
        """Wait for the end; return True if it came in time.

        Call it after `draining` was set.
        """
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _serve(self) -> None:
        try:
            while not self._draining.is_set():
                # Cleared before the look, so that a ring during it leads to another.
                self._bell.clear()
                self._work_while_there_is_any()
                self._bell.wait(self._options.poll_seconds)
        finally:
            self._drop_trainer()

    def _abandons_trainer(self) -> bool:
        """Return True while draining; until the first claim, report the start."""
        now = time.monotonic()
        if not self._has_looked and now - self._reported_at > REPORT_SECONDS:
            self._reported_at = now
            self._report_start()
        return self._draining.is_set()

    def _report_start(self) -> None:
        """Register the worker, which takes no jobs until its trainer is ready."""
        try:
            self._ledger.stand_back(self._worker_id(), STARTING)
        except (LedgerUnreachable, LedgerRefused) as error:
            log.debug("not registered before the first claim: %s", error)

    def _work_while_there_is_any(self) -> None:
        try:
            # A slot claims only with a ready trainer, so that no job loses an attempt if trainers
            # fail to start.
            while (trainer := self._warm_trainer()) and self._do_one(trainer):
                pass
        except LedgerUnreachable as error:
            log.warning("no claim: %s", error)
        except Exception:
            log.exception("the slot failed; it will retry")

    def _warm_trainer(self) -> TrainerProcess | None:
        """Return a ready trainer; None while draining or if none starts."""
        if self._trainer is not None and not self._trainer.is_alive:
            self._drop_trainer()
        if self._trainer is None:
            self._trainer = TrainerProcess(self._options.trainer, self._folders)
        try:
            is_ready = self._trainer.await_ready(self._abandons_trainer)
        except TrainerGone as gone:
            log.error("the trainer did not start: it %s", gone)  # noqa: TRY400 - no traceback of ours says more
            self._drop_trainer()
            self._shift.false_start()
            return None
        return self._trainer if is_ready and not self._draining.is_set() else None

    def _do_one(self, trainer: TrainerProcess) -> bool:
        """Claim and carry out one job; return False if there is none."""
        looked_at = self._shift.begin_look()
        if looked_at is None:
            return False
        claimed_at = time.monotonic()
        claim = self._look(looked_at)
        if claim is None:
            return False
        with about(job_id=claim.job_id, attempt=claim.attempt):
            log.info("job %s, attempt %d", claim.job_id, claim.attempt)
            self._carry_out(claim, claimed_at, trainer)
        return True

    def _look(self, since: float) -> Claim | None:
        """Claim a job if there is room, and report the result to the shift."""
        try:
            is_short = self._is_short_of_room()
            claim = None if is_short else self._claim()
        except LedgerRefused as error:
            self._shift.refused(error)
            raise
        except Exception:
            self._shift.out_of_reach(since)
            raise
        if claim is None:
            self._shift.found_nothing(since, is_short_of_room=is_short)
        else:
            self._shift.claimed()
        return claim

    def _claim(self) -> Claim | None:
        self._has_looked = True
        claim = self._ledger.claim(
            self._worker_id(), self._options.queues, self._claim_id, self._shift.seconds_left()
        )
        self._claim_id = uuid.uuid4()  # a request without an answer is repeated under its id
        return claim

    def _is_short_of_room(self) -> bool:
        """Return True if there is no room for a job; report the reason."""
        shortage = self._room.shortage()
        if shortage is not None:
            if not self._stands_back:
                log.warning("this worker takes no jobs: %s", shortage)
            self._ledger.stand_back(self._worker_id(), shortage)
        elif self._stands_back:
            log.warning("there is room again: this worker takes jobs")
        self._stands_back = shortage is not None
        return self._stands_back

    def _carry_out(self, claim: Claim, claimed_at: float, trainer: TrainerProcess) -> None:
        attempt = Attempt(
            self._ledger,
            claim,
            claimed_at,
            self._options.heartbeat_seconds,
            self._options.save_seconds,
            self._draining.is_set,
            self._ring,
            self._options.roots,
            self._options.memory_bytes,
            self._options.patience,
            self._room,
            lambda: self._release_seconds,
            self._options.allocation,
        )
        is_reusable = False
        try:
            with self._folders.attempt(f"{claim.job_id}-{claim.attempt}") as folder:
                ended = attempt.carry_out(trainer, self._cache, folder)
            is_reusable = ended.healthy and not trainer.has_outgrown()
        finally:
            self._shift.job_ended(attempt.conclusion)
            if not is_reusable:
                self._replace_trainer()

    def _replace_trainer(self) -> None:
        """Start the next trainer at once, which warms up meanwhile."""
        self._drop_trainer()
        if not self._draining.is_set():
            self._trainer = TrainerProcess(self._options.trainer, self._folders)

    def _drop_trainer(self) -> None:
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
