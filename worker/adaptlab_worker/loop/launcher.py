"""The slots of a worker, woken by the doorbell, the clock or a job's end."""

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from adaptlab.specs.spec import UPLOADED
from adaptlab_services.errors import LedgerRefused, LedgerUnreachable
from adaptlab_services.leases.leases import Ledger
from adaptlab_worker.attempt.disk_space import Room
from adaptlab_worker.confinement.trainer_user import user_of_slot
from adaptlab_worker.loop.load import LoadReporter
from adaptlab_worker.loop.slot import Slot, SlotOptions
from adaptlab_worker.loop.work_limits import Shift
from adaptlab_worker.trainer.scratch import AssetCache, Scratch

LONGEST_HOST = 253

log = logging.getLogger(__name__)


def _of_slot(options: SlotOptions, number: int) -> SlotOptions:
    """Return the options of a slot, whose trainers have a user of their own.

    `number` is that of no other slot of the workers with this scratch folder.
    """
    user = user_of_slot(options.trainer.user, number)
    return replace(options, trainer=replace(options.trainer, user=user))


def host_name() -> str:
    """Return this machine's name, in the characters that the API accepts."""
    name = re.sub(r"[^0-9A-Za-z._:-]", "-", socket.gethostname()).lstrip("._:-")
    return name[:LONGEST_HOST] or "unnamed"


class Launcher:
    """Execution of jobs in a number of slots until it is drained.

    Args:
        ledger: the interface to jobs and results.
        options: the settings that the slots share.
        slots: the number of jobs that run at the same time.
        root: folder for scratch files and fetched weights.
        ring: wakes other workers, by queue.
        shift: limits on the number of jobs and the time; None for no limit.
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
        self._load = LoadReporter(ledger, lambda: self._id)
        self._scratch = Scratch(root / "scratch")
        cache = AssetCache(root / "weights", options.cache_bytes)
        room = Room(root / "scratch", options.scratch_free_bytes)
        self._slots = tuple(
            Slot(
                f"slot-{number}",
                ledger,
                self._worker_id,
                ring,
                _of_slot(options, self._scratch.free_number()),
                self._scratch,
                cache,
                room,
                self._draining,
                shift,
            )
            for number in range(slots)
        )

    def start(self) -> None:
        """Warm up the trainers and start to claim."""
        for slot in self._slots:
            slot.start()
        self._load.start()

    def ring(self) -> None:
        """Wake the free slots to look for work; busy ones look when they finish."""
        for slot in self._slots:
            slot.ring()

    def drain(self, release_seconds: float | None = None) -> None:
        """Stop claiming, and give back running jobs; return at once.

        Args:
            release_seconds: time for runs to save their state; None for the options' own.
        """
        if release_seconds is not None:
            for slot in self._slots:
                slot.allow(release_seconds)
        self._draining.set()
        for slot in self._slots:
            slot.leave()

    def has_ended(self) -> bool:
        """Return True if all slots have ended, after `drain`."""
        return all(slot.join(0) for slot in self._slots)

    def close(self, seconds: float) -> bool:
        """Drain, wait and clean up; return True if all slots ended in time."""
        self.drain()
        until = time.monotonic() + seconds
        self._load.close()
        late = [slot for slot in self._slots if not slot.join(until - time.monotonic())]
        self._scratch.close()
        return not late

    def say_goodbye(self) -> None:
        """Sign off at the ledger if registered; call after all slots have ended."""
        try:
            if self._id is not None:
                self._ledger.say_goodbye(self._id)
        except (LedgerUnreachable, LedgerRefused) as error:
            log.warning("left without a goodbye: %s", error)

    def _worker_id(self) -> UUID:
        """Return the worker's id; it is registered with its first claim."""
        with self._registering:
            if self._id is None:
                self._id = self._ledger.register_worker(
                    host_name(),
                    os.getpid(),
                    self._options.queues,
                    (*self._options.roots.aliases, UPLOADED),
                )
                log.info("worker %s serves %s", self._id, ", ".join(self._options.queues))
            return self._id
