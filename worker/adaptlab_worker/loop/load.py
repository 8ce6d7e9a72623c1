"""A worker's memory and GPUs, measured and reported every few seconds.

NVIDIA's own library is asked by the package nvidia-ml-py, which loads no CUDA and takes no memory
on a GPU. torch would take hundreds of megabytes on it, and starting `nvidia-smi` 50 ms each time.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any
from uuid import UUID

import psutil

from adaptlab.c_compiler import c_compiler
from adaptlab_answers.server import MOST_GPUS, GpuLoad, WorkerLoad
from adaptlab_services.errors import LedgerRefused, LedgerUnreachable
from adaptlab_services.leases.leases import Ledger
from adaptlab_worker.confinement.confinement import machine_memory
from adaptlab_worker.errors import UnexpectedServerAnswer

REPORT_SECONDS = 15.0
VISIBLE = "CUDA_VISIBLE_DEVICES"

log = logging.getLogger(__name__)


class Gpus:
    """The GPUs that trainers can use; none without NVIDIA's library.

    Args:
        environment: with `CUDA_VISIBLE_DEVICES`, if only some of them may be used.
        library: a module like `pynvml`; None to look for it.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, library: Any = None) -> None:
        # Any: the module has no types.
        self._visible = environment.get(VISIBLE)
        self._library = library

    def loads(self) -> tuple[GpuLoad, ...]:
        """Return the load of each GPU that reports its memory.

        The library is looked for until it starts, since a driver can be loaded late.
        """
        if self._library is None:
            self._library = _library()
        return () if self._library is None else tuple(self._loads())

    def _loads(self) -> Iterator[GpuLoad]:
        library = self._library
        for index in range(min(library.nvmlDeviceGetCount(), MOST_GPUS)):
            try:
                device = library.nvmlDeviceGetHandleByIndex(index)
                if not self._is_visible(index, _text(library.nvmlDeviceGetUUID(device))):
                    continue
                memory = library.nvmlDeviceGetMemoryInfo(device)
                name = _text(library.nvmlDeviceGetName(device))
            except library.NVMLError as error:
                log.debug("GPU %d does not report its memory: %s", index, error)
                continue
            yield GpuLoad(
                index=index,
                name=name[:128],
                memory_bytes=memory.total,
                memory_used_bytes=memory.used,
                busy=self._busy(device),
            )

    def _busy(self, device: object) -> float | None:
        try:
            return self._library.nvmlDeviceGetUtilizationRates(device).gpu / 100
        except self._library.NVMLError:  # a part of a GPU does not report it
            return None

    def _is_visible(self, index: int, identity: str) -> bool:
        if self._visible is None:
            return True
        names = [name.strip() for name in self._visible.split(",")]
        return any(
            name == str(index) or (len(name) > 4 and identity.startswith(name)) for name in names
        )


class LoadReporter:
    """A thread that reports the load of a worker until it is closed.

    Args:
        ledger: the interface that takes the reports.
        worker_id: returns the worker's id, or None while it is not registered.
        interval: seconds between two reports.
    """

    def __init__(
        self,
        ledger: Ledger,
        worker_id: Callable[[], UUID | None],
        interval: float = REPORT_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._worker_id = worker_id
        self._interval = interval
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="load", daemon=True)

    def start(self) -> None:
        """Start to report."""
        self._thread.start()

    def close(self) -> None:
        """Stop reporting; wait at most a second for a report under way."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1)

    def _serve(self) -> None:
        gpus = Gpus()
        wait = min(1.0, self._interval)  # until the worker is registered
        while not self._closed.wait(wait):
            worker_id = self._worker_id()
            if worker_id is None:
                continue
            wait = self._interval
            try:
                self._ledger.report_load(worker_id, measured(gpus))
            except LedgerUnreachable as error:
                log.debug("the load was not reported: %s", error)
            except (
                LedgerRefused,
                UnexpectedServerAnswer,
            ) as error:  # or a server of an older version
                log.warning("the server takes no reports of the load: %s", error)
                return
            except Exception:
                log.exception("the load was not reported")


def measured(gpus: Gpus) -> WorkerLoad:
    """Return the load of this process with its children, machine and GPUs."""
    own = psutil.Process()
    machine = machine_memory()
    return WorkerLoad(
        memory_used_bytes=sum(map(_resident, (own, *own.children(recursive=True)))),
        machine_memory_bytes=machine,
        machine_memory_available_bytes=min(machine, psutil.virtual_memory().available),
        has_compiler=c_compiler() is not None,
        gpus=gpus.loads(),
    )


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it has ended, or is hidden
        return 0


def _library() -> Any:
    """Return NVIDIA's library, started; None if this machine has none."""
    library: Any = import_module("pynvml")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        log.debug("no GPU is reported: %s", error)
        return None
    return library


def _text(value: str | bytes) -> str:
    """Return a name; older versions of the package return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
