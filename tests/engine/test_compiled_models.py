"""Whole models computed by kernels, against torch in float64."""

import itertools
from collections.abc import Callable

import pytest
import torch
from tests.engine.making import (
    ANYWHERE,
    SMALL,
    SMALL_OF_EACH,
    VARIANTS,
    adaptation,
    base_tensors,
    items,
    perturbed,
    sized,
    trainables,
)
from torch import Tensor

from adaptlab.engine.models import decoder
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.dropout import training_step
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.engine.training.loss import mean_losses

pytestmark = pytest.mark.usefixtures("products")

NEVER = 10**9
PLACES = [
    *itertools.product(["minigpt"], [1, 2], [True, False]),
    *itertools.product(["gpt2", "llama"], [2], [True]),
]
"""Families, groups of the base, and whether the first layer is computed by token."""
TRAINED = [name for name in (*ANYWHERE, *VARIANTS) if sized(name).trains]
FUSED = {"_LinearBackward", "_MlpBackward", "_AttendedBackward", "_LossesBackward"}


def functions_of(loss: Tensor) -> set[str]:
    """Return the names of what a loss was computed by."""
    found, left = set[object](), [loss.grad_fn]
    while left:
        function = left.pop()
        if function is not None and function not in found:
            found.add(function)
            left.extend(further for further, _ in function.next_functions)
    return {type(function).__name__ for function in found}


def losses_and_gradients(
    plan_of: Callable[[str], Plan], groups: int, precision: str, step: int | None = None
) -> tuple[Tensor, list[Tensor]]:
    cast: Callable[[Tensor], Tensor] = Tensor.double if precision == "float64" else Tensor.float
    plan, exact = plan_of(precision), plan_of("float64")
    given = base_tensors(exact, groups)
    start = perturbed(exact, trainables(exact, given).tensors)
    trained = {name: cast(t.detach()).requires_grad_() for name, t in start.items()}
    model = Model(plan, {name: cast(t) for name, t in given.items()}, trained)
    at = None if step is None else training_step(plan, step)
    losses = mean_losses(model, items(plan, 40), plan.replicates, at)
    if not trained:
        return losses, []
    slopes = torch.autograd.grad(losses.sum(), list(trained.values()), retain_graph=True)
    return losses, list(slopes)


def agree(plan_of: Callable[[str], Plan], groups: int, step: int | None = None) -> Tensor:
    """Check kernels against torch, and return the losses by kernels."""
    expected, gradients = losses_and_gradients(plan_of, groups, "float64", step)
    losses, ours = losses_and_gradients(plan_of, groups, "float32", step)
    assert torch.allclose(losses.double(), expected, rtol=2e-5, atol=0)
    largest = max((float(each.abs().max()) for each in gradients), default=0.0)
    for one, right in zip(ours, gradients, strict=True):
        assert torch.allclose(one.double(), right, rtol=2e-3, atol=2e-5 * largest)
    return losses


@pytest.mark.long("every kernel", but="each")
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(("family", "groups", "by_token"), PLACES)
def test_losses_and_gradients_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, name: str, family: str, groups: int, by_token: bool
):
    method = sized(name).model_dump(mode="json")
    monkeypatch.setattr(decoder, "ITEMS_PER_TOKEN", 0 if by_token else NEVER)

    def plan_of(precision: str) -> Plan:
        return adaptation(
            method,
            family=SMALL_OF_EACH[family],
            base_replicates=2,
            tuning={"trials": 2},
            training={"precision": precision, "steps": 4, "batch_size": 3},
        )

    agree(plan_of, groups)


@pytest.mark.parametrize("pads", [0, 1])
def test_with_dropout_as_well(pads: int):
    family = SMALL.model_copy(update={"dropout": 0.3, "pad_positions": pads})

    def plan_of(precision: str) -> Plan:
        training = {"precision": precision, "steps": 4, "batch_size": 3}
        return adaptation("full_finetuning", family=family, training=training)

    losses = agree(plan_of, 1, step=3)
    assert functions_of(losses) >= {*FUSED, "_DroppedBackward"}


def test_a_model_from_scratch_is_computed_by_every_kernel():
    def plan_of(precision: str) -> Plan:
        training = {"precision": precision, "steps": 4, "batch_size": 3}
        return adaptation("full_finetuning", family=SMALL, training=training)

    losses, _ = losses_and_gradients(plan_of, 1, "float32")
    found = functions_of(losses)
    assert found >= FUSED
    assert not found & {"_NormBackward", "BmmBackward0"}, "left to torch"


class Patterns:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.found: list[Tensor] = []

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Keep the patterns of a layer."""
        self.found += [pattern.detach(), relative.detach()]


def test_a_recorder_is_given_the_patterns_of_every_layer():
    plan = adaptation(sized("prefix_tuning").model_dump(mode="json"), family=SMALL)
    given = base_tensors(plan)
    start = perturbed(plan, trainables(plan, given).tensors)
    patterns: list[list[Tensor]] = []
    for cast in (Tensor.double, Tensor.float):
        recorder = Patterns()
        base, trained = (
            {name: cast(tensor.detach()) for name, tensor in tensors.items()}
            for tensors in (given, start)
        )
        Model(plan, base, trained).logits(items(plan, 40).tokens, slice(None), recorder)
        patterns.append(recorder.found)
    assert len(patterns[0]) == len(patterns[1]) == 2 * SMALL.layers
    for exact, found in zip(*patterns, strict=True):
        assert torch.allclose(found.double(), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("site", ["attn", "attn.k", "attn.v", "attn.q", "attn.o", "mlp"])
def test_a_hook_of_a_layer_is_given_its_input_and_output(site: str):
    plan = adaptation("full_finetuning", family=SMALL)
    exact, tokens = base_tensors(plan), items(plan, 40).tokens[:1]
    hooks = {f"blocks.{SMALL.layers - 1}.{site}": lambda x, y: y.tanh() + x.sum(-1, keepdim=True)}
    forward, found = ENGINE_FAMILIES.get("minigpt"), list[Tensor]()
    for cast in (Tensor.double, Tensor.float):
        weights = {name: cast(tensor) for name, tensor in exact.items()}
        for attached in (Attachments(outputs=hooks), Attachments()):
            logits = forward(plan.family, weights, tokens, attached, slice(5, None), None, None)
            found.append(logits.double())
    changed, plain, ours, without = found
    assert torch.allclose(ours, changed, rtol=1e-3, atol=1e-4)
    assert torch.allclose(without, plain, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(ours, without, rtol=1e-2, atol=1e-2)


def test_a_hook_of_the_head_is_called():
    plan = adaptation("full_finetuning", family=SMALL)
    weights = {name: tensor.float() for name, tensor in base_tensors(plan).items()}
    attached = Attachments(outputs={"unembed": lambda x, y: torch.full_like(y, x.shape[-1])})
    forward = ENGINE_FAMILIES.get("minigpt")
    tokens = items(plan, 40).tokens[:1]
    logits = forward(plan.family, weights, tokens, attached, slice(None), None, None)
    assert logits.unique().tolist() == [SMALL.width]
