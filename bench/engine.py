"""The engine: replicates in one pass against plain models in turn."""

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.items.digits import make_items
from adaptlab.engine.items.task_items import ITEM_SEED
from adaptlab.engine.kernels.allocator import keep_freed_memory
from adaptlab.engine.kernels.compiled import compile_kernels
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models import decoder
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.allocate import allocate
from adaptlab.engine.training.step_graph import graphs_are_used, use_graphs
from adaptlab.families.minigpt import MiniGPT
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec, Precision, PretrainSpec
from adaptlab.tasks.sort_ascending import SortAscending
from bench.figures import Figure, Section, alternating, middle_ratio, spread
from bench.peak import SIZE, operations, peak
from bench.plain_loop import PlainLoop
from bench.stepping import ROUNDS, milliseconds, row, stepper

TASK = SortAscending(name="sort_ascending")
ONE_LAYER = MiniGPT(layers=1, heads=1, width=96)
FOUR_LAYERS = MiniGPT(layers=4, heads=4, width=256)
Row = tuple[str, MiniGPT, int, int, str]
"""Name, family, seeds, steps per round, and target."""
ONE: Row = ("pretraining, 1 layer, width 96, 10 seeds", ONE_LAYER, 10, 8, "5 times")
FOUR: Row = ("pretraining, 4 layers, width 256, 3 seeds", FOUR_LAYERS, 3, 3, "80 % of the peak")
AS_IN_THE_PAPER = {"dropout": 0.1, "pad_positions": 1}
DROPPED: Row = (
    "pretraining, 1 layer, width 96, 10 seeds, dropout 0.1 and one pad as in the paper",
    ONE_LAYER.model_copy(update=AS_IN_THE_PAPER),
    10,
    8,
    "4 times",
)
FOUR_SEEDS: Row = ("pretraining, 4 layers, width 256, 4 seeds", FOUR_LAYERS, 4, 3, "")


def with_dropout(named: Row) -> Row:
    """Return the same training with dropout."""
    work, family, seeds, steps, target = named
    return work, family.model_copy(update={"dropout": 0.1}), seeds, steps, target


WHAT_IS_LEFT = (
    "In one thread, linear layers and MLPs take 75 to 85 % of a step, at 85 to 95 % of the "
    "peak of a core; the rest is attention, norms and the optimiser. Two lanes take 0.6 of "
    "the time of one, because they share memory and clock. Tried without gain: "
    "`torch.compile` of the whole step, fewer replicates at once, larger and smaller blocks, "
    "stores past the caches, packing by vectors, huge pages, LoRA's update in place, flushing "
    "subnormal numbers to 0."
)
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def measure() -> Section:
    """Return every row of the engine's table."""
    compile_kernels()  # as a worker's trainer does; where there is no compiler torch computes all
    keep_freed_memory()  # as a worker's trainer does; the plain loop in this process gains as well
    peaks = {precision: peak(DTYPES[precision]) for precision in PRECISIONS}
    return Section(
        "The engine",
        f"Milliseconds per replicate and step, batch 64, sorting ten digits; medians of {ROUNDS} "
        "alternating rounds. The plain loop is `bench/plain_loop.py`, in bfloat16 under "
        "`torch.autocast`. Shares are those of the matrix-product peak at "
        f"{SIZE:,} × {SIZE:,}, measured in this run: "
        + ", ".join(f"{rate / 1e9:,.0f} GFLOP/s in {name}" for name, rate in peaks.items())
        + ". "
        + WHAT_IS_LEFT,
        (
            *in_each_precision(peaks, lambda precision: pretraining(ONE, precision)),
            in_float32(peaks, DROPPED),
            dropout_against_none(ONE),
            dropout_by_item(ONE),
            *in_each_precision(peaks, prefixes),
            *in_each_precision(peaks, lambda precision: pretraining(FOUR, precision)),
            dropout_against_none(FOUR),
            lanes_against_threads(ONE),
            lanes_against_threads(FOUR_SEEDS),
            _evaluation(),
        ),
    )


