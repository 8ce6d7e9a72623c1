"""The heartbeat: a thread that renews one lease and does nothing else."""

import logging
import threading
import time
from collections.abc import Callable

from adaptlab.runs.events import Progress
from adaptlab_services.errors import LeaseLost
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.log_formats import about

AGAIN_SECONDS = 1.0  # after a heartbeat that failed; the lease is running out meanwhile

log = logging.getLogger(__name__)


class Heartbeat:
    """Renewal of one claim's lease until it is closed.

    Attributes:
        step: the training step to report.
        phase: the progress of a later phase to report.
        is_cancelled: the ledger requested a stop.
        is_paused: the ledger requested a stop with a saved state.
        is_lost: another attempt may hold the job; nothing more may be written.
        deadline: the monotonic time at which the lease ends unless it is renewed, counted from
            before the request that renewed it, so that the ledger's clock cannot be ahead of it.
        reached_at: the monotonic time of the last request that was answered.
    """

    def __init__(self, ledger: Ledger, claim: Claim, claimed_at: float, interval: float) -> None:
        self.step = 0
        self.phase: Progress | None = None
        self.is_cancelled = False
        self.is_paused = False
        self.is_lost = False
        self.deadline = claimed_at + claim.lease_seconds
        self.reached_at = claimed_at
        self._ledger = ledger
        self._claim = claim
        self._interval = interval
        self._closed = threading.Event()
        self._on_news: Callable[[], None] = _nobody
        self._thread = threading.Thread(
            target=self._beat, name=f"heartbeat-{claim.job_id}", daemon=True
        )

    def start(self, on_news: Callable[[], None]) -> None:
        """Start to renew; `on_news` is called for any news that may end the run."""
        self._on_news = on_news
        self._thread.start()

    def told(self, progress: Progress) -> None:
        """Take the progress that the next heartbeats report."""
        if progress.phase == "training":
            self.step = progress.step
        else:
            self.phase = progress

    def close(self) -> None:
        """Stop renewing; wait at most a second for a request under way."""
        self._closed.set()
        self._thread.join(timeout=1)

    def _beat(self) -> None:
        wait = self._interval
        with about(job_id=self._claim.job_id, attempt=self._claim.attempt):
            while not self.is_lost and not self._closed.wait(wait):
                wait = self._interval if self._renew() else min(AGAIN_SECONDS, self._interval)

    def _renew(self) -> bool:
        """Send one heartbeat; return False if the ledger could not be reached."""
        sent_at = time.monotonic()
        try:
            command = self._ledger.heartbeat(self._claim, self.step, self.phase)
        except LeaseLost:
            self.is_lost = True
            self._on_news()
        except Exception as error:  # noqa: BLE001 - the next one may succeed, whatever it was
            log.warning("heartbeat for job %s failed: %s", self._claim.job_id, error)
            return False
        else:
            self.deadline = sent_at + self._claim.lease_seconds
            self.reached_at = sent_at
            self.is_cancelled = self.is_cancelled or command == "stop"
            self.is_paused = command == "pause"
            if command != "continue":
                self._on_news()
        return True


def _nobody() -> None:
    """Do nothing: the listener before the run begins."""
