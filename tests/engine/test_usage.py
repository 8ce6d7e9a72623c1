"""The usage that a run reports."""

import mmap
import sys
from itertools import count
from pathlib import Path

import pytest
import torch
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.tiny import pretraining

from adaptlab.engine.kernels.memory import forget_peak, held_bytes, peak_bytes
from adaptlab.errors import TrainingStopped
from adaptlab.running import meter
from adaptlab.running.meter import Meter
from adaptlab.runs.events import Finished, TrainingSaved
from adaptlab.specs.resolve import resolve

CPU = torch.device("cpu")
MEGABYTES_64 = 2**26


def test_the_last_event_says_what_the_run_took(tmp_path: Path):
    observer, ticks = Remembering(), count()
    run(resolve(pretraining(), None), (), tmp_path, observer, "cpu", clock=lambda: next(ticks))
    last = observer.events[-1]
    assert isinstance(last, Finished)
    assert last.usage.training_steps == 30
    assert last.usage.passes == 1
    # the clock was read at the start of the training, at its end and at the end of the run
    assert (last.usage.training_seconds, last.usage.evaluation_seconds) == (1, 1)
    assert last.usage.peak_memory_bytes >= last.usage.base_memory_bytes > 0


def test_a_peak_that_the_system_puts_below_the_start_is_the_start(monkeypatch: pytest.MonkeyPatch):
    measured = Meter(CPU, lambda: 0.0)
    monkeypatch.setattr(meter, "peak_bytes", lambda _: 4096)
    usage = measured.usage()
    assert usage.peak_memory_bytes == usage.base_memory_bytes > 4096


def test_without_a_clock_nothing_is_said(tmp_path: Path):
    observer = Remembering()
    run(resolve(pretraining(), None), (), tmp_path, observer, "cpu")
    assert not observer.of(Finished)


def test_after_a_break_only_the_steps_that_were_left_are_counted(tmp_path: Path):
    spec, broken, after = resolve(pretraining(), None), Remembering(12, 12), Remembering()
    with pytest.raises(TrainingStopped):
        run(spec, (), tmp_path, broken, "cpu", clock=lambda: 0.0)
    assert not broken.of(Finished)
    (saved,) = broken.of(TrainingSaved)
    run(spec, (), tmp_path, after, "cpu", saved.path, clock=lambda: 0.0)
    assert after.of(Finished)[0].usage.training_steps == 30 - 12


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can forget a peak")
def test_the_peak_of_an_earlier_run_is_forgotten():
    forget_peak(CPU)
    before = held_bytes(CPU)
    # From the system itself: a tensor may come to lie in what earlier tests have left behind.
    with mmap.mmap(-1, MEGABYTES_64, mmap.MAP_PRIVATE) as block:
        for page in range(0, MEGABYTES_64, mmap.PAGESIZE):
            block[page] = 1
    assert peak_bytes(CPU) >= before + 0.9 * MEGABYTES_64
    forget_peak(CPU)
    assert peak_bytes(CPU) < before + 0.5 * MEGABYTES_64
