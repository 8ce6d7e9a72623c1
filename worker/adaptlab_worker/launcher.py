"""The worker proper: its slots, woken by the doorbell, the clock or the end of a job."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from adaptlab_services.errors import LedgerRefused, LedgerUnreachable
from adaptlab_services.leases.leases import Ledger
from adaptlab_worker.room import Room
from adaptlab_worker.scratch import AssetCache, Scratch
from adaptlab_worker.shift import Shift
from adaptlab_worker.slot import Slot, SlotOptions

log = logging.getLogger(__name__)


class Launcher:
    """Runs jobs in a number of slots until it is drained.

    Args:
        ledger: the door to jobs and results.
        options: what the slots share.
        slots: how many jobs run at the same time.
        root: folder for scratch files and fetched weights.
        ring: wakes other workers, by queue.
        shift: how many jobs are claimed, and until when; None sets no limit.
    """

    def __init__(
        self,
        ledger: Ledger,
        options: SlotOptions,
        slots: int,
        root: Path,
        ring: Callable[[Sequence[str]], None],
        shift: Shift | None = None,
    ) -> None:
        self._ledger = ledger
        self._options = options
        self._draining = threading.Event()
        self._registering = threading.Lock()
        self._id: UUID | None = None
        self._scratch = Scratch(root / "scratch")
        cache = AssetCache(root / "weights")
        room = Room(root / "scratch", options.scratch_free_bytes)
        self._slots = tuple(
            Slot(
                f"slot-{number}",
                ledger,
                self._worker_id,
                ring,
                options,
                self._scratch,
                cache,
                room,
                self._draining,
                shift,
            )
            for number in range(slots)
        )

    def start(self) -> None:
        """Warm the trainers up and begin to claim."""
        for slot in self._slots:
            slot.start()

    def ring(self) -> None:
        """There may be work: wake the free slots; busy ones look anyway when they finish."""
        for slot in self._slots:
            slot.ring()

    def drain(self) -> None:
        """Claim no more, and give back the jobs that run; returns at once."""
        self._draining.set()
        for slot in self._slots:
            slot.leave()

    def has_ended(self) -> bool:
        """Whether all slots have ended, after `drain`."""
        return all(slot.join(0) for slot in self._slots)

    def close(self, seconds: float) -> bool:
        """Drain, wait for the slots to end, tidy up; whether all ended in time."""
        self.drain()
        until = time.monotonic() + seconds
        late = [slot for slot in self._slots if not slot.join(until - time.monotonic())]
        self._scratch.close()
        return not late

    def say_goodbye(self) -> None:
        """Tell the ledger that this worker has left, if it ever came; when all slots have ended."""
        try:
            if self._id is not None:
                self._ledger.say_goodbye(self._id)
        except (LedgerUnreachable, LedgerRefused) as error:
            log.warning("left without a goodbye: %s", error)

    def _worker_id(self) -> UUID:
        """The id under which the worker is registered, with its first claim."""
        with self._registering:
            if self._id is None:
                self._id = self._ledger.register_worker(
                    socket.gethostname(), os.getpid(), self._options.queues
                )
                log.info("worker %s serves %s", self._id, ", ".join(self._options.queues))
            return self._id
