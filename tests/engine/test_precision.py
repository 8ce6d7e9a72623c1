"""Training in bfloat16.

Weights and optimiser are in float32. Arithmetic has eight binary digits.
"""

from pathlib import Path
from time import perf_counter

import pytest
import torch
from tests.engine.making import (
    SMALL_OF_EACH,
    Remembering,
    adaptation,
    base_tensors,
    items,
    perturbed,
    trainables,
)
from tests.engine.running import run
from tests.engine.tiny import pretraining

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.rounding import rounded_products
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.allocate import Gradient, Trainables
from adaptlab.engine.training.loss import mean_losses
from adaptlab.engine.training.optim import AdamW
from adaptlab.engine.training.passes import passes
from adaptlab.errors import InvalidSpec
from adaptlab.running import product_speed as product_speed_module
from adaptlab.running import run as run_module
from adaptlab.running.meter import Clock
from adaptlab.running.product_speed import ProductSpeed, chosen_precision
from adaptlab.runs.events import ReplicatesDecided, Started
from adaptlab.specs.resolve import resolve

HALF_STEP = 2.0**-9
"""The largest relative error of rounding to eight binary digits."""
ROUNDINGS = 30
"""More values in a row than any logit of a two-layer model is the last of."""


@pytest.mark.parametrize("family", SMALL_OF_EACH)
def test_training_in_bfloat16_computes_the_float64_model(family: str):
    exact = adaptation("full_finetuning", family=SMALL_OF_EACH[family])
    plan = adaptation(
        "full_finetuning",
        family=SMALL_OF_EACH[family],
        training={"precision": "bfloat16", "steps": 4, "batch_size": 3},
    )
    assert (plan.dtype, plan.training_dtype) == (torch.float32, torch.bfloat16)
    base = base_tensors(exact)
    trained = perturbed(exact, trainables(exact, base).tensors)
    made, rows = items(exact), target_rows(exact.task)
    expected = Model(exact, base, trained).logits(made.tokens, rows)
    low = Model(
        plan,
        {name: tensor.float() for name, tensor in base.items()},
        {name: tensor.float() for name, tensor in trained.items()},
    )
    found = low.for_training().logits(made.tokens, rows)
    assert found.dtype == torch.bfloat16
    assert low.logits(made.tokens, rows).dtype == torch.float32  # as it is evaluated
    error = (found.double() - expected).square().mean().sqrt()
    assert error < ROUNDINGS**0.5 * HALF_STEP * 4 * expected.square().mean().sqrt()


def test_the_gradient_of_an_embedding_is_summed_in_more_digits():
    weight = torch.zeros(1, 2, 1, dtype=torch.bfloat16, requires_grad=True)
    grouped.embedding(torch.zeros(1, 1, 1000, dtype=torch.int64), weight).sum().backward()
    assert weight.grad is not None
    assert float(weight.grad[0, 0, 0]) == 1000  # eight digits alone would stop counting at 256


@pytest.mark.parametrize("parts", [1, 2])
def test_a_pass_in_bfloat16_has_the_gradient_of_its_float32_weights(parts: int):
    plan = adaptation(
        "full_finetuning",
        base_replicates=2,
        training={"precision": "bfloat16", "steps": 4, "batch_size": 4},
    )
    owned = trainables(plan, {n: t.float() for n, t in base_tensors(plan).items()})
    made = items(plan, 4)
    ((one,),) = passes(plan, {}, range(2), owned.flat, owned.decays, 2)
    for _ in range(2):  # what the pass computes with follows the weights
        owned.flat.mul_(1.25)
        gradient, losses = one.gradient(made, 0, parts)
        found = gradient.flat
        expected = mean_losses(Model(plan, {}, owned.tensors), made, 2, None)
        exact = owned.gradient(expected.sum()).flat
        assert found.dtype == torch.float32
        if parts == 1:
            assert torch.equal(losses, expected.detach())
            assert torch.equal(found, exact)
        assert torch.allclose(found, exact, rtol=0.1, atol=0.02 * float(exact.abs().max()))


@pytest.mark.long("long trainings")
def test_pretraining_in_bfloat16_ends_about_where_float32_does(tmp_path: Path):
    ends: dict[str, list[float]] = {}
    for precision in ("float32", "bfloat16"):
        folder, observer = tmp_path / precision, Remembering()
        folder.mkdir()
        training = {"steps": 150, "batch_size": 32, "precision": precision}
        spec = resolve(pretraining(training=training), None)
        run(spec, (), folder, observer, "cpu")
        assert observer.of(Started)[0].environment.precision == precision
        replicates = observer.of(ReplicatesDecided)[0].replicates
        ends[precision] = [loss for r in replicates if (loss := r.final_loss) is not None]
    assert ends["float32"] != ends["bfloat16"]  # it did compute otherwise
    assert ends["bfloat16"] == pytest.approx(ends["float32"], rel=0.05)
    assert max(ends["bfloat16"]) < 1.6  # from log 5 = 1.61 on


