"""The operations of a job, against counts by hand.

The model is small enough for that.
"""

from typing import Any

import pytest
from tests.making import a_pretrain_spec, a_resolved_job, an_adapt_spec, base_facts

from adaptlab.specs.cost import Work, work
from adaptlab.specs.forward_pass import model_pass
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolve import resolve

# Width 8, one layer, one head, MLP of 32; 6 tokens in the vocabulary; items of 3 digits, so that
# 5 positions are fed and 3 answer. Multiply-adds of one item:
KEYS_AND_VALUES = 5 * 2 * 8 * 8
QUERIES_AND_OUTPUT = 3 * 2 * 8 * 8
MLP = 3 * 2 * 8 * 32
HEAD = 3 * 8 * 6
SCORES_AND_SUMS = 3 * 5 * 8 * 2
PRODUCTS = KEYS_AND_VALUES + QUERIES_AND_OUTPUT + MLP + HEAD

LARGE = base_facts(a_pretrain_spec(family={"name": "minigpt", "layers": 4, "width": 256}))


def pretraining(**training: Any) -> Work:
    plain = {"steps": 1, "batch_size": 4, "validations": 0} | training
    return work(a_resolved_job(a_pretrain_spec(training=plain, seeds=2)))


def adaptation(method: str, *, trials: int = 1, samples: int = 16, **training: Any) -> Work:
    plain = {"steps": 1, "batch_size": 4, "validations": 0} | training
    spec = an_adapt_spec(
        method={"name": method},
        budget={"trainable_parameters": 2000},
        training=plain,
        tuning={"trials": trials},
        evaluation={"samples": samples},
    )
    return work(a_resolved_job(spec))


def test_pretraining_multiplies_forward_and_twice_as_much_backward() -> None:
    """The counts are those of two seeds of four items.

    Norms and residuals are 8 operations per feature, twice per layer.
    """
    norms = 2 * 8 * 3 * 8
    forward = 2 * PRODUCTS + 2 * SCORES_AND_SUMS
    backward = 2 * 2 * PRODUCTS + 2 * SCORES_AND_SUMS  # attention has no weights of its own
    expected = 2 * 4 * (forward + backward + 2 * norms)
    assert pretraining().training.flops == pytest.approx(expected, rel=0.02)


def test_a_frozen_baseline_trains_nothing_and_is_scored_all_the_same() -> None:
    counted = work(a_resolved_job(an_adapt_spec(method={"name": "frozen"}, budget={})))
    assert counted.training.flops == counted.training.kernels == 0
    assert counted.evaluation.flops > 0


def test_training_is_proportional_to_steps_and_to_items() -> None:
    once = pretraining()
    assert pretraining(steps=7).training == once.training * 7
    assert pretraining(batch_size=8).training.flops == 2 * once.training.flops
    assert pretraining(batch_size=8).training.kernels == once.training.kernels


def test_jobs_that_share_counts_of_their_model_are_counted_as_if_alone() -> None:
    """The counts of a forward pass through the base are kept.

    They are kept by what they depend on.
    """
    methods = ("lora", "prefix_tuning", "head_only", "full_finetuning", "lora")
    together = [adaptation(method, trials=2) for method in methods]
    for method, shared in zip(methods, together, strict=True):
        model_pass.cache_clear()
        assert adaptation(method, trials=2) == shared


def test_a_frozen_base_has_no_weight_gradients() -> None:
    """Nothing goes back below the head.

    The head's own gradient asks for nothing below it.
    """
    full, head = adaptation("full_finetuning").training, adaptation("head_only").training
    norms = 2 * 8 * 3 * 8
    more = 4 * (PRODUCTS - HEAD) + 2 * SCORES_AND_SUMS + 2 * HEAD + norms
    assert full.flops - head.flops == pytest.approx(2 * 4 * more, rel=0.02)


def test_trials_share_what_stands_before_the_first_thing_trained() -> None:
    """Eight trials that train the head alone do not run the rest eight times."""
    one, eight = (adaptation("head_only", trials=trials).training.flops for trials in (1, 8))
    head = 2 * 4 * 2 * HEAD
    assert eight - one == pytest.approx(7 * 2 * head, rel=0.02)


def test_evaluation_is_proportional_to_samples_and_scores_the_base_as_well() -> None:
    few, many = (adaptation("lora", samples=count).evaluation.flops for count in (16, 32))
    assert many == 2 * few


