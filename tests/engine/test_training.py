"""The optimiser, divergence, the choice of trials and a whole run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tests.engine.judging import outcomes
from tests.engine.making import (
    Remembering,
    adaptation,
    base_tensors,
    made_base,
    perturbed,
    trainables,
)
from tests.engine.running import run
from tests.engine.tiny import TASK, adapting, pretraining

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.items.task_items import ITEM_SEED, make_items
from adaptlab.engine.models.checkpoint import read_bases
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.optim import AdamW, schedule_factor
from adaptlab.errors import InvalidSpec, TrainingDiverged, TrainingStopped
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    Metrics,
    ReplicatesDecided,
    Started,
)
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import Trial

LORA = ("q.a", "q.b", "v.a", "v.b")
CAPTURE = {"attention": {"samples": 1}}


@pytest.fixture(scope="module")
def pretrained(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[BaseModelFacts, tuple[Path, ...]]:
    return made_base(pretraining(), tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def reported(pretrained, tmp_path_factory: pytest.TempPathFactory) -> Remembering:
    """Return the reports of a run of three trials for each of two seeds.

    The run captures attention.
    """
    facts, bases = pretrained
    spec = adapting(
        {"name": "prefix_tuning", "length": 2},
        tuning={"trials": 3, "validation_samples": 30},
        capture={"attention": {"samples": 2}},
    )
    observer = Remembering()
    run(resolve(spec, facts), bases, tmp_path_factory.mktemp("run"), observer, "cpu")
    return observer


def test_one_replicate_moves_as_under_the_library_optimiser():
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(2, 7, dtype=torch.float64, generator=generator)
    decays = torch.tensor([1, 1, 1, 0, 0, 1, 1], dtype=torch.float64)
    ours = AdamW(
        Trainables(start.clone(), decays, {}), torch.full((2,), 0.1, dtype=torch.float64), 0.5
    )
    rates = torch.tensor([0.01, 0.3], dtype=torch.float64)
    theirs = [[row[decays == d].clone().requires_grad_() for d in (1, 0)] for row in start]
    optimisers = [
        torch.optim.AdamW(
            [{"params": [decayed]}, {"params": [free], "weight_decay": 0.0}],
            lr=float(rate), betas=(0.9, 0.95), weight_decay=0.1,
        )
        for (decayed, free), rate in zip(theirs, rates, strict=True)
    ]  # fmt: skip
    for _ in range(10):
        gradient = torch.randn(2, 7, dtype=torch.float64, generator=generator)
        for row, (decayed, free) in enumerate(theirs):
            decayed.grad, free.grad = gradient[row][decays == 1], gradient[row][decays == 0]
            torch.nn.utils.clip_grad_norm_([decayed, free], 0.5)
            optimisers[row].step()
        ours.step(gradient.clone(), rates)
    for row, (decayed, free) in enumerate(theirs):
        assert torch.allclose(ours.trainables.flat[row][decays == 1], decayed, atol=1e-12)
        assert torch.allclose(ours.trainables.flat[row][decays == 0], free, atol=1e-12)


def test_the_schedule_warms_up_and_falls_as_a_cosine():
    factors = [schedule_factor(step, 100, 0.1, "cosine") for step in range(100)]
    assert factors[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert factors[10] == 1
    assert factors[55] == pytest.approx(0.5)
    assert factors == sorted(factors[:11]) + sorted(factors[11:], reverse=True)
    assert {schedule_factor(step, 100, 0.0, "constant") for step in range(100)} == {1.0}


def test_scores_are_those_of_greedy_generation():
    plan = adaptation({"name": "lora", "rank": 2}, base_replicates=2)
    base = base_tensors(plan, 2)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    scored = outcomes(model, plan.task, "test", 40, 2)
    made = make_items(plan.task, "test", torch.tensor([ITEM_SEED]), 0, 40)
    tokens = made.tokens[..., : plan.task.input_length()].expand(2, -1, -1)
    for _ in range(plan.task.target_length()):
        following = model.logits(tokens, slice(None))[:, :, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], -1)
    generated = tokens[..., plan.task.input_length() :]
    assert torch.equal(scored, (generated == made.targets).all(-1))
    assert target_rows(plan.task).start == plan.task.input_length() - 1


def test_a_diverging_trial_stops_alone(pretrained, tmp_path: Path):
    facts, bases = pretrained
    resolved = resolve(adapting("lora", budget=200), facts)
    trials = tuple(Trial(learning_rate=rate, weight_decay=0.0) for rate in (1e-3, 1e30))
    training = resolved.training.model_copy(update={"trials": trials})
    observer = Remembering()
    run(resolved.model_copy(update={"training": training}), bases, tmp_path, observer, "cpu")
    (decided,) = observer.of(ReplicatesDecided)
    assert [(r.status, r.selected) for r in decided.replicates] == [
        ("completed", True),
        ("diverged", False),
    ] * 2
    alone = Remembering()
    only = resolved.training.model_copy(update={"trials": trials[:1]})
    run(resolved.model_copy(update={"training": only}), bases, tmp_path, alone, "cpu")
    losses = [r.final_loss for r in decided.replicates if r.selected]
    expected = [r.final_loss for r in alone.of(ReplicatesDecided)[0].replicates]
    assert losses == pytest.approx(expected, rel=1e-4)


def test_a_run_in_which_everything_diverges_fails_and_keeps_its_curve(pretrained, tmp_path: Path):
    facts, bases = pretrained
    spec = adapting(
        "full_finetuning",
        training={"steps": 200, "batch_size": 16, "learning_rate": 10, "weight_decay": 10},
    )
    observer = Remembering()
    with pytest.raises(TrainingDiverged, match="Lower the learning rate"):
        run(resolve(spec, facts), bases, tmp_path, observer, "cpu")
    points = [point for metrics in observer.of(Metrics) for point in metrics.points]
    assert points[0].value is not None
    assert math.isfinite(points[0].value)
    assert points[-1].value is None
    assert not observer.of(ReplicatesDecided)


def test_a_task_that_needs_a_larger_vocabulary_than_the_bases_is_refused(pretrained):
    facts, _ = pretrained
    tasks = ["sort_ascending", {**TASK, "name": "add", "k": 2}]  # the first without a size
    method = {"name": "prefix_tuning", "length": 2}
    spec = adapting(method, evaluation={"tasks": tasks, "samples": 50})
    with pytest.raises(InvalidSpec, match="needs a vocabulary of 10"):
        resolve(spec, facts)


def test_each_seed_keeps_the_trial_that_validates_best(reported: Remembering):
    (started,) = reported.of(Started)
    assert started.replicates == 6
    (decided,) = reported.of(ReplicatesDecided)
    chosen = [r for r in decided.replicates if r.selected]
    assert [r.seed for r in chosen] == [0, 1]
    for seed in (0, 1):
        trials = [r for r in decided.replicates if r.seed == seed]
        best = max(r.validation_accuracy or 0.0 for r in trials)
        assert next(r for r in trials if r.selected).validation_accuracy == best
    assert len(reported.of(CheckpointWritten)) == 2


def test_outcomes_have_a_bit_per_item_and_as_many_ones_as_correct_answers(reported: Remembering):
    evaluations = [event.evaluation for event in reported.of(Evaluated)]
    assert evaluations
    for evaluation in evaluations:
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(evaluation.outcomes), np.uint8))
        assert bits[:50].sum() == evaluation.correct
        assert bits[50:].sum() == 0


def test_attention_is_captured_of_the_base_and_of_the_adapted_model(reported: Remembering):
    maps = {(c.attention.seed, c.attention.source): c for c in reported.of(AttentionCaptured)}
    assert maps.keys() == {(s, k) for s in (0, 1) for k in ("base", "adapted")}
    adapted = maps[0, "adapted"].attention
    array = np.load(maps[0, "adapted"].path, allow_pickle=False)
    assert array.shape == adapted.shape == (2, 1, 2, 7, 9)
    assert adapted.learned_positions == 2
    assert array.sum(-1) == pytest.approx(np.ones((2, 1, 2, 7)), abs=2e-3)
    assert all(summary.relative_deviation < 1e-12 for summary in adapted.summaries)
    assert all(summary.learned_mass > 0 for summary in adapted.summaries)


def test_a_run_keeps_the_prefix_and_not_the_network_that_made_it(pretrained, tmp_path: Path):
    facts, bases = pretrained
    network = {"name": "prefix_tuning", "length": 3, "reparameterisation": {"hidden": 4}}
    spec = adapting({"name": "combine", "parts": [network, "lora"]}, budget=500, capture=CAPTURE)
    resolved, observer = resolve(spec, facts), Remembering()
    run(resolved, bases, tmp_path, observer, "cpu")
    assert len(observer.of(AttentionCaptured)) == 2 * len(resolved.seeds)
    for written in observer.of(CheckpointWritten):
        sites = ("prefix_tuning.blocks.0.attn.input", *(f"lora.blocks.0.attn.{s}" for s in LORA))
        assert set(written.checkpoint.tensors) == set(sites)
        assert 4 * written.checkpoint.parameters == resolved.budget.stored_bytes
        assert written.checkpoint.parameters < resolved.budget.trainable_parameters
        with safe_open(written.path, framework="pt") as file:
            method = json.loads(file.metadata()["adaptlab"])["method"]
        assert method["parts"][0]["reparameterisation"] is None


def test_a_run_stops_when_asked(pretrained, tmp_path: Path):
    facts, bases = pretrained
    observer = Remembering(stop_after=5)
    with pytest.raises(TrainingStopped, match="step 5"):
        run(resolve(adapting("soft_prompt", budget=32), facts), bases, tmp_path, observer, "cpu")


def test_the_same_spec_gives_the_same_weights(pretrained, tmp_path: Path):
    facts, bases = pretrained
    contents: list[bytes] = []
    for attempt in ("first", "second"):
        folder = tmp_path / attempt
        folder.mkdir()
        observer = Remembering()
        run(resolve(adapting("lora", budget=200), facts), bases, folder, observer, "cpu")
        contents.append(observer.of(CheckpointWritten)[0].path.read_bytes())
    assert contents[0] == contents[1]


def test_the_validation_split_is_scored_on_the_way(pretrained, tmp_path: Path):
    facts, bases = pretrained
    training = {"steps": 20, "batch_size": 16, "validations": 3}
    spec = adapting("lora", budget=200, training=training, tuning={"validation_samples": 40})
    observer = Remembering()
    resolved = resolve(spec, facts)
    run(resolved, bases, tmp_path, observer, "cpu")
    points = [point for metrics in observer.of(Metrics) for point in metrics.points]
    scored = {(p.name, p.step) for p in points if p.name.startswith("validation")}
    assert scored == {
        (f"validation_{what}", step) for what in ("loss", "accuracy") for step in (7, 14, 20)
    }
    # the last one is of the finished weights, so it can be had from the checkpoints as well
    plan = make_plan(resolved, "cpu")
    trained = [load_file(written.path) for written in observer.of(CheckpointWritten)]
    model = Model(
        plan,
        read_bases(bases, plan.shape, plan.device, plan.dtype),
        {name: torch.stack([tensors[name] for tensors in trained]) for name in trained[0]},
    )
    right = outcomes(model, plan.task, "validation", 40, 2).double().mean(1).tolist()
    last = [p.value for p in points if (p.name, p.step) == ("validation_accuracy", 20)]
    assert last == right