def in_float32(peaks: Mapping[str, float], named: Row) -> Figure:
    """Compare a pretraining in float32 with the plain loop."""
    contest = pretraining(named, "float32")
    return compared(contest, "float32", autocast=False, fastest=peaks["float32"])


def lanes_against_threads(named: Row) -> Figure:
    """Compare lanes with all threads in every product."""
    contest = pretraining(named, "float32")
    plan, base = contest.plan, contest.base
    return against(
        contest,
        f"in {torch.get_num_threads()} lanes of one thread",
        ("all threads in every product", stepper(plan, base, lanes=False)),
        "",
    )


def dropout_against_none(named: Row) -> Figure:
    """Compare steps with and without dropout, both ours."""
    plain = pretraining(named, "float32")
    return against(
        pretraining(with_dropout(named), "float32"),
        "dropout 0.1",
        ("ours without dropout", stepper(plain.plan, plain.base)),
        "at least 0.9 times",
    )


def against(
    contest: "Contest", kind: str, other: tuple[str, Callable[[], None]], target: str
) -> Figure:
    """Compare a step in float32 with another of as many replicates."""
    replicates, (compared, theirs) = contest.plan.replicates, other
    return row(
        f"{contest.work}, float32, {kind}",
        stepper(contest.plan, contest.base),
        replicates,
        theirs,
        target,
        compared,
        replicates,
        contest.steps,
    )


def dropout_by_item(named: Row) -> Figure:
    """Compare steps with and without dropout, both with every item on its own.

    Without dropout, items could share what the first layer computes of a token.
    """
    plain = pretraining(named, "float32")
    step = stepper(plain.plan, plain.base)

    def by_item() -> None:
        shared, decoder.ITEMS_PER_TOKEN = decoder.ITEMS_PER_TOKEN, sys.maxsize
        step()
        decoder.ITEMS_PER_TOKEN = shared

    return against(
        pretraining(with_dropout(named), "float32"),
        "dropout 0.1",
        ("ours without dropout, no layer computed by token", by_item),
        "at least 0.9 times",
    )


def in_each_precision(
    peaks: Mapping[str, float], contest: Callable[[Precision], "Contest"]
) -> Iterator[Figure]:
    """Compare float32 and bfloat16 with the plain loop in each."""
    meetings: tuple[tuple[Precision, bool], ...] = (
        ("float32", False),
        ("bfloat16", False),
        ("bfloat16", True),
    )
    for ours, autocast in meetings:
        yield compared(contest(ours), ours, autocast=autocast, fastest=peaks[ours])


@dataclass(frozen=True)
class Contest:
    """A training, its steps per round, and the parts of a plain loop for it."""

    work: str
    plan: Plan
    base: Mapping[str, Tensor]
    family: MiniGPT
    prefix: int
    steps: int
    target: str


def pretraining(named: Row, precision: Precision, device: str = "cpu") -> Contest:
    """Return the training of a model from scratch, on every seed."""
    work, family, seeds, steps, target = named
    spec = PretrainSpec.model_validate(
        {
            "name": "bench",
            "family": family.model_dump(),
            "task": "sort_ascending",
            "seeds": seeds,
            "training": {"steps": 100_000, "precision": precision},
        }
    )
    return Contest(work, make_plan(resolve(spec, None), device), {}, family, 0, steps, target)


