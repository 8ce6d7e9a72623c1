"""Trainings on a GPU, compared with the CPU for every method and family."""

import warnings
from pathlib import Path
from time import perf_counter

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
from torch.nn import functional

from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.engine.kernels import fused_dropout
from adaptlab.engine.kernels.counter import random_bits
from adaptlab.engine.kernels.fused_draws import fused_draw
from adaptlab.engine.kernels.fused_dropout import NAMES as NAMES_OF_KERNELS
from adaptlab.engine.kernels.fused_dropout import dropout_fault
from adaptlab.engine.kernels.rounding import rounded_products
from adaptlab.engine.models.dropout import TrainingStep, dropped
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.optim import AdamW
from adaptlab.engine.training.passes import ReplicatePass, passes
from adaptlab.engine.training.step_graph import use_graphs
from adaptlab.engine.training.train import batches
from adaptlab.families.minigpt import MiniGPT

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
    for step in range(2):
        one.gradient(batch, step, 1)
    assert one._graph is not None
    assert one._graph.is_recorded == (family != "mixtral"), one._graph.fault


@pytest.mark.parametrize("method", ["full_finetuning", "prefix_tuning", "lora"])
def test_a_recording_moves_the_weights_as_separate_kernels_do(method: str):
    ends: list[torch.Tensor] = []
    for graphs in (False, True):
        use_graphs(use=graphs)
        one, batch = a_pass(sized(method).model_dump(mode="json"), "minigpt")
        decays = torch.full_like(one.trainables.flat[:, 0], 0.1)
        optimiser = AdamW(one.trainables, decays, 1.0)
        moved: list[bool] = []
        for step in range(4):
            optimiser.begin(decays * 0.1 * (step + 1))
            gradient, _ = one.gradient_or_move(batch, step, optimiser.move)
            moved.append(gradient is None)
            if gradient is not None:
                optimiser.move(gradient)
        assert moved == [graphs and step > 0 for step in range(4)]
        ends.append(one.trainables.flat.cpu())
    assert furthest(*ends) < CLOSE


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


@pytest.mark.parametrize("dtype", NAMES_OF_KERNELS)
def test_dropout_is_one_kernel_that_computes_what_torch_does(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    at = TrainingStep(
        torch.tensor(3, device=CUDA), torch.tensor([5, -1, 5], device=CUDA), first_item=2
    )
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 64, 4, 20, 30, generator=generator).to(CUDA, dtype).requires_grad_()
    upstream = torch.randn(3, 64, 20, 4, 30, generator=generator).to(CUDA, dtype).transpose(2, 3)
    assert dropout_fault(x.device) is None
    found: list[tuple[torch.Tensor, ...]] = []
    for fused in (True, False):
        if not fused:
            monkeypatch.setattr(fused_dropout, "_kernels", lambda _: fused_dropout._Kernels())
        for rate in (0.1, 0.5, 0.9):
            y = dropped(x, rate, at, "site", 25, slice(5, None))
            assert ("_Dropped" in str(y.grad_fn)) is fused
            found.append((y.detach(), *torch.autograd.grad(y, x, upstream)))
    for ours, plain in zip(found[:3], found[3:], strict=True):
        assert all(torch.equal(*pair) for pair in zip(ours, plain, strict=True))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_lower_precisions_stay_near_the_cpu(precision: str, tmp_path: Path):
    plan = planned("full_finetuning", "minigpt", precision=precision)
    here, _ = trained(plan, tmp_path, groups=2)
    there, _ = trained(on_gpu(plan), tmp_path, groups=2)
    # three steps of at most the learning rate each, in which a rounded gradient turns around
    most = 3 * 2 * max(trial.learning_rate for trial in plan.training.trials)
    assert 0 < furthest(there, here) < most


WIDE = MiniGPT(layers=2, heads=2, width=256)


