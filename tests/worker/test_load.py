"""A worker's memory and GPUs, and their reports."""

import os
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import psutil
import pytest
from tests.watching import until

from adaptlab_answers.server import WorkerLoad
from adaptlab_services.errors import LedgerRefused, LedgerUnreachable
from adaptlab_services.leases.leases import Ledger
from adaptlab_worker.loop import load
from adaptlab_worker.loop.load import Gpus, LoadReporter, measured

GIB = 2**30


class NvmlError(Exception):
    """What NVIDIA's library raises."""


def library(*, mute: int | None = None, busy: bool = True) -> Any:
    """A stand-in for `pynvml` on a machine with three GPUs."""

    def memory(index: int) -> Any:
        if index == mute:
            raise NvmlError("no permission")
        return SimpleNamespace(total=80 * GIB, used=(index + 1) * GIB)

    def rates(index: int) -> Any:
        if not busy:
            raise NvmlError("not supported")
        return SimpleNamespace(gpu=25 * index)

    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda index: f"GPU-{index}{index}aa",
        nvmlDeviceGetName=lambda index: f"H{index}".encode(),
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetUtilizationRates=rates,
    )


def test_each_gpu_is_measured() -> None:
    loads = Gpus({}, library()).loads()
    assert [(gpu.index, gpu.name, gpu.busy) for gpu in loads] == [
        (0, "H0", 0.0),
        (1, "H1", 0.25),
        (2, "H2", 0.5),
    ]
    assert [gpu.memory_used_bytes for gpu in loads] == [GIB, 2 * GIB, 3 * GIB]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [("1", [1]), ("0,2", [0, 2]), ("GPU-22aa", [2]), ("GPU-1", [1]), ("", []), ("-1", [])],
)
def test_gpus_of_others_are_left_out(visible: str, indices: list[int]) -> None:
    loads = Gpus({"CUDA_VISIBLE_DEVICES": visible}, library()).loads()
    assert [gpu.index for gpu in loads] == indices


def test_a_gpu_that_reports_nothing_is_left_out() -> None:
    assert [gpu.index for gpu in Gpus({}, library(mute=1)).loads()] == [0, 2]
    assert [gpu.busy for gpu in Gpus({}, library(busy=False)).loads()] == [None, None, None]


def test_a_library_that_starts_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([None, None, library()])
    monkeypatch.setattr("adaptlab_worker.loop.load._library", lambda: next(found))
    gpus = Gpus({})
    assert [len(gpus.loads()) for _ in range(4)] == [0, 0, 3, 3]


def test_children_count_as_memory_of_the_worker() -> None:
    before = measured(Gpus({}, library()))
    eater = "import sys; held = b'x' * 2**27; print(len(held), flush=True); sys.stdin.read()"
    command, pipe = [sys.executable, "-c", eater], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        after = measured(Gpus({}, library()))
        child.communicate()
    assert after.memory_used_bytes - before.memory_used_bytes > 2**26
    assert psutil.Process(os.getpid()).memory_info().rss <= after.memory_used_bytes
    assert 0 < after.machine_memory_available_bytes <= after.machine_memory_bytes


@pytest.mark.parametrize("compiler", ["/usr/bin/cc", None])
def test_a_compiler_is_reported(monkeypatch: pytest.MonkeyPatch, compiler: str | None) -> None:
    monkeypatch.setattr(load, "c_compiler", lambda: compiler)
    assert measured(Gpus({}, library())).has_compiler == (compiler is not None)


@dataclass
class Taker:
    """A ledger that takes only reports of load."""

    errors: list[Exception]
    taken: list[tuple[UUID, WorkerLoad]]

    def report_load(self, worker_id: UUID, load: WorkerLoad) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append((worker_id, load))


def test_reports_go_on_after_an_outage() -> None:
    taker, worker = Taker([LedgerUnreachable("away"), ValueError("odd")], []), uuid4()
    ids = [None, None]
    reporter = LoadReporter(cast(Ledger, taker), lambda: ids.pop() if ids else worker, 0.01)
    reporter.start()
    until(lambda: len(taker.taken) >= 2, "two reports", 60)
    reporter.close()
    assert {taken[0] for taken in taker.taken} == {worker}
    assert taker.errors == ids == []


def test_a_server_that_refuses_is_not_asked_again() -> None:
    taker = Taker([LedgerRefused("no")], [])
    reporter = LoadReporter(cast(Ledger, taker), uuid4, 0.01)
    reporter.start()
    until(lambda: not taker.errors, "a refusal", 60)
    reporter._thread.join(60)
    assert not reporter._thread.is_alive()
    assert taker.taken == []
