"""The end of a trainer that its run brings about."""

from pathlib import Path

import pytest
from tests.making import a_resolved_spec

from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.trainer.protocol import RunRequest
from adaptlab_worker.trainer.trainer_process import TrainerProcess


def end_by_a_run(trainer: TrainerProcess, run: Path, match: str) -> TrainerGone:
    """Start a run in its folder, and return the error in which it ends."""
    trainer.send(RunRequest(run="1", resolved=a_resolved_spec(), scratch=run))
    with pytest.raises(TrainerGone, match=match) as gone:
        _listen(trainer)
    return gone.value


def _listen(trainer: TrainerProcess) -> None:
    while True:
        trainer.receive(60)
