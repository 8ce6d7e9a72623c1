"""The first layer computed per token of the vocabulary against per item."""

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
from torch.nn import functional

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.models import decoder
from adaptlab.engine.models.dropout import training_step
from adaptlab.engine.models.model import Model

NEVER = 10**9
OWN_PASSES = ("formal", "transformers")
"""Families with a forward pass of their own, in which no layer is computed per token."""
FAMILIES = [name for name in SMALL_OF_EACH if name not in OWN_PASSES]


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", [*ANYWHERE, *VARIANTS])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_logits_and_gradients_are_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str, family: str, groups: int, shared: bool
):
    method = sized(name).model_dump(mode="json")
    plan = adaptation(method, family=SMALL_OF_EACH[family], base_replicates=2, tuning={"trials": 2})
    base = base_tensors(plan, groups)
    made = items(plan, 20)
    tokens = made.tokens[:: plan.trials] if shared else made.tokens
    weights = torch.randn(20, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found: list[list[Tensor]] = []
    for items_per_token in (NEVER, 0):
        monkeypatch.setattr(decoder, "ITEMS_PER_TOKEN", items_per_token)
        start = perturbed(plan, trainables(plan, base).tensors)
        trained = {n: tensor.requires_grad_() for n, tensor in start.items()}
        logits = Model(plan, base, trained).logits(tokens, target_rows(plan.task))
        logits = lifted(logits, plan.replicates)
        loss = (functional.log_softmax(logits, -1)[..., 0] * weights).sum()
        slopes = torch.autograd.grad(loss, list(trained.values())) if trained else ()
        found.append([logits.detach(), *slopes])
    for plain, once in zip(*found, strict=True):
        assert torch.allclose(plain, once, rtol=0, atol=1e-10)


def test_many_items_cost_the_first_layer_no_more_than_the_vocabulary(
    monkeypatch: pytest.MonkeyPatch,
):
    plan = adaptation("full_finetuning", family=SMALL)
    base = base_tensors(plan)
    seen: list[int] = []
    normal = decoder.Decoder.__init__
    made = items(plan, 40)

    def spying(self: decoder.Decoder, *arguments: object, **named: object) -> None:
        norm = named["norm"]

        def noted(x: Tensor, scale: Tensor, shift: Tensor | None) -> Tensor:
            seen.append(x.shape[1])
            return norm(x, scale, shift)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]

        normal(self, *arguments, **{**named, "norm": noted})  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(decoder.Decoder, "__init__", spying)
    Model(plan, base, trainables(plan, base).tensors).logits(made.tokens, slice(None))
    assert seen[0] == plan.shape.vocabulary
    assert seen[1:] == [40] * (len(seen) - 1)


def test_dropout_makes_every_item_its_own(monkeypatch: pytest.MonkeyPatch):
    family = SMALL.model_copy(update={"dropout": 0.3})
    plan = adaptation("full_finetuning", family=family)
    base, made = base_tensors(plan), items(plan, 20)
    found: list[Tensor] = []
    for items_per_token in (NEVER, 0):
        monkeypatch.setattr(decoder, "ITEMS_PER_TOKEN", items_per_token)
        model = Model(plan, base, trainables(plan, base).tensors)
        found.append(model.logits(made.tokens, slice(None), training=training_step(plan, 3)))
    assert torch.equal(*found)
    still = Model(plan, base, trainables(plan, base).tensors).logits(made.tokens, slice(None))
    assert not torch.allclose(found[0], still)