def test_accumulation_needs_less_memory_for_the_same_arithmetic() -> None:
    whole, parts = pretraining(batch_size=64), pretraining(batch_size=64, accumulation=4)
    assert parts.training.flops == whole.training.flops
    assert parts.memory_bytes < whole.memory_bytes / 2


def test_memory_is_weights_trained_tensors_and_what_a_step_keeps() -> None:
    """Without items there are the weights, two moments and the gradient.

    They are those of two seeds. A mask of the weights that decay is shared.
    """
    spec = a_resolved_job(a_pretrain_spec(seeds=2))
    state = (2 * 4 + 1) * 4 * spec.budget.trainable_parameters
    small, large = (pretraining(batch_size=size).memory_bytes - state for size in (64, 128))
    assert small > 0
    assert large == 2 * small


def test_memory_of_scoring_grows_with_the_items_up_to_one_pass() -> None:
    """A pass reads at most 65,536 tokens.

    Here that is 6,553 items of 5 tokens for each of two seeds.
    """
    few, more, most, beyond = (
        adaptation("head_only", samples=count).memory_bytes for count in (2000, 4000, 7000, 14_000)
    )
    assert more - few > 0
    assert most == beyond


def scored(*, capture: object, precision: str = "float32") -> int:
    """The memory of a frozen baseline of 3 million parameters, in bytes."""
    spec = an_adapt_spec(
        method={"name": "frozen"},
        budget={},
        training={"precision": precision, "validations": 0},
        evaluation={"samples": 1},
        capture=capture,
        seeds=1,
    )
    return work(resolve(spec, LARGE)).memory_bytes


def test_attention_is_recorded_on_a_copy_in_float64() -> None:
    weights = family_shape(LARGE.family).parameters
    recorded = {"attention": {"samples": 1}}
    assert scored(capture={}) < 1.1 * 4 * weights
    assert scored(capture=recorded) == 4 * weights + 8 * weights
    double = scored(capture=recorded, precision="float64")
    assert double < 1.1 * 8 * weights, "its weights are used as they are"


def carried_over(*others: str) -> Work:
    """Count a job of random tokens whose base model has two replicates."""
    base = base_facts()
    spec = an_adapt_spec(
        method={"name": "random_prompt", "length": 2},
        evaluation={"samples": 16, "base_models": others},
    )
    facts = tuple(base.model_copy(update={"name": name, "digest": name}) for name in others)
    own = base.model_copy(update={"task": None})  # so that only the job's own task is scored
    return work(resolve(spec, own, others=facts))


def test_scores_on_other_base_models_are_counted_as_those_on_its_own() -> None:
    """They are scored with the prompt and alone, and nothing is trained."""
    own, one, two = (carried_over(*names) for names in ((), ("first",), ("first", "second")))
    assert own.evaluation.flops > 0
    assert one.evaluation == own.evaluation * 2
    assert two.evaluation == own.evaluation * 3
    assert own.training == one.training == two.training
    assert own.memory_bytes == two.memory_bytes, "one base model is in memory at a time"


def in_context(choice: str, *, samples: int = 100, seeds: int = 1) -> Work:
    family = {"name": "minigpt", "layers": 2, "heads": 2, "width": 16}
    base = base_facts(a_pretrain_spec(family=family, task={"name": "episodes", "kinds": 3}))
    method: dict[str, object] = {"name": "frozen"}
    if choice:
        method = {"name": "in_context", "demonstrations": 2, "choice": choice}
    spec = an_adapt_spec(
        base_model=base.name,
        task={"name": "episodes", "kinds": 3, "shots": 0, "labels": "fixed"},
        method=method,
        budget={},
        seeds=seeds,
        evaluation={"samples": samples},
    )
    return work(resolve(spec, base.model_copy(update={"task": None, "replicates": 1})))


def test_the_choice_of_the_nearest_reads_every_item_and_the_pool_alone() -> None:
    """A frozen base reads the same items twice: as adapted, and as the base."""
    once = in_context("").evaluation.flops / 2
    for seeds in (1, 3):
        more = (
            in_context("nearest", seeds=seeds).evaluation.flops
            - in_context("balanced", seeds=seeds).evaluation.flops
        )
        assert more == pytest.approx(once * (1 + seeds * 512 / 100))
    few = in_context("nearest", samples=10).evaluation.flops
    assert few > in_context("balanced", samples=10).evaluation.flops + 5 * once
