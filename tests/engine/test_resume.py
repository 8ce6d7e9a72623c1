"""A training that was broken off goes on as if nothing had happened.

It is the same to the last bit.
"""

from pathlib import Path

import pytest
from tests.engine.making import Remembering
from tests.engine.resumed import STEPS, spec
from tests.engine.running import run

from adaptlab.engine.training.training_state import read_state
from adaptlab.errors import BadCheckpoint, TrainingStopped
from adaptlab.runs.events import (
    CheckpointWritten,
    Evaluated,
    MetricPoint,
    Metrics,
    ReplicatesDecided,
    TrainingSaved,
)


def points(observer: Remembering) -> list[MetricPoint]:
    return [point for metrics in observer.of(Metrics) for point in metrics.points]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Remembering:
    observer = Remembering()
    run(spec(), (), tmp_path_factory.mktemp("unbroken"), observer, "cpu")
    return observer


def broken_off(folder: Path, step: int, resume: Path | None = None) -> tuple[Remembering, Path]:
    """A run that is saved and stopped after a number of steps."""
    folder.mkdir()
    observer = Remembering(stop_after=step, save_after=step)
    with pytest.raises(TrainingStopped):
        run(spec(), (), folder, observer, "cpu", resume)
    (saved,) = observer.of(TrainingSaved)
    return observer, saved.path


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("steps", [(1, 16, 101, 399), (2, 15, 17, 398)])
def test_weights_scores_and_curve_are_those_of_the_unbroken_run(
    unbroken: Remembering, tmp_path: Path, steps: tuple[int, ...]
):
    """The run is the same, however often it is broken off.

    It is broken off at the points of its curve and between them.
    """
    curve: list[MetricPoint] = []
    done, state = 0, None
    for step in steps:
        before, state = broken_off(tmp_path / f"until {step}", step - done, state)
        curve += points(before)
        assert curve == points(unbroken)[: len(curve)]
        done = step
    after = Remembering()
    run(spec(), (), tmp_path, after, "cpu", state)
    for one, other in zip(unbroken.of(CheckpointWritten), after.of(CheckpointWritten), strict=True):
        assert one.path.read_bytes() == other.path.read_bytes()
    assert curve + points(after) == points(unbroken), "the curve has no seam"
    assert after.of(ReplicatesDecided) == unbroken.of(ReplicatesDecided)
    assert after.of(Evaluated) == unbroken.of(Evaluated)


def test_dropout_goes_on_where_it_was(tmp_path: Path):
    changes = {
        "family": {"name": "minigpt", "width": 8, "heads": 2, "dropout": 0.3},
        "training": {"steps": 40, "batch_size": 8},
    }
    whole, folder = Remembering(), tmp_path / "broken"
    folder.mkdir()
    run(spec(**changes), (), tmp_path, whole, "cpu")
    broken = Remembering(stop_after=17, save_after=17)
    with pytest.raises(TrainingStopped):
        run(spec(**changes), (), folder, broken, "cpu")
    after = Remembering()
    run(spec(**changes), (), folder, after, "cpu", broken.of(TrainingSaved)[0].path)
    assert points(broken) + points(after) == points(whole)
    plain = Remembering()
    run(spec(training=changes["training"]), (), folder, plain, "cpu")
    assert points(plain) != points(whole), "dropout does something"


def test_the_state_of_another_spec_is_refused(tmp_path: Path):
    _, state = broken_off(tmp_path / "first", 3)
    other = spec(training={"steps": STEPS, "batch_size": 8, "learning_rate": 0.5})
    with pytest.raises(BadCheckpoint, match="another spec"):
        run(other, (), tmp_path, Remembering(), "cpu", state)


def test_half_a_state_is_refused(tmp_path: Path):
    _, state = broken_off(tmp_path / "first", 3)
    half = tmp_path / "half.safetensors"
    half.write_bytes(state.read_bytes()[: state.stat().st_size // 2])
    with pytest.raises(BadCheckpoint, match=r"half\.safetensors is not a whole safetensors file"):
        run(spec(), (), tmp_path, Remembering(), "cpu", half)


def test_a_state_is_read_as_it_was_written(tmp_path: Path):
    from adaptlab.engine.models.plan import make_plan

    _, state = broken_off(tmp_path / "first", 5)
    plan = make_plan(spec(), "cpu")
    scalars = plan.spec.budget.trainable_parameters
    assert read_state(state, plan, scalars).step == 5
