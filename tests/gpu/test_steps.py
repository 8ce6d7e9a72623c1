"""Trainings on a GPU, compared with the CPU for every method and family."""

import warnings
from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    ANYWHERE,
    OTHER_SMALL,
    SMALL,
    SMALL_OF_EACH,
    VARIANTS,
    adaptation,
    base_tensors,
    items,
    method_pairs,
    sized,
    trainables,
)
from tests.gpu.both import CLOSE, CUDA, furthest, on_gpu, trained

from adaptlab.engine.items import Items
from adaptlab.engine.passes import Pass, passes
from adaptlab.engine.plan import Plan
from adaptlab.engine.step_graph import use_graphs

pytestmark = pytest.mark.gpu

MODELS = SMALL_OF_EACH | OTHER_SMALL
NAMES = [name for name in (*ANYWHERE, *VARIANTS) if name != "frozen"]
TRAINING = {"precision": "float64", "steps": 3, "batch_size": 6, "validations": 1}


def planned(method: object, family: str, **training: object) -> Plan:
    return adaptation(
        method,  # pyright: ignore[reportArgumentType] - a JSON object
        family=MODELS[family],
        base_replicates=2,
        tuning={"trials": 2, "validation_samples": 4},
        training={**TRAINING, **training},
    )


@pytest.mark.parametrize(("name", "family"), method_pairs(NAMES))
def test_a_training_ends_with_the_weights_that_the_cpu_finds(
    name: str, family: str, tmp_path: Path
):
    plan = planned(sized(name).model_dump(mode="json"), family)
    here, _ = trained(plan, tmp_path, groups=2)
    there, _ = trained(on_gpu(plan), tmp_path, groups=2)
    use_graphs()
    replayed, _ = trained(on_gpu(plan), tmp_path, groups=2)
    assert there.isfinite().all()
    assert furthest(there, here) < CLOSE
    assert furthest(replayed, here) < CLOSE


@pytest.mark.parametrize("family", MODELS)
def test_a_step_is_recorded_unless_it_chooses_experts(family: str):
    use_graphs()
    one, batch = a_pass({"name": "lora", "rank": 2}, family)
    one.gradient(batch, 0, 1)
    assert one._graph is not None
    assert one._graph.is_recorded == (family != "mixtral")


def test_replicates_that_are_left_out_leave_the_others_as_they_are(tmp_path: Path):
    stopping = {"early_stopping": {"patience": 1, "min_delta": 10.0}}
    plan = planned({"name": "lora", "rank": 2}, "minigpt", steps=8, validations=8, **stopping)
    here, _ = trained(plan, tmp_path, groups=2)
    use_graphs()
    there, _ = trained(on_gpu(plan), tmp_path, groups=2)
    assert furthest(there, here) < CLOSE


@pytest.mark.parametrize("method", ["full_finetuning", "lora"])
def test_dropout_draws_what_the_cpu_draws(method: str, tmp_path: Path):
    plan = adaptation(
        method,
        budget=None if method == "full_finetuning" else 200,
        family=SMALL.model_copy(update={"dropout": 0.2}),
        training=TRAINING,
    )
    here, _ = trained(plan, tmp_path)
    there, _ = trained(on_gpu(plan), tmp_path)
    assert furthest(there, here) < CLOSE
    use_graphs()
    replayed, _ = trained(on_gpu(plan), tmp_path)
    assert furthest(replayed, here) < CLOSE


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_lower_precisions_stay_near_the_cpu(precision: str, tmp_path: Path):
    plan = planned("full_finetuning", "minigpt", precision=precision)
    here, _ = trained(plan, tmp_path, groups=2)
    there, _ = trained(on_gpu(plan), tmp_path, groups=2)
    # three steps of at most the learning rate each, in which a rounded gradient turns around
    most = 3 * 2 * max(trial.learning_rate for trial in plan.training.trials)
    assert 0 < furthest(there, here) < most


WAITING = {
    ("transformers", "lora"),
    ("transformers", "full_finetuning"),
}
"""The library asks of a decoder without learned positions whether its sequences are packed.

It does not ask while a graph is recorded."""


@pytest.mark.parametrize(
    ("family", "method"),
    [
        (family, method)
        for family in MODELS
        for method in ("full_finetuning", "prefix_tuning", "lora")
        if family != "mixtral" and (family, method) not in WAITING
    ],
)
def test_a_step_does_not_wait_for_the_device(family: str, method: str):
    one, batch = a_pass(sized(method).model_dump(mode="json"), family)
    one.gradient(batch, 0, 1)  # what only the first step does may wait
    try:
        with warnings.catch_warnings(record=True) as waited:
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("warn")  # warns that it does not see everything
            warnings.simplefilter("always")
            one.gradient(batch, 1, 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not [f"{warning.filename}:{warning.lineno}" for warning in waited]


@pytest.mark.parametrize("family", [name for name in MODELS if name != "formal"])
def test_blocks_that_are_computed_again_give_the_same_gradients(family: str):
    one, batch = a_pass({"name": "lora", "rank": 2}, family)
    gradient, _ = one.gradient(batch, 0, 2)
    again, _ = one.recomputing().gradient(batch, 0, 1)
    assert furthest(again.cpu(), gradient.cpu()) < CLOSE


def a_pass(method: object, family: str) -> tuple[Pass, Items]:
    """A pass of all replicates on the GPU, and items for it."""
    plan = on_gpu(planned(method, family))
    base = {name: tensor.to(CUDA) for name, tensor in base_tensors(plan, 2).items()}
    allocated = trainables(plan, base)
    everyone = range(plan.replicates)
    (one,) = passes(plan, base, everyone, allocated.flat, allocated.decays, plan.replicates)
    batch = items(plan, 6)
    return one, batch.each(lambda tensor: tensor[:: plan.trials])
