"""Early stopping: the step, the weights kept, and no further cost."""

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.engine.making import Remembering, made_base
from tests.engine.running import run
from tests.engine.stopping import Counting, changed, curves, decided, points
from tests.engine.tiny import adapting, pretraining
from torch import Tensor

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.training.allocate import allocate
from adaptlab.engine.training.train import Training
from adaptlab.errors import TrainingStopped
from adaptlab.runs.events import (
    CheckpointWritten,
    Evaluated,
    Progress,
    ReplicatesDecided,
    TrainingSaved,
)
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, scored_tasks
from adaptlab.specs.spec import EarlyStopping, Trial

STEPS, VALIDATIONS = 60, 20
EVERY = STEPS // VALIDATIONS
RULE = EarlyStopping(patience=3)
RATES = (1e-3, 0.03, 0.3, 1.0, 1e200)
"""From one that gets better to the end, over those that overshoot, to one that diverges."""

SpecWithWeights = tuple[ResolvedAdapt, tuple[Path, ...]]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SpecWithWeights:
    """Return a spec of five rates for two seeds, with the base's files.

    The runs are in float64, without early stopping.
    """
    base = pretraining(training={"steps": 200, "batch_size": 16})
    facts, files = made_base(base, tmp_path_factory.mktemp("base"))
    training = {
        "steps": STEPS,
        "batch_size": 8,
        "precision": "float64",
        "validations": VALIDATIONS,
        "schedule": "constant",
    }
    asked = adapting("lora", budget=200, training=training, tuning={"validation_samples": 64})
    trials = tuple(Trial(learning_rate=rate, weight_decay=0.0) for rate in RATES)
    return changed(resolve(asked, facts), trials=trials), files


def completed(spec: SpecWithWeights, folder: Path, **training: object) -> Remembering:
    observer = Remembering()
    run(changed(spec[0], **training), spec[1], folder, observer, "cpu")
    return observer


def expected_end(curve: dict[int, float], patience: int, min_delta: float) -> tuple[int, int, bool]:
    """Return the expected end of a training.

    It is the step after which to stop, the step of the weights to keep, and whether it stops early.
    """
    best_step, lowest, waited = 0, math.inf, 0
    for step in range(EVERY, STEPS + 1, EVERY):
        if curve[step] < lowest - min_delta:
            best_step, lowest, waited = step, curve[step], 0
        else:
            waited += 1
        if waited == patience:
            return step, best_step, True
    return STEPS, best_step, False


@pytest.fixture(scope="module")
def unstopped(spec: SpecWithWeights, tmp_path_factory: pytest.TempPathFactory):
    return completed(spec, tmp_path_factory.mktemp("unstopped"))


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("min_delta", [0.0, 0.02])
def test_every_replicate_stops_when_its_own_loss_says_so(
    spec: SpecWithWeights,
    unstopped: Remembering,
    min_delta: float,
    tmp_path: Path,
):
    rule = EarlyStopping(patience=3, min_delta=min_delta)
    stopping = completed(spec, tmp_path, early_stopping=rule)
    whole, found = curves(unstopped), curves(stopping)
    results = {r.replicate: r for r in stopping.of(ReplicatesDecided)[0].replicates}
    assert {r.status for r in results.values()} == {"completed", "stopped", "diverged"}
    for replicate, result in results.items():
        if result.learning_rate == RATES[-1]:
            assert result.status == "diverged"
            continue
        end, _, is_early = expected_end(whole[replicate], 3, min_delta)
        assert (result.status, result.steps) == ("stopped" if is_early else "completed", end)
        # at a rate of 1 the training is chaotic: a last bit that differs doubles at every step
        tolerance = 1e-10 if result.learning_rate < 1 else 1e-5
        for step, loss in found[replicate].items():
            assert loss == pytest.approx(whole[replicate][step], abs=tolerance)
        assert max(found[replicate]) == end


def weights_of(observer: Remembering) -> dict[int, dict[str, Tensor]]:
    return {w.checkpoint.replicate: load_file(w.path) for w in observer.of(CheckpointWritten)}


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("trial", [0, 2, 3])
def test_the_weights_are_those_of_the_best_validation(
    spec: SpecWithWeights, unstopped: Remembering, trial: int, tmp_path: Path
):
    trials = spec[0].training.trials[trial : trial + 1]
    kept = weights_of(completed(spec, tmp_path, early_stopping=RULE, trials=trials))
    for seed in (0, 1):
        _, best, _ = expected_end(curves(unstopped)[seed * len(RATES) + trial], 3, 0.0)
        halfway = Remembering(stop_after=best, save_after=best)
        with pytest.raises(TrainingStopped):
            run(changed(spec[0], trials=trials), spec[1], tmp_path, halfway, "cpu")
        with safe_open(halfway.of(TrainingSaved)[0].path, framework="pt") as file:
            row = file.get_tensor("flat")[seed]
        found = torch.cat([kept[seed][name].flatten() for name in lora_names(spec[0])])
        assert torch.allclose(found.double(), row, rtol=0, atol=1e-10)


def lora_names(spec: ResolvedAdapt) -> list[str]:
    return list(make_plan(spec, "cpu").trained_shapes)