@pytest.mark.parametrize("graphs", [False, True], ids=["plain", "graphs"])
def test_tf32_rounds_the_products_of_steps_and_of_nothing_else(graphs: bool):
    use_graphs(use=graphs)
    gradients: dict[str, torch.Tensor] = {}
    base: dict[str, torch.Tensor] = {}
    for precision in ("float64", "float32", "tf32"):
        plan = on_gpu(
            adaptation(
                "full_finetuning",
                family=WIDE,
                base_replicates=2,
                tuning={"trials": 1, "validation_samples": 4},
                training={**TRAINING, "precision": precision},
            )
        )
        base = base or {name: 0.2 * tensor for name, tensor in base_tensors(plan, 2).items()}
        one, batch = passed(plan, base)
        for step in range(2):
            gradient, _ = one.gradient(batch, step, 1)
            gradients[precision] = gradient.flat.double()
    exact = gradients["float64"]
    errors = {name: float((g - exact).norm() / exact.norm()) for name, g in gradients.items()}
    assert errors["float32"] < 2.0**-18
    assert 2.0**-14 < errors["tf32"] < 2.0**-7
    assert not torch.backends.cuda.matmul.allow_tf32


def test_a_convolution_is_rounded_only_in_tf32():
    generator = torch.Generator().manual_seed(1)
    x, kernel = (
        torch.randn(8, 64, 16, 16, generator=generator, dtype=torch.float64).to(CUDA)
        for _ in range(2)
    )
    exact = functional.conv2d(x, kernel)
    errors: dict[bool, float] = {}
    for rounded in (False, True):
        with rounded_products(rounded=rounded):
            found = functional.conv2d(x.float(), kernel.float())
        errors[rounded] = float((found - exact).norm() / exact.norm())
    assert errors[False] < 2.0**-18
    assert errors[True] > 2.0**-14


def test_draws_are_those_of_the_cpu():
    shapes = ((), (7, 1, 1), (1, 5, 1), (11,), (1,), (7, 5, 11))
    generator = torch.Generator().manual_seed(3)
    counters = [
        torch.randint(-(2**63), 2**63 - 1, shape, generator=generator, dtype=torch.int64)
        for shape in shapes
    ]
    for count in range(1, len(counters) + 1):
        there = [counter.to(CUDA) for counter in counters[:count]]
        assert fused_draw(tuple(there)) is not None
        assert torch.equal(random_bits(*there).cpu(), random_bits(*counters[:count]))


def test_items_are_made_while_earlier_steps_are_computed():
    plan = on_gpu(planned({"name": "lora", "rank": 2}, "minigpt", steps=64))
    made, plain = batches(plan), items_of_steps(plan.task, plan.seeds, 6, range(64))
    began = perf_counter()
    expected = [next(plain).tokens.cpu() for _ in range(40)]
    taken = perf_counter() - began
    first = next(made).tokens.cpu()
    busy = torch.cuda.Event()
    # Cycles: more than two seconds, and longer where others compute on the card as well.
    torch.cuda._sleep(2**32 + int(2**33 * taken))
    busy.record()
    others = [next(made) for _ in range(39)]
    assert not busy.query(), "it waited for the steps before"
    found = [first, *(each.tokens.cpu() for each in others)]
    assert torch.equal(torch.stack(found), torch.stack(expected))


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
    assert furthest(again.flat.cpu(), gradient.flat.cpu()) < CLOSE


def a_pass(method: object, family: str) -> tuple[ReplicatePass, Items]:
    """A pass of all replicates on the GPU, and items for it."""
    plan = on_gpu(planned(method, family))
    return passed(plan, base_tensors(plan, 2))


def passed(plan: Plan, tensors: dict[str, torch.Tensor]) -> tuple[ReplicatePass, Items]:
    """The pass of a plan with these base tensors, and items for it."""
    base = {name: tensor.to(CUDA, plan.dtype) for name, tensor in tensors.items()}
    allocated = trainables(plan, base)
    everyone = range(plan.replicates)
    ((one,),) = passes(plan, base, everyone, allocated.flat, allocated.decays, plan.replicates)
    batch = items(plan, 6)
    return one, batch.each(lambda tensor: tensor[:: plan.trials])
