"""How often a training saves its state."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adaptlab.runs.events import TrainingSaved
from adaptlab_worker.trainer.save_times import STATE_BYTES_PER_SECOND, SaveTimes
from adaptlab_worker.trainer.trainer import PipeObserver


def times(size: int, until: int) -> list[int]:
    """The seconds at which a state of `size` bytes is saved.

    A small one is saved every 30 s.
    """
    saves = SaveTimes(30, 0)
    made: list[int] = []
    for now in range(until):
        if saves.is_due(now):
            made.append(now)
            saves.saved(size)
    return made


def test_a_small_state_is_saved_at_the_interval_of_the_settings():
    assert times(20 * STATE_BYTES_PER_SECOND, 130) == [30, 60, 90, 120]


def test_a_large_state_is_saved_less_often():
    assert times(100 * STATE_BYTES_PER_SECOND, 400) == [30, 130, 230, 330]


def test_a_state_that_shrinks_is_saved_more_often_again():
    saves = SaveTimes(30, 0)
    saves.saved(1000 * STATE_BYTES_PER_SECOND)
    assert not saves.is_due(999)
    saves.saved(1)
    assert saves.is_due(999)


def test_the_trainer_takes_note_of_the_size_of_its_states(tmp_path: Path):
    pipe: Any = SimpleNamespace(send_bytes=lambda _: None)
    inbox: Any = SimpleNamespace(stop_of=lambda _: None)
    request: Any = SimpleNamespace(run="1", save_seconds=1e-9)
    observer = PipeObserver(pipe, inbox, request)
    assert observer.command() == "save"
    with (state := tmp_path / "state").open("wb") as file:
        file.truncate(3600 * STATE_BYTES_PER_SECOND)  # sparse
    observer.emit(TrainingSaved(step=1, path=state))
    assert observer.command() == "continue", "for an hour"
