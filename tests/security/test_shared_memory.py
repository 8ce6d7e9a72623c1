"""Memory that a trainer shares between its processes is counted, too."""

import os
import sys
from pathlib import Path

import pytest
from tests.worker.conftest import ROOT
from tests.worker.endings import end_by_a_run

from adaptlab_worker.attempt.run_failures import trainer_gone
from adaptlab_worker.confinement.confinement import TrainerLimits
from adaptlab_worker.trainer.memory_kills import MemoryKills
from adaptlab_worker.trainer.scratch import SlotFolders
from adaptlab_worker.trainer.shared_memory import shared_bytes
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess

GIB = 2**30
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_run_that_shares_too_much_memory_is_ended_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with a GPU; elsewhere it cannot share any."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    limits = TrainerLimits(memory_bytes=GIB, shared_memory=True)
    options = TrainerOptions(runner=f"{__package__}.confined_runs:share", limits=limits)
    folders = SlotFolders(tmp_path / "slot")
    trainer = TrainerProcess(options, folders)
    try:
        with folders.attempt("job-1") as given:
            assert trainer.await_ready(lambda: False)
            run = trainer.make_run_folder(given)
            gone = end_by_a_run(trainer, run, "all of its memory is 1,024")
    finally:
        trainer.close()
    assert trainer_gone(gone, 3, MemoryKills()).reason == "out_of_memory"
    assert shared_bytes(trainer.pid) == 0, "its children have ended too"


def test_shared_memory_of_a_group_is_summed() -> None:
    assert shared_bytes(os.getpgrp()) >= 0
    assert shared_bytes(2**22 + 1) == 0, "nobody's"