def prefixes(precision: Precision, device: str = "cpu") -> Contest:
    """Return the training of a prefix at eight rates on ten seeds."""
    spec = AdaptSpec.model_validate(
        {
            "base_model": "bench",
            "task": "sort_ascending",
            "method": {"name": "prefix_tuning", "length": 1},
            "tuning": {"trials": 8},
            "training": {"steps": 100_000, "precision": precision},
        }
    )
    family = ONE_LAYER.resolved(TASK.vocabulary(), TASK.sequence_length())
    facts = BaseModelFacts(
        name="bench",
        digest="0",
        family=family,
        task=TASK,
        replicates=10,
    )
    plan = make_plan(resolve(spec, facts), device)
    base = {
        n: torch.randn(10, *t.shape, device=device) * 0.02 for n, t in plan.shape.tensors.items()
    }
    work = "prefix-tuning it, 10 seeds × 8 rates"
    return Contest(work, plan, base, ONE_LAYER, 1, 2, "10 times")


def compared(contest: Contest, precision: str, *, autocast: bool, fastest: float) -> Figure:
    """Compare a training with the plain loop, in bfloat16 with `autocast`."""
    family, replicates = contest.family, contest.plan.replicates
    plain = PlainLoop(
        TASK,
        *(family.layers, family.heads, family.width),
        batch=64,
        prefix=contest.prefix,
        pads=family.pad_positions,
        dropout=family.dropout,
        bfloat16=autocast,
        device=contest.plan.device.type,
    )
    done = operations(_plainly(contest)) / replicates
    stacked = stepper(contest.plan, contest.base)
    plain.step()  # what only the first step does is not measured
    stacked()
    ours, theirs = alternating(
        lambda: milliseconds(stacked, contest.steps) / replicates,
        lambda: milliseconds(plain.step, 4 * contest.steps),
        ROUNDS,
    )
    ratio = middle_ratio(theirs, ours)
    share = done / (statistics.median(ours) / 1000) / fastest
    return Figure(
        f"{contest.work}, {precision}",
        f"plain loop in {'bfloat16' if autocast else 'float32'}: {spread(theirs, 'ms')}",
        f"{spread(ours, 'ms')}: {ratio:.1f} ×; {share:.0%} of the peak",
        contest.target,
    )


def _plainly(contest: Contest) -> Callable[[], None]:
    """Return one step without a graph and without lanes.

    The operations of a graph, and those of other threads, would not be seen.
    """
    used, threads = graphs_are_used(), torch.get_num_threads()
    use_graphs(use=False)
    torch.set_num_threads(1)
    step = stepper(contest.plan, contest.base)
    step()
    torch.set_num_threads(threads)
    use_graphs(use=used)
    return step


def _evaluation() -> Figure:
    spec = PretrainSpec.model_validate(
        {"name": "bench", "family": ONE_LAYER.model_dump(), "task": "sort_ascending"}
    )
    plan = make_plan(resolve(spec, None), "cpu")
    tensors = allocate(plan.trained_shapes, plan.replicate_seeds, {}, plan.dtype).tensors
    model = Model(plan, {}, {name: tensor.detach() for name, tensor in tensors.items()})
    plain = PlainLoop(TASK, ONE_LAYER.layers, ONE_LAYER.heads, ONE_LAYER.width, batch=64)
    ours, theirs = alternating(
        lambda: milliseconds(
            lambda: judged(model, plan.task, "test", 3200, 1, with_loss=False).right, 1
        ),
        lambda: milliseconds(lambda: _generate(plain), 1),
        ROUNDS,
    )
    ratio = middle_ratio(theirs, ours)
    return Figure(
        "exact-match evaluation of 3,200 samples, one replicate, float32",
        f"the plain model, greedy without cache, batches of 100: {spread(theirs, 'ms')}",
        f"{spread(ours, 'ms')}: {ratio:.1f} ×",
        "20 times",
    )


def _generate(plain: PlainLoop) -> None:
    """Generate 3,200 answers as the published code: 32 batches of 100."""
    for first in range(0, 3200, 100):
        items = make_items(TASK, "test", torch.tensor([ITEM_SEED]), first, 100)
        questions = items.tokens[0, :, : TASK.input_length()]
        (plain.answer(questions) == items.targets[0]).all(-1)
