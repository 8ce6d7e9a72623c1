"""Successive halving: survivors, cost, and continuation after a break.

Tests cover who goes on, at what cost, and what is left of it after a break.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from tests.engine.making import Remembering, adaptation, made_base
from tests.engine.running import run
from tests.engine.stopping import Counting, changed, curves, decided, points
from tests.engine.tiny import adapting, pretraining
from torch import Tensor

from adaptlab.engine.items.digits import Items
from adaptlab.engine.training.descent import Descent
from adaptlab.engine.training.halving import losers
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.engine.training.validation_standings import Standings
from adaptlab.errors import TrainingDiverged, TrainingStopped
from adaptlab.runs.events import (
    CheckpointWritten,
    Progress,
    TrainingSaved,
)
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import EarlyStopping, Halving, Trial

STEPS, EVERY = 40, 5
RUNGS = (10, 20)
HALVING = Halving(rungs=2)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1e200, 0.05)
"""One diverges, so that seven, four and two trials of a seed are trained."""
SEEDS = 2
SpecWithWeights = tuple[ResolvedAdapt, tuple[Path, ...]]
Halved = Callable[[str], Remembering]
Unbroken = Callable[[str, int | None], Remembering]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SpecWithWeights:
    """Return a spec of eight rates for two seeds, with the base's files.

    The runs are in float64, without halving.
    """
    base = pretraining(training={"steps": 120, "batch_size": 16})
    facts, files = made_base(base, tmp_path_factory.mktemp("base"))
    training = {
        "steps": STEPS,
        "batch_size": 16,
        "precision": "float64",
        "validations": STEPS // EVERY,
    }
    asked = adapting(
        "lora",
        budget=200,
        task={"name": "sort_ascending", "length": 4, "alphabet": 5},  # as the base: partly right
        training=training,
        tuning={"validation_samples": 100},
    )
    trials = tuple(Trial(learning_rate=rate, weight_decay=0.0) for rate in RATES)
    return changed(resolve(asked, facts), trials=trials), files


def pooled(spec: ResolvedAdapt, selection: str) -> ResolvedAdapt:
    return spec.model_copy(update={"selection": selection})


def completed(spec: ResolvedAdapt, files: tuple[Path, ...], folder: Path) -> Remembering:
    observer = Remembering()
    run(spec, files, folder, observer, "cpu")
    return observer


@pytest.fixture(scope="module")
def unhalved(spec: SpecWithWeights, tmp_path_factory: pytest.TempPathFactory) -> Remembering:
    return completed(*spec, tmp_path_factory.mktemp("unhalved"))


@pytest.fixture(scope="module")
def halved(spec: SpecWithWeights, tmp_path_factory: pytest.TempPathFactory) -> Halved:
    """The halved run of a selection, made once."""

    def made(selection: str) -> Remembering:
        asked = pooled(changed(spec[0], halving=HALVING), selection)
        return completed(asked, spec[1], tmp_path_factory.mktemp("halved"))

    return cache(made)


@pytest.fixture(scope="module")
def unbroken(spec: SpecWithWeights, tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    """Return a function that makes the halved run, once.

    The run is in float32, and is that of a selection and a limit on memory.
    """

    def made(selection: str, limit: int | None) -> Remembering:
        observer, folder = Remembering(), tmp_path_factory.mktemp("unbroken")
        asked = in_float32(spec, selection, limit)
        run(asked, spec[1], folder, observer, "cpu", memory_bytes=limit)
        return observer

    return cache(made)


def in_float32(spec: SpecWithWeights, selection: str, limit: int | None) -> ResolvedAdapt:
    # Under a limit of one byte every item of every replicate is a pass of its own; two are enough.
    items = spec[0].training.batch_size if limit is None else 2
    asked = changed(spec[0], halving=HALVING, precision="float32", batch_size=items)
    return pooled(asked, selection)


Curves = dict[int, dict[int, float]]


def curve(observer: Remembering, name: str) -> Curves:
    found: Curves = defaultdict(dict)
    for point in points(observer):
        if point.name == name and point.value is not None:
            found[point.replicate][point.step] = point.value
    return found


def expected_ends(unhalved: Remembering, selection: str) -> dict[int, int]:
    """Return the steps after which each replicate should end.

    They follow from the curves of a run without halving.
    """
    accuracy, loss = curve(unhalved, "validation_accuracy"), curve(unhalved, "train_loss")
    trials = len(RATES)
    ends: dict[int, int] = {}
    groups = [[0], [1]] if selection == "per_seed" else [[0, 1]]
    for seeds in groups:
        left = [t for t in range(trials) if RATES[t] < 1e10]
        for rung in RUNGS:

            def worth(trial: int, rung: int = rung, seeds: list[int] = seeds):
                rows = [seed * trials + trial for seed in seeds]
                right = sum(accuracy[row][rung] for row in rows) / len(rows)
                return -right, sum(loss[row][rung] for row in rows), trial

            ordered = sorted(left, key=worth)
            left = ordered[: math.ceil(len(left) / 2)]
            ends |= {seed * trials + t: rung for t in ordered[len(left) :] for seed in seeds}
        ends |= {seed * trials + t: STEPS for t in left for seed in seeds}
    return ends


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("selection", ["per_seed", "pooled"])
def test_the_best_half_by_validation_accuracy_goes_on(
    halved: Halved, unhalved: Remembering, selection: str
):
    found, expected = halved(selection), expected_ends(unhalved, selection)
    assert sorted(expected.values()).count(STEPS) == 2 * SEEDS
    accuracy = curve(unhalved, "validation_accuracy")
    for result in decided(found):
        if result.learning_rate == 1e200:
            assert (result.status, result.selected) == ("diverged", False)
            continue
        end = expected[result.replicate]
        status = "completed" if end == STEPS else "eliminated"
        assert (result.status, result.steps) == (status, end)
        assert result.validation_accuracy == pytest.approx(accuracy[result.replicate][end])
    at_rungs = curve(found, "rung_accuracy")
    for replicate, end in expected.items():
        seen = {rung: accuracy[replicate][rung] for rung in RUNGS if rung <= end}
        assert at_rungs[replicate] == pytest.approx(seen)


@pytest.mark.parametrize("selection", ["per_seed", "pooled"])
def test_only_those_that_finished_are_chosen_and_they_are_what_they_would_have_been(
    halved: Halved, unhalved: Remembering, selection: str
):
    found = halved(selection)
    chosen = [result for result in decided(found) if result.selected]
    assert [result.seed for result in chosen] == [0, 1]
    assert {result.status for result in chosen} == {"completed"}
    whole, some = curves(unhalved), curves(found)
    for result in decided(found):
        steps = range(EVERY, result.steps + 1, EVERY)
        for step in steps if result.status != "diverged" else ():
            assert some[result.replicate][step] == pytest.approx(
                whole[result.replicate][step], abs=1e-10
            )


def test_who_is_eliminated_costs_nothing_more(
    spec: SpecWithWeights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    counting, observer = Counting(monkeypatch), Remembering()
    remember = observer.emit

    def emit(event: object) -> None:
        remember(event)  # pyright: ignore[reportArgumentType] - any event
        if isinstance(event, Progress):
            counting.emit(event)

    monkeypatch.setattr(observer, "emit", emit)
    run(changed(spec[0], halving=HALVING), spec[1], tmp_path, observer, "cpu")
    assert [counting.rows[step] for step in (5, 9, 10, 19, 20, 39)] == [14, 14, 8, 8, 4, 4]
    steps = sum(result.steps for result in decided(observer))
    assert sum(counting.rows.values()) == steps


BREAKS = [
    *(("per_seed", *at) for at in ((9, None), (10, None), (11, 1), (20, None), (33, None))),
    *(("pooled", *at) for at in ((10, None), (20, None))),
]
"""Selection, step and limit on memory. Selection matters at rungs only, after 10 and 20 steps."""


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize(("selection", "step", "limit"), BREAKS)
def test_a_break_leaves_no_trace(
    spec: SpecWithWeights,
    unbroken: Unbroken,
    selection: str,
    step: int,
    limit: int | None,
    tmp_path: Path,
):
    asked, whole = in_float32(spec, selection, limit), unbroken(selection, limit)
    before, after = Remembering(step, step), Remembering()
    (tmp_path / "after").mkdir()
    with pytest.raises(TrainingStopped):
        run(asked, spec[1], tmp_path, before, "cpu", memory_bytes=limit)
    state = before.of(TrainingSaved)[0].path
    run(asked, spec[1], tmp_path / "after", after, "cpu", state, memory_bytes=limit)
    assert points(before) + points(after) == points(whole)
    assert decided(after) == decided(whole)
    assert "eliminated" in {result.status for result in decided(after)}
    for one, other in zip(whole.of(CheckpointWritten), after.of(CheckpointWritten), strict=True):
        assert one.path.read_bytes() == other.path.read_bytes()


def test_with_early_stopping_a_trial_is_worth_what_it_would_end_with(
    spec: SpecWithWeights, unhalved: Remembering, tmp_path: Path
):
    # nobody gets better by 1000 nats: every replicate keeps its weights of the first validation
    rule = EarlyStopping(patience=STEPS // EVERY - 1, min_delta=1000)
    asked = changed(spec[0], halving=Halving(rungs=1), early_stopping=rule)
    found = curve(completed(asked, spec[1], tmp_path), "rung_accuracy")
    first = curve(unhalved, "validation_accuracy")
    assert len(found) == 14
    for replicate, by_step in found.items():
        assert by_step == pytest.approx({RUNGS[-1]: first[replicate][EVERY]})


def test_who_stopped_early_has_finished_and_does_not_compete(spec: SpecWithWeights, tmp_path: Path):
    # all stop at the second validation, which is the first rung
    rule = EarlyStopping(patience=1, min_delta=1000)
    observer = completed(changed(spec[0], halving=HALVING, early_stopping=rule), spec[1], tmp_path)
    statuses = [result.status for result in decided(observer)]
    assert (statuses.count("stopped"), statuses.count("diverged")) == (14, 2)
    assert not curve(observer, "rung_accuracy")


def diverging(monkeypatch: pytest.MonkeyPatch, first: int, replicates: range) -> None:
    """Lets the losses of some replicates become infinite from a step on."""
    step_of = Descent.step

    def step(descent: Descent, items: Items, step: int) -> Tensor:
        losses = step_of(descent, items, step)
        bad = torch.tensor([replicate in replicates for replicate in descent.live])
        return losses.masked_fill(bad, math.inf) if step >= first else losses

    monkeypatch.setattr(Descent, "step", step)


def test_when_all_that_went_on_diverge_the_job_has_diverged(
    spec: SpecWithWeights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    diverging(monkeypatch, 25, range(SEEDS * len(RATES)))
    told = r"By step 26 the loss of every replicate that went on"
    with pytest.raises(TrainingDiverged, match=told):
        completed(changed(spec[0], halving=HALVING), spec[1], tmp_path)


def test_a_seed_on_which_all_that_went_on_diverge_keeps_none(
    spec: SpecWithWeights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    diverging(monkeypatch, 25, range(len(RATES), 2 * len(RATES)))
    results = decided(completed(changed(spec[0], halving=HALVING), spec[1], tmp_path))
    assert [result.seed for result in results if result.selected] == [0]
    of_second = [result.status for result in results if result.seed == 1]
    assert (of_second.count("diverged"), of_second.count("eliminated")) == (3, 5)


def test_all_that_diverged_before_the_first_rung_are_a_job_that_diverged(
    spec: SpecWithWeights, tmp_path: Path
):
    trials = tuple(Trial(learning_rate=rate, weight_decay=0.0) for rate in (1e200, 1e201))
    asked = changed(spec[0], halving=Halving(rungs=1), trials=trials)
    with pytest.raises(TrainingDiverged, match="every replicate was no longer finite"):
        completed(asked, spec[1], tmp_path)


RIGHT: list[list[float]] = [[0.9, 0.5, 0.5, 0.0], [0.9, 0.5, 0.5, 1.0]]
LOSSES: list[list[float | None]] = [[1.0, 0.4, 0.3, 1.0], [1.0, 0.4, 0.6, 1.0]]


def lost(selection: str, diverged: tuple[int, ...] = ()) -> list[int]:
    """Return the losers at a rung of four trials and two seeds."""
    plan = adaptation(
        {"name": "lora", "rank": 1},
        base_replicates=2,
        tuning={"trials": 4, "selection": selection, "halving": {"rungs": 1}},
    )
    outcome = TrainingOutcome.untrained(plan.replicates)
    outcome.final_losses = [loss for of_seed in LOSSES for loss in of_seed]
    for replicate in diverged:
        outcome.diverged[replicate] = True
    live = [replicate for replicate in range(8) if replicate not in diverged]
    right = [one for of_seed in RIGHT for one in of_seed]
    scores = {replicate: right[replicate] for replicate in live}
    return sorted(losers(plan, live, outcome, Standings(scores)))


def test_ties_are_broken_by_the_training_loss_as_in_the_choice_at_the_end():
    # seed 0: of 0.5 and 0.5 the loss of 0.3 goes on; seed 1: 1.0 and 0.9
    assert lost("per_seed") == [1, 3, 5, 6]
    # means 0.9, 0.5, 0.5, 0.5; losses 0.4, 0.45 and 1 of the last three
    assert lost("pooled") == [2, 3, 6, 7]


def test_pooled_a_diverged_replicate_counts_as_nothing_right():
    # the first trial has 0 and 0.9, a mean of 0.45, below the others' 0.5
    assert lost("pooled", diverged=(0,)) == [3, 4, 7]
    # per seed it does not compete: of three, two go on
    assert lost("per_seed", diverged=(0,)) == [3, 5, 6]