def test_who_has_ended_costs_nothing_more(
    spec: SpecWithWeights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    counting, observer = Counting(monkeypatch), Remembering()
    remember = observer.emit

    def emit(event: object) -> None:
        remember(event)  # pyright: ignore[reportArgumentType] - any event
        if isinstance(event, Progress):
            counting.emit(event)

    monkeypatch.setattr(observer, "emit", emit)
    run(changed(spec[0], early_stopping=RULE), spec[1], tmp_path, observer, "cpu")
    results = observer.of(ReplicatesDecided)[0].replicates
    for step in range(STEPS):
        left = sum(result.steps > step for result in results)
        assert counting.rows[step] == left, step
    assert counting.rows[STEPS - 1] < counting.rows[0] == 2 * len(RATES)


def test_when_all_have_stopped_the_training_is_over(spec: SpecWithWeights, tmp_path: Path):
    # nobody gets better by 1000 nats: every first validation counts, and none after it
    rule = EarlyStopping(patience=2, min_delta=1000)
    trials = spec[0].training.trials[:2]
    observer = completed(spec, tmp_path, early_stopping=rule, trials=trials)
    steps = [event.step for event in observer.of(Progress) if event.phase == "training"]
    assert max(steps) == 3 * EVERY
    results = observer.of(ReplicatesDecided)[0].replicates
    assert {(r.status, r.steps) for r in results} == {("stopped", 3 * EVERY)}
    assert len(observer.of(CheckpointWritten)) == len(observer.of(Evaluated)) / evaluations(spec)


def evaluations(spec: SpecWithWeights) -> float:
    """Return the number of evaluations for each checkpoint.

    Every task is evaluated with and without the adaptation.
    """
    return 2.0 * len(scored_tasks(spec[0]))


Unbroken = Callable[[int | None], Remembering]


@pytest.fixture(scope="module")
def unbroken(spec: SpecWithWeights, tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    """The run in float32 under a limit on memory, made once."""

    def made(limit: int | None) -> Remembering:
        observer, folder = Remembering(), tmp_path_factory.mktemp("unbroken")
        run(in_float32(spec, limit), spec[1], folder, observer, "cpu", memory_bytes=limit)
        return observer

    return cache(made)


def in_float32(spec: SpecWithWeights, limit: int | None) -> ResolvedAdapt:
    # Under a limit of one byte every item of every replicate is a pass of its own; two are enough.
    items = spec[0].training.batch_size if limit is None else 2
    return changed(spec[0], early_stopping=RULE, precision="float32", batch_size=items)


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize(("step", "limit"), [(2, None), (13, 1), (31, None), (47, None)])
def test_a_break_leaves_no_trace(
    spec: SpecWithWeights, unbroken: Unbroken, step: int, limit: int | None, tmp_path: Path
):
    stopping, whole = in_float32(spec, limit), unbroken(limit)
    before, after = Remembering(step, step), Remembering()
    (tmp_path / "after").mkdir()
    with pytest.raises(TrainingStopped):
        run(stopping, spec[1], tmp_path, before, "cpu", memory_bytes=limit)
    state = before.of(TrainingSaved)[0].path
    # With more room, passes and parts of a batch stay as small as they were.
    run(stopping, spec[1], tmp_path / "after", after, "cpu", state)
    assert points(before) + points(after) == points(whole)
    assert decided(after) == decided(whole)
    assert "stopped" in {result.status for result in decided(after)}
    for one, other in zip(whole.of(CheckpointWritten), after.of(CheckpointWritten), strict=True):
        assert one.path.read_bytes() == other.path.read_bytes()


def test_a_state_of_a_version_without_metrics_is_resumed(
    spec: SpecWithWeights, unbroken: Unbroken, tmp_path: Path
):
    stopping, before, after = in_float32(spec, None), Remembering(31, 31), Remembering()
    with pytest.raises(TrainingStopped):
        run(stopping, spec[1], tmp_path, before, "cpu")
    state = before.of(TrainingSaved)[0].path
    with safe_open(state, framework="pt") as file:
        counters = json.loads(file.metadata()["adaptlab"])
    del counters["highest"]
    save_file(load_file(state), state, {"adaptlab": json.dumps(counters)})
    run(stopping, spec[1], tmp_path, after, "cpu", state)
    assert decided(after) == decided(unbroken(None))


def test_passes_that_were_halved_stay_halved_after_a_break(
    spec: SpecWithWeights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    asked = changed(spec[0], precision="float32")
    plan = make_plan(asked, "cpu")
    state = broken_off_with_room_for(4, asked, spec[1], monkeypatch, tmp_path)
    allocated = allocate(plan.trained_shapes, plan.replicate_seeds, {}, plan.dtype)
    training = Training(plan, Model(plan, {}, {}), allocated, Remembering())
    training.restore(state)
    with safe_open(state, framework="pt") as file:
        assert '"most": 2' in file.metadata()["adaptlab"]  # of ten, five and then two


def broken_off_with_room_for(
    most: int,
    spec: ResolvedAdapt,
    files: tuple[Path, ...],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
) -> Path:
    answer = Model.logits

    def logits(model: Model, *given: object, **named: object) -> Tensor:
        if max(len(tensor) for tensor in model.trained.values()) > most:
            raise torch.OutOfMemoryError
        return answer(model, *given, **named)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patch:
        patch.setattr(Model, "logits", logits)
        observer = Remembering(stop_after=5, save_after=5)
        with pytest.raises(TrainingStopped):
            run(spec, files, folder, observer, "cpu")
    return observer.of(TrainingSaved)[0].path
