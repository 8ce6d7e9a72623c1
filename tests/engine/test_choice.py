"""The choice of a trial per seed, and a trial's initial scale."""

from itertools import chain

import pytest
import torch
from tests.engine.making import adaptation, base_tensors

from adaptlab.engine.measuring.evaluate import Judged
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.training import choice
from adaptlab.engine.training import validation_standings as standing
from adaptlab.engine.training.allocate import allocate
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.runs.events import ReplicateResult
from adaptlab.specs.spec import Trial

SAMPLES = 10


def decided(
    monkeypatch: pytest.MonkeyPatch,
    selection: str,
    right: list[list[int]],
    losses: list[list[float]],
    diverged: tuple[int, ...] = (),
) -> tuple[ReplicateResult, ...]:
    """Return the choice, given correct items and losses.

    `right` are correct items of ten. Items and losses are by seed and trial.
    """
    plan = adaptation(
        {"name": "lora", "rank": 1},
        base_replicates=len(right),
        tuning={
            "trials": len(right[0]),
            "selection": selection,
            "validation_samples": SAMPLES,
        },
    )
    base = base_tensors(plan)
    allocated = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype)
    allocated.flat[:] = torch.arange(plan.replicates).unsqueeze(1)  # a replicate is its weights
    counts = torch.tensor(list(chain(*right)))

    def judged(
        model: Model, task: object, split: str, samples: int, replicates: int, **named: bool
    ) -> Judged:
        first = next(iter(model.trained.values())).detach().flatten(1)[:, 0].long()
        assert (split, len(first)) == ("validation", replicates)
        assert not set(first.tolist()) & set(diverged), "who has diverged is not scored"
        assert not any(named.values()), "neither losses nor answers"
        return Judged(torch.arange(samples) < counts[first].unsqueeze(1))

    monkeypatch.setattr(standing, "judged", judged)
    outcome = TrainingOutcome.untrained(plan.replicates)
    outcome.final_losses = list(chain(*losses))
    for replicate in diverged:
        outcome.diverged[replicate] = True
    return choice.decide(plan, base, allocated, outcome)


def kept(results: tuple[ReplicateResult, ...]) -> list[tuple[int, int]]:
    return [(result.seed, result.trial) for result in results if result.selected]


RIGHT = [[9, 6, 1], [2, 6, 8]]
EVEN = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_each_seed_keeps_its_own_best_or_all_keep_the_best_on_average(
    monkeypatch: pytest.MonkeyPatch,
):
    assert kept(decided(monkeypatch, "per_seed", RIGHT, EVEN)) == [(0, 0), (1, 2)]
    # the means are 5.5, 6 and 4.5 of ten
    pooled = decided(monkeypatch, "pooled", RIGHT, EVEN)
    assert kept(pooled) == [(0, 1), (1, 1)]
    assert [r.validation_accuracy for r in pooled] == [0.9, 0.6, 0.1, 0.2, 0.6, 0.8]


@pytest.mark.parametrize("selection", ["per_seed", "pooled"])
def test_among_equals_the_lower_training_loss_and_then_the_first_is_kept(
    selection: str, monkeypatch: pytest.MonkeyPatch
):
    right = [[3, 5, 5], [3, 5, 5]]
    lower = [[0.1, 0.5, 0.4], [0.1, 0.5, 0.4]]
    assert kept(decided(monkeypatch, selection, right, lower)) == [(0, 2), (1, 2)]
    assert kept(decided(monkeypatch, selection, right, EVEN)) == [(0, 1), (1, 1)]


def test_of_pooled_trials_that_score_alike_the_mean_loss_decides(monkeypatch: pytest.MonkeyPatch):
    losses = [[0.2, 0.1], [0.1, 0.3]]  # means of 0.15 and 0.2
    assert kept(decided(monkeypatch, "pooled", [[4, 5], [5, 4]], losses)) == [(0, 0), (1, 0)]


def test_a_diverged_replicate_counts_as_nothing_right_and_is_never_kept(
    monkeypatch: pytest.MonkeyPatch,
):
    # trial 0 would have 9 and 9; with one diverged its mean is 4.5, below the 5 of trial 1
    right = [[9, 5], [9, 5]]
    assert kept(decided(monkeypatch, "pooled", right, [[1.0, 1.0]] * 2, (2,))) == [(0, 1), (1, 1)]
    # where it still is the best, the seed that diverged is left without
    results = decided(monkeypatch, "pooled", [[9, 4], [9, 4]], [[1.0, 1.0]] * 2, (2,))
    assert kept(results) == [(0, 0)]
    assert results[2].validation_accuracy is None
    per_seed = decided(monkeypatch, "per_seed", [[9, 4], [9, 4]], [[1.0, 1.0]] * 2, (2,))
    assert kept(per_seed) == [(0, 0), (1, 1)]


def test_when_nothing_is_right_one_that_is_alive_is_kept(monkeypatch: pytest.MonkeyPatch):
    results = decided(monkeypatch, "pooled", [[0, 0]], [[1.0, 2.0]], (0,))
    assert kept(results) == [(0, 1)]


def test_the_initial_scale_multiplies_what_starts_at_random_and_nothing_else():
    plan = adaptation({"name": "lora", "rank": 2, "dora": True}, base_replicates=2)
    trials = tuple(Trial(learning_rate=1, weight_decay=0, initial_scale=s) for s in (1, 3, 0.5))
    training = plan.training.model_copy(update={"trials": trials})
    plan = make_plan(plan.spec.model_copy(update={"training": training}), "cpu")
    base = base_tensors(plan)
    plain = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype).tensors
    scales = plan.replicate_scales
    assert scales.tolist() == [1, 3, 0.5, 1, 3, 0.5]
    scaled = allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype, scales).tensors
    for name, tensor in plain.items():
        factor = scales if name.endswith(".a") else torch.ones(6, dtype=plan.dtype)
        expected = tensor * factor.view(-1, *[1] * (tensor.dim() - 1))
        assert torch.equal(scaled[name], expected), name
    assert any(name.endswith(".a") for name in plain)
    assert any(not name.endswith((".a", ".b")) for name in plain), "row lengths start as the base's"
