"""The engine: replicates in one pass against one plain model after the other."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from adaptlab.engine.allocate import allocate
from adaptlab.engine.digits import make_items
from adaptlab.engine.evaluate import ITEM_SEED, outcomes
from adaptlab.engine.model import Model
from adaptlab.engine.plan import Plan, make_plan
from adaptlab.families.minigpt import MiniGPT
from adaptlab.resolve import BaseModelFacts, resolve
from adaptlab.spec import AdaptSpec, PretrainSpec
from adaptlab.tasks.sort_ascending import SortAscending
from bench.figures import Figure, Section, alternating, spread
from bench.plain_loop import PlainLoop
from bench.stepping import stepper

ROUNDS = 5
ONE_LAYER = MiniGPT(layers=1, heads=1, width=96)
FOUR_LAYERS = MiniGPT(layers=4, heads=4, width=256)


def measure() -> Section:
    """Every row of the engine's table."""
    return Section(
        "The engine",
        f"Milliseconds per replicate and step, batch 64, sorting ten digits, float32; medians of "
        f"{ROUNDS} rounds taken in turn. The plain loop is `bench/plain_loop.py`.",
        (
            _pretraining("pretraining, 1 layer, width 96, 10 seeds", ONE_LAYER, 10, 8, "5 times"),
            _prefixes(),
            _pretraining("pretraining, 4 layers, width 256, 3 seeds", FOUR_LAYERS, 3, 3, "4 times"),
            _evaluation(),
        ),
    )


def _pretraining(work: str, family: MiniGPT, seeds: int, steps: int, target: str) -> Figure:
    spec = PretrainSpec.model_validate(
        {
            "name": "bench",
            "family": family.model_dump(),
            "task": "sort_ascending",
            "seeds": seeds,
            "training": {"steps": 100_000},
        }
    )
    plan = make_plan(resolve(spec, None), "cpu")
    plain = PlainLoop(SortAscending(name="sort_ascending"), *_sizes(family), batch=64)
    return _compared(work, plan, {}, plain, steps, target)


def _prefixes() -> Figure:
    spec = AdaptSpec.model_validate(
        {
            "base_model": "bench",
            "task": "sort_ascending",
            "method": {"name": "prefix_tuning", "length": 1},
            "tuning": {"trials": 8},
            "training": {"steps": 100_000},
        }
    )
    task = SortAscending(name="sort_ascending")
    family = ONE_LAYER.resolved(task.vocabulary(), task.sequence_length())
    facts = BaseModelFacts(
        name="bench",
        digest="0",
        family=family.model_dump(),
        task=task.model_dump(),
        replicates=10,
    )
    plan = make_plan(resolve(spec, facts), "cpu")
    base = {n: torch.randn(10, *t.shape) * 0.02 for n, t in plan.shape.tensors.items()}
    plain = PlainLoop(task, *_sizes(ONE_LAYER), batch=64, prefix=1)
    return _compared("prefix-tuning it, 10 seeds × 8 rates", plan, base, plain, 2, "10 times")


def _sizes(family: MiniGPT) -> tuple[int, int, int]:
    return family.layers, family.heads, family.width


def _compared(
    work: str, plan: Plan, base: dict[str, Tensor], plain: PlainLoop, steps: int, target: str
) -> Figure:
    stacked = stepper(plan, base)
    for step in (stacked, plain.step):
        step()  # what only the first step does is not measured
    ours, theirs = alternating(
        lambda: _milliseconds(stacked, steps) / plan.replicates,
        lambda: _milliseconds(plain.step, 4 * steps),
        ROUNDS,
    )
    ratio = sorted(t / o for t, o in zip(theirs, ours, strict=True))[ROUNDS // 2]
    return Figure(
        work, f"plain loop: {spread(theirs, 'ms')}", f"{spread(ours, 'ms')}: {ratio:.1f} ×", target
    )


def _evaluation() -> Figure:
    spec = PretrainSpec.model_validate(
        {"name": "bench", "family": ONE_LAYER.model_dump(), "task": "sort_ascending"}
    )
    plan = make_plan(resolve(spec, None), "cpu")
    tensors = allocate(plan.trained_shapes, plan.replicate_seeds, {}, plan.dtype).tensors
    model = Model(plan, {}, {name: tensor.detach() for name, tensor in tensors.items()})
    ours, theirs = alternating(
        lambda: _milliseconds(lambda: outcomes(model, plan.task, "test", 3200, 1), 1),
        lambda: _milliseconds(lambda: _generate(model, plan), 1),
        ROUNDS,
    )
    ratio = sorted(t / o for t, o in zip(theirs, ours, strict=True))[ROUNDS // 2]
    return Figure(
        "exact-match evaluation of 3,200 samples, one replicate",
        f"greedy generation without cache, batches of 100: {spread(theirs, 'ms')}",
        f"{spread(ours, 'ms')}: {ratio:.1f} ×",
        "20 times",
    )


@torch.no_grad()
def _generate(model: Model, plan: Plan) -> None:
    """Greedy answers to 3,200 questions as the published code makes them: 32 batches of 100."""
    for first in range(0, 3200, 100):
        seeds = torch.tensor([ITEM_SEED])
        items = make_items(plan.task, "test", seeds, first, 100)
        tokens = items.tokens[..., : plan.task.input_length()]
        for _ in range(plan.task.target_length()):
            logits = model.logits(tokens, slice(None))
            tokens = torch.cat([tokens, logits[:, :, -1:].argmax(-1)], -1)


def _milliseconds(work: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) * 1000 / times