def test_tf32_is_refused_where_it_would_be_float32(tmp_path: Path):
    observer = Remembering()
    spec = resolve(pretraining(training={"precision": "tf32"}), None)
    with pytest.raises(InvalidSpec, match="This worker trains on a CPU") as refused:
        run(spec, (), tmp_path, observer, "cpu")
    assert [each.pointer for each in refused.value.problems] == ["/training/precision"]
    assert observer.of(Started) == []


@pytest.mark.parametrize(("precision", "rounds"), [("tf32", True), ("float32", False)])
@pytest.mark.parametrize("parts", [1, 2])
def test_only_the_products_of_steps_are_rounded_to_tf32(
    precision: str, rounds: bool, parts: int, monkeypatch: pytest.MonkeyPatch
):
    plan = adaptation(
        "full_finetuning", training={"precision": precision, "steps": 4, "batch_size": 4}
    )
    assert plan.dtype == plan.training_dtype == torch.float32
    owned = trainables(plan, {n: t.float() for n, t in base_tensors(plan).items()})
    ((one,),) = passes(plan, {}, range(plan.replicates), owned.flat, owned.decays, plan.replicates)
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    seen: set[tuple[object, object]] = set()
    gradient = Trainables.gradient

    def noting(self: Trainables, *given: object) -> Gradient:
        seen.add((products.allow_tf32, convolutions.allow_tf32))
        return gradient(self, *given)  # pyright: ignore[reportArgumentType] - passed on

    monkeypatch.setattr(Trainables, "gradient", noting)
    with rounded_products(rounded=False):
        one.gradient(items(plan, 4), 0, parts)
        assert not products.allow_tf32
        assert not convolutions.allow_tf32
    assert seen == {(rounds, rounds)}


def test_blocks_of_the_optimiser_move_what_one_block_does(monkeypatch: pytest.MonkeyPatch):
    generator = torch.Generator().manual_seed(2)
    start, gradient = (
        torch.randn(3, 50, dtype=torch.float64, generator=generator) for _ in range(2)
    )
    moved: list[torch.Tensor] = []
    for at_once in (3 * 50, 3 * 7):
        monkeypatch.setattr("adaptlab.engine.training.optim.SCALARS_AT_ONCE", at_once)
        decays = torch.arange(50, dtype=torch.float64) % 2
        own = Trainables(start.clone(), decays, {})
        optimiser = AdamW(own, torch.full((3,), 0.1, dtype=torch.float64), 0.5)
        for _ in range(3):
            optimiser.step(gradient.clone(), torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
        moved.append(own.flat)
    assert torch.allclose(*moved, rtol=0, atol=1e-15)


def a_plan(precision: str) -> Plan:
    return adaptation(
        "layernorm_tuning", training={"precision": precision, "steps": 4, "batch_size": 3}
    )


@pytest.mark.parametrize(
    ("cost", "expected"), [(0.5, "bfloat16"), (0.95, "float32"), (14.0, "float32")]
)
def test_auto_never_chooses_a_slower_precision(cost: float, expected: str) -> None:
    assert chosen_precision(a_plan("auto"), ProductSpeed(1.0, cost)) == expected
    assert chosen_precision(a_plan("auto"), None) == "float32", "nothing was measured"
    assert chosen_precision(a_plan("bfloat16"), ProductSpeed(1.0, cost)) == "bfloat16"  # as asked


def test_a_run_measures_the_cost_of_bfloat16_and_records_what_auto_became(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = resolve(pretraining(training={"precision": "auto", "steps": 2, "batch_size": 4}), None)
    seen: dict[float, str] = {}
    for cost in (0.5, 3.0):
        observer, folder = Remembering(), tmp_path / str(cost)
        folder.mkdir()
        speed = ProductSpeed(50.0, cost)
        monkeypatch.setattr(run_module, "product_speed", lambda plan, clock, speed=speed: speed)
        run(spec, (), folder, observer, "cpu")
        (started,) = observer.of(Started)
        measured = started.environment
        assert (measured.product_gflops, measured.bfloat16_cost) == (50.0, cost)
        seen[cost] = started.environment.precision
    assert seen == {0.5: "bfloat16", 3.0: "float32"}


def test_the_measured_product_is_the_largest_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it is small: up to 128 rows, and 512 features either way."""
    sizes: list[tuple[int, ...]] = []

    def seconds(x: torch.Tensor, matrix: torch.Tensor, clock: Clock) -> float:
        sizes.append((*x.shape, *matrix.shape))
        return 3e-6 if x.dtype == torch.bfloat16 else 1e-6

    product_speed_module._measured.cache_clear()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(product_speed_module, "_seconds", seconds)
    plan = a_plan("auto")
    assert product_speed_module.product_speed(plan, None) is None, "nothing to measure with"
    speed = product_speed_module.product_speed(plan, perf_counter)
    rows = 3 * plan.task.sequence_length()
    assert speed is not None
    assert (speed.gflops, speed.bfloat16_cost) == pytest.approx((4 * rows * 12 * 48 / 1e3, 3.0))
    assert len(sizes) == 4, "one round is enough if it is clearly slower"
    assert set(sizes) <= {(rows, 12, 48, 12), (rows, 48, 12, 48)}
    product_speed_module._measured.cache_clear()  # pyright: ignore[reportPrivateUsage]
