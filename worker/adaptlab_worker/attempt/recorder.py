"""The recorder: writes a run's events to the ledger, in batches."""

import logging
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Event,
    Metrics,
    Progress,
    TrainingSaved,
)
from adaptlab_services.errors import LeaseLost, LedgerUnreachable, ReportRefused
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.log_formats import about
from adaptlab_worker.attempt.spool import Spool

# A batch costs milliseconds of processor time, whatever its size.
FLUSH_SECONDS = 2.0
FLUSH_POINTS = 1000
MOST_WAITING = 10 * FLUSH_POINTS  # in memory; later events wait on disk
MOST_AT_ONCE = 2000  # events from the disk
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
CHUNK = 2**20  # bytes

log = logging.getLogger(__name__)


class Recorder:
    """A thread that accepts events without delay and writes them soon.

    While the ledger is unreachable they wait, first in memory and then in the scratch folder.
    Progress alone is not written, except for the first step: heartbeats report it.

    Attributes:
        is_lost: the lease is lost; further events are dropped.
        failure: why a reachable ledger did not accept events; further events are dropped.
        is_refused: the failure is a refusal of the report, so a retry would fail again.
    """

    def __init__(
        self, ledger: Ledger, claim: Claim, scratch: Path, run: Path | None = None
    ) -> None:
        self.is_lost = False
        self.failure: str | None = None
        self.is_refused = False
        self._ledger = ledger
        self._claim = claim
        self._run = run or scratch
        self._waiting: list[Event] = []
        self._weight = 0
        self._spool = Spool(scratch / "spool.jsonl")
        self._saved: TrainingSaved | None = None  # the last state that waits
        self._has_stepped = False
        self._has_news = False
        self._is_urgent = False
        self._written_at = 0.0
        self._is_closing = False
        self._is_abandoned = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=self._serve, name=f"recorder-{claim.job_id}", daemon=True
        )

    def start(self) -> None:
        """Start to write."""
        self._written_at = time.monotonic()
        self._thread.start()

    def put(self, event: Event) -> None:
        """Accept an event."""
        with self._changed:
            self._keep(event)
            had_news = self._has_news
            self._has_news = had_news or not isinstance(event, Progress)
            if self._is_first_step(event) or self._weight >= FLUSH_POINTS:
                self._is_urgent = True
            if self._is_urgent or self._has_news > had_news:
                self._changed.notify()

    @property
    def is_behind(self) -> bool:
        """Return True if so much waits that the caller should pause."""
        return self._spool.is_full

    def close(self) -> None:
        """Write the remaining events and end; `join` waits for that."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def abandon(self) -> None:
        """End without writing more."""
        self._is_abandoned.set()
        self.close()

    def join(self, seconds: float) -> bool:
        """Wait for the end; return True if it came in time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _keep(self, event: Event) -> None:
        if isinstance(event, TrainingSaved):
            # The file of a replaced state is no longer needed.
            if self._saved is not None and self._saved.path != event.path:
                self._forget(self._saved.path)
            self._saved = event
        before = self._waiting[-1:]
        if self._spool.is_empty and without_overtaken([*before, event]) != [*before, event]:
            self._waiting[-1] = event  # progress alone may wait long
        elif self._weight < MOST_WAITING and self._spool.is_empty:
            self._waiting.append(event)
            self._weight += len(event.points) if isinstance(event, Metrics) else 1
        else:
            self._spool.append(event)

    def _is_first_step(self, event: Event) -> bool:
        """Return True for the first step, which is written at once for users."""
        if self._has_stepped or not isinstance(event, Progress) or event.step < 1:
            return False
        self._has_stepped = True
        return True

    def _serve(self) -> None:
        try:
            with about(job_id=self._claim.job_id, attempt=self._claim.attempt):
                self._write_all()
        except Exception as error:
            # Lost events must not look like a run that had none.
            log.exception("results of job %s cannot be read back", self._claim.job_id)
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self._spool.close()

    def _write_all(self) -> None:
        is_last = False
        while not is_last and not self._is_abandoned.is_set():
            batch, is_last = self._next_batch()
            if batch and not (self.is_lost or self.failure):
                self._write(batch)

    def _next_batch(self) -> tuple[list[Event], bool]:
        with self._changed:
            self._changed.wait_for(lambda: self._has_news or self._must_write())
            rest = self._written_at + FLUSH_SECONDS - time.monotonic()
            self._changed.wait_for(self._must_write, max(0.0, rest))
            self._written_at, self._has_news = time.monotonic(), False
            if self._waiting:  # earlier than anything on disk
                batch, self._waiting = self._waiting, []
            else:
                batch = self._spool.take(MOST_AT_ONCE)
            if self._saved in batch:
                self._saved = None
            self._weight = 0
            self._is_urgent = not self._spool.is_empty
            is_last = self._is_closing and self._spool.is_empty
            return without_overtaken([e for e in batch if _is_there(e)]), is_last

    def _must_write(self) -> bool:
        return self._is_urgent or self._is_closing

    def _write(self, batch: list[Event]) -> None:
        """Write a batch, with retries until the lease has ended."""
        pause = FIRST_PAUSE
        while not self._is_abandoned.is_set():
            try:
                self._send(batch)
            except LeaseLost:
                self.is_lost = True
            except LedgerUnreachable as error:
                log.warning("results of job %s wait: %s", self._claim.job_id, error)
                self._is_abandoned.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            except ReportRefused as error:
                log.warning("results of job %s are refused: %s", self._claim.job_id, error)
                self.failure, self.is_refused = str(error), error.is_for_good
            except Exception as error:
                log.exception("results of job %s cannot be recorded", self._claim.job_id)
                self.failure = f"{type(error).__name__}: {error}"
            return

    def _send(self, batch: list[Event]) -> None:
        artifacts = {
            event.path: self._ledger.put_artifact(self._claim, self._content(event.path)).sha256
            for event in batch
            if isinstance(event, AttentionCaptured | CheckpointWritten | TrainingSaved)
        }
        started = time.monotonic()
        self._ledger.record(self._claim, batch, artifacts)
        log.debug("recorded %d events in %.3f s", len(batch), time.monotonic() - started)
        for event in batch:
            if isinstance(event, TrainingSaved):
                self._forget(event.path)

    def _content(self, path: Path) -> Iterator[bytes]:
        with self._opened(path) as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def _opened(self, path: Path) -> IO[bytes]:
        """Open a file of the run; raise `ValueError` for any other.

        A trainer with another user must not make the worker read files that it may not read.
        """
        self._check_place(path)
        # No link created meanwhile is followed, and opening a pipe does not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise ValueError(f"{path.name} is not a regular file.")
        return file

    def _check_place(self, path: Path) -> None:
        if not path.resolve().is_relative_to(self._run.resolve()):
            raise ValueError(f"{path} is outside the run's scratch folder.")

    def _forget(self, path: Path) -> None:
        """Remove a file of the run that is no longer needed."""
        self._check_place(path.parent)
        path.unlink(missing_ok=True)


def _is_there(event: Event) -> bool:
    """Return True unless the event is a saved state whose file was replaced."""
    return not isinstance(event, TrainingSaved) or event.path.exists()


def without_overtaken(events: Sequence[Event]) -> list[Event]:
    """Drop all but the last progress of each phase and the last saved state."""
    last: dict[str, Event] = {}
    for event in events:
        if isinstance(event, Progress | TrainingSaved):
            last[_kind(event)] = event
    return [e for e in events if not isinstance(e, Progress | TrainingSaved) or e is last[_kind(e)]]


def _kind(event: Progress | TrainingSaved) -> str:
    return event.phase if isinstance(event, Progress) else event.event
