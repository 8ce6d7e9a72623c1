"""One attempt at one job: follow the trainer, stop it, record the end."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from adaptlab.errors import InvalidSpec
from adaptlab.runs.events import Allocation, Event, Progress, Started
from adaptlab.runs.inputs import InputFile, LocalFile, placed
from adaptlab.specs.spec import ModelFolder
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab_services.errors import LeaseLost, LedgerUnreachable, ReportRefused
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots
from adaptlab_worker.attempt.disk_space import Room
from adaptlab_worker.attempt.heartbeat import Heartbeat
from adaptlab_worker.attempt.recorder import Recorder
from adaptlab_worker.attempt.run_failures import misplaced, not_begun, trainer_gone
from adaptlab_worker.attempt.waiting_limits import Patience, StallTimer
from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.trainer.protocol import (
    Ended,
    LeaseKept,
    Ready,
    RunRequest,
    StopRequest,
)
from adaptlab_worker.trainer.scratch import AssetCache
from adaptlab_worker.trainer.trainer_process import TrainerProcess

LOOK_SECONDS = 0.05
# While there is no reason to stop; a command in a heartbeat, and the worker's shutdown, interrupt
# the wait. Looking more often was a third of a job's cost for the worker.
CALM_LOOK_SECONDS = 2.0  # longer than the silence of a run that trains
AGAIN_SECONDS = 0.2
# Reasons for stopping a run, and the seconds that the trainer has to stop by itself.
Cause = Literal["lost", "cancelled", "paused", "timeout", "stalled", "released", "unrecorded"]
Conclusion = Literal["succeeded", "failed", "cancelled", "queued", "paused", "lost"]
"""The state of a job after an attempt; `lost` if nothing more could be written."""
GRACE: Mapping[Cause, float] = {
    "lost": 1.0,
    "cancelled": 3.0,
    "paused": 15.0,
    "timeout": 3.0,
    "stalled": 1.0,
    "released": 1.5,
    "unrecorded": 1.0,
}
LONGEST_FENCE = 5.0  # seconds before the end of a lease that could not be renewed
SAVING: frozenset[Cause] = frozenset({"released", "paused"})
DEFAULT_PATIENCE = Patience()
UNRECORDED = "Results could not be recorded"
STOPPED = Ended(outcome="stopped")

log = logging.getLogger(__name__)


class _MustStop(Exception):
    """The attempt has to stop before the trainer has received its run."""


class Attempt:
    """The execution of one claim with one trainer.

    Args:
        ledger: the interface to jobs and results.
        claim: the job and its lease.
        claimed_at: the monotonic time just before the claim.
        heartbeat_seconds: between two renewals of the lease.
        save_seconds: between two saved states of the training.
        is_draining: whether the worker is shutting down.
        ring: wakes the workers of the queues that get work when this job ends.
        roots: folders that may contain model folders.
        memory_bytes: the run's memory limit; None for most of what is free.
        patience: limits on running without the ledger, and on silence.
        room: distinguishes a full disk from a run that is too large for it.
        release_seconds: returns the time for the run to save its state, once the worker shuts down.
        allocation: the batch job that the worker is part of.

    Attributes:
        conclusion: what became of the job, once `carry_out` has returned.
    """

    def __init__(
        self,
        ledger: Ledger,
        claim: Claim,
        claimed_at: float,
        heartbeat_seconds: float,
        save_seconds: float,
        is_draining: Callable[[], bool],
        ring: Callable[[Sequence[str]], None],
        roots: ModelRoots = NO_ROOTS,
        memory_bytes: int | None = None,
        patience: Patience = DEFAULT_PATIENCE,
        room: Room | None = None,
        release_seconds: Callable[[], float] = lambda: GRACE["released"],
        allocation: Allocation | None = None,
    ) -> None:
        self.conclusion: Conclusion = "lost"
        self._allocation = allocation
        self._release_seconds = release_seconds
        self._ledger = ledger
        self._patience = patience
        self._room = room
        self._stall: StallTimer | None = None
        self._roots = roots
        self._memory_bytes = memory_bytes
        self._claim = claim
        self._name = f"{claim.job_id}-{claim.attempt}"
        self._save_seconds = save_seconds
        self._is_draining = is_draining
        self._ring = ring
        self._heartbeat = Heartbeat(ledger, claim, claimed_at, heartbeat_seconds)
        self._timeout_at = claimed_at + claim.max_seconds
        self._fence = min(LONGEST_FENCE, claim.lease_seconds / 4)
        self._cause: Cause | None = None
        self._kill_at = 0.0
        self._told_until: float | None = None
        self._is_disk_short = False
        self._refusal: str | None = None  # of the report of the run's end

    def carry_out(self, trainer: TrainerProcess, cache: AssetCache, scratch: Path) -> Ended:
        """Run the job and record its end; return the end of the run itself."""
        if (resume := self._claim.inputs.resume) is not None:
            log.info("attempt %s resumes after step %d", self._name, resume.step)
        recorder = Recorder(self._ledger, self._claim, scratch, trainer.run_folder(scratch))
        self._heartbeat.start(on_news=trainer.wake)
        recorder.start()
        try:
            ended = self._run(trainer, recorder, cache, scratch)
            self._finish_recording(recorder)
            self._is_disk_short = ended.reason == "disk_full" and self._is_short_without(
                scratch, trainer.run_folder(scratch)
            )
            self._settle(ended, recorder)
        finally:
            recorder.abandon()
            self._heartbeat.close()
        return ended

    def _run(
        self, trainer: TrainerProcess, recorder: Recorder, cache: AssetCache, scratch: Path
    ) -> Ended:
        try:
            inputs = placed(
                self._claim.inputs,
                lambda artifact, name: self._place_file(cache, artifact, scratch / name),
                lambda folder, name: self._place_folder(cache, folder, scratch / name),
            )
            trainer.memory_kills.forget_earlier()
            trainer.send(
                RunRequest(
                    run=self._name,
                    resolved=self._claim.resolved_spec,
                    inputs=inputs,
                    scratch=trainer.make_run_folder(scratch),  # after all its inputs are there
                    save_seconds=self._save_seconds,
                    memory_bytes=self._memory_bytes,
                    until=self._trainers_end(),
                )
            )
            return self._follow(trainer, recorder)
        except _MustStop:
            return STOPPED
        except InvalidSpec as error:
            return misplaced(error)
        except TrainerGone as gone:
            return self._gone(gone, trainer)
        except Exception as error:
            log.exception("attempt %s cannot go on", self._name)
            return not_begun(error)

    def _place_file(self, cache: AssetCache, artifact: InputFile, file: Path) -> LocalFile:
        """Fetch an artifact to a file."""
        self._persevere(lambda: cache.place(artifact.sha256, self._fetch, file))
        return LocalFile(sha256=artifact.sha256, path=file)

    def _place_folder(self, cache: AssetCache, needed: ModelFolder, path: Path) -> PlacedFolder:
        """Return a folder below a root, or an uploaded one, fetched to `path`.

        Raises:
            InvalidSpec: this worker lacks it.
        """
        within = None
        if needed.stored:
            path.mkdir()
            for file in needed.stored:
                self._place_file(cache, InputFile(sha256=file.sha256), path / file.name)
        else:
            located = self._roots.located(needed.folder)
            path, within = located.place, located.root
        return PlacedFolder(path=path, name=needed.folder, files=needed.files, within=within)

    def _fetch(self, sha256: str) -> Iterator[bytes]:
        for chunk in self._ledger.fetch_artifact(self._claim, sha256):
            self._cause = self._why_stop(None)
            if self._cause is not None:
                raise _MustStop
            yield chunk

    def _persevere(self, fetch: Callable[[], None]) -> None:
        """Fetch, with retries while the ledger is unreachable."""
        while True:
            try:
                return fetch()
            except LedgerUnreachable as error:
                log.warning("attempt %s cannot fetch yet: %s", self._name, error)
                self._cause = self._why_stop(None)
                if self._cause is not None:
                    raise _MustStop from error
                time.sleep(AGAIN_SECONDS)

    def _follow(self, trainer: TrainerProcess, recorder: Recorder) -> Ended:
        self._stall = StallTimer(self._patience, time.monotonic())
        while True:
            self._guard(trainer, recorder)
            if recorder.is_behind:
                time.sleep(LOOK_SECONDS)
                self._stall.hold(time.monotonic())
                continue
            message = trainer.receive(self._look_seconds())
            if isinstance(message, Ended):
                return message
            if message is None or isinstance(message, Ready):
                continue
            if isinstance(message, Progress):
                self._heartbeat.told(message)
            self._stall.heard(message, time.monotonic())
            recorder.put(self._placed(message))

    def _look_seconds(self) -> float:
        """Return the seconds to wait before checking for reasons to stop."""
        must_be_in_time = self._claim.strict or self._cause is not None
        return LOOK_SECONDS if must_be_in_time else CALM_LOOK_SECONDS

    def _placed(self, event: Event) -> Event:
        """Return the event; `Started` gets the batch job."""
        if self._allocation is None or not isinstance(event, Started):
            return event
        environment = event.environment.model_copy(update={"allocation": self._allocation})
        return event.model_copy(update={"environment": environment})

    def _guard(self, trainer: TrainerProcess, recorder: Recorder) -> None:
        """Request a stop if there is a reason; kill a trainer that does not."""
        cause, now = self._why_stop(recorder), time.monotonic()
        if cause is not None and self._cause is None:
            log.info("attempt %s has to stop: %s", self._name, cause)
            self._kill_at = now + self._grace(cause)
            self._cause = cause
            trainer.send(StopRequest(run=self._name, save=cause in SAVING))
        elif cause == "lost" and self._cause != "lost":
            self._kill_at = min(self._kill_at, now + self._grace(cause))
            self._cause = cause
        if self._cause is not None and now >= self._kill_at:
            trainer.kill()
        elif self._told_until != (until := self._trainers_end()) and until is not None:
            self._told_until = until
            trainer.tell(LeaseKept(run=self._name, until=until))

    def _why_stop(self, recorder: Recorder | None) -> Cause | None:
        now = time.monotonic()
        if self._is_lost(recorder):
            return "lost"
        if self._heartbeat.is_cancelled:
            return "cancelled"
        if self._is_draining():
            return "released"
        if self._heartbeat.is_paused:
            return "paused"
        if now >= self._timeout_at:
            return "timeout"
        if self._stall is not None and self._stall.is_over(now):
            return "stalled"
        return "unrecorded" if recorder is not None and recorder.failure else None

    def _is_lost(self, recorder: Recorder | None) -> bool:
        """Return True if the lease is lost, or unconfirmed for too long."""
        return (
            self._heartbeat.is_lost
            or (recorder is not None and recorder.is_lost)
            or time.monotonic() >= self._may_go_on_until()
        )

    def _may_go_on_until(self) -> float:
        """Return the time by which a run without a lease must have stopped.

        A second copy of a run changes nothing, since every write names its attempt; it only costs
        computing time. So runs continue through an outage, unless the job is strict: it uses
        something that two runs at a time would harm.
        """
        at_the_end = self._heartbeat.deadline - self._fence
        if self._claim.strict:
            return at_the_end
        return max(at_the_end, self._heartbeat.reached_at + self._patience.ride_through_seconds)

    def _trainers_end(self) -> float | None:
        """Return the time at which the trainer of a strict run ends by itself.

        It matters if this worker is frozen. It is later than the worker would end the run, and
        before the lease ends.
        """
        return self._heartbeat.deadline - self._fence / 4 if self._claim.strict else None

    def _grace(self, cause: Cause) -> float:
        if cause == "released":
            return self._release_seconds()
        return min(GRACE[cause], self._fence / 2) if cause == "lost" else GRACE[cause]

    def _gone(self, gone: TrainerGone, trainer: TrainerProcess) -> Ended:
        """Return the end of a run whose trainer died, killed by us or by itself."""
        if self._cause is not None:
            return Ended(outcome="stopped", healthy=False)
        return trainer_gone(gone, self._heartbeat.step, trainer.memory_kills)

    def _finish_recording(self, recorder: Recorder) -> None:
        """Wait until the results are recorded; for a cancelled job, not long."""
        recorder.close()
        until = time.monotonic() + GRACE["cancelled"]
        while not recorder.join(LOOK_SECONDS):
            is_unwanted = self._heartbeat.is_cancelled and time.monotonic() >= until
            if is_unwanted or self._is_lost(recorder):
                recorder.abandon()

    def _is_short_without(self, *folders: Path) -> bool:
        """Return True if the disk is full even without the run's files."""
        return self._room is not None and self._room.shortage(*folders) is not None

    def _settle(self, ended: Ended, recorder: Recorder) -> None:
        """Record the end of the attempt, with retries while the lease is held."""
        while not self._is_lost(recorder):
            try:
                queues = self._write_end(ended, recorder)
            except LeaseLost:
                break
            except ReportRefused as error:
                if self._refusal is not None:  # not even as a failure
                    raise
                log.warning("attempt %s cannot end as it did: %s", self._name, error)
                self._refusal = str(error)
            except LedgerUnreachable as error:
                log.warning("the end of attempt %s waits: %s", self._name, error)
                time.sleep(AGAIN_SECONDS)
            else:
                log.info("attempt %s: %s %s", self._name, ended.outcome, self._cause or "")
                self.conclusion = self._conclusion(ended, recorder, is_queued=bool(queues))
                self._ring(queues)
                return
        log.warning("attempt %s lost its lease; nothing more was written", self._name)

    def _write_end(self, ended: Ended, recorder: Recorder) -> tuple[str, ...]:
        ledger, claim = self._ledger, self._claim
        if (error := self._unbelieved(recorder)) is not None:
            is_final = recorder.is_refused or self._refusal is not None
            return ledger.fail(claim, "system_error", error, retry=not is_final)
        if ended.outcome == "finished":
            return ledger.finish(claim)
        if self._cause == "cancelled":
            return ledger.stopped(claim)
        if ended.outcome == "failed":
            reason = ended.reason or "system_error"
            if self._is_disk_short:  # this worker takes no job until there is room
                return ledger.release(claim, reason, ended.error)
            return ledger.fail(claim, reason, ended.error or reason, retry=ended.retry)
        if self._cause == "released":
            return ledger.release(claim, "preempted")
        if self._cause == "paused":
            return ledger.paused(claim)
        if self._cause == "stalled":
            return ledger.fail(claim, "stalled", self._stalled(), retry=True)
        if self._cause == "timeout":
            error = (
                f"The job ran for longer than its max_seconds of {claim.max_seconds}. Raise "
                "max_seconds."
            )
            return ledger.fail(claim, "timeout", error, retry=False)
        return ledger.fail(
            claim, "system_error", "The run stopped without being asked to.", retry=True
        )

    def _unbelieved(self, recorder: Recorder) -> str | None:
        """Return the reason if the run's results or end were not accepted."""
        if recorder.failure is not None:
            problem = "The server refused the results" if recorder.is_refused else UNRECORDED
            return f"{problem}: {recorder.failure}"
        if self._refusal is not None:
            return f"The server refused the end of the run: {self._refusal}"
        return None

    def _conclusion(self, ended: Ended, recorder: Recorder, *, is_queued: bool) -> Conclusion:
        """Return the conclusion of the job, given the recorded end."""
        if ended.outcome == "finished" and recorder.failure is None and self._refusal is None:
            return "succeeded"
        if self._cause == "cancelled":
            return "cancelled"
        if is_queued:
            return "queued"
        return "paused" if self._cause in SAVING else "failed"

    def _stalled(self) -> str:
        limit = 0.0 if self._stall is None else self._stall.limit
        return (
            f"The run reported nothing for {limit:.0f} s after step {self._heartbeat.step} and "
            "was ended. If that is normal for this job, raise ADAPTLAB_STALL_SECONDS of its "
            "worker."
        )
