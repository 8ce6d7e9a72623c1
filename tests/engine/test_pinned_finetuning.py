"""The tensors that pinned fine-tuning freezes: those of first attention."""

import pytest
import torch
from tests.engine.making import (
    SMALL_OF_EACH,
    adaptation,
    base_tensors,
    items,
    perturbed,
    trainables,
)
from torch import Tensor

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.errors import InvalidSpec
from adaptlab.families.llama import Llama
from adaptlab.families.minigpt import MiniGPT

every_family = pytest.mark.parametrize("family", SMALL_OF_EACH)


def first_pattern(plan: Plan, base: dict[str, Tensor], trained: dict[str, Tensor]) -> Tensor:
    recorder = LayerRecorder()
    Model(plan, base, trained).logits(items(plan).tokens, slice(None), recorder)
    return recorder.relative[0]


@every_family
def test_the_pattern_depends_on_every_tensor_that_is_frozen_and_on_no_other(family: str):
    plan = adaptation("full_finetuning", family=SMALL_OF_EACH[family])
    base = base_tensors(plan)
    start = trainables(plan, base).tensors
    moved = perturbed(plan, start)
    before = first_pattern(plan, base, dict(start))
    changing = {
        name
        for name in start
        if (first_pattern(plan, base, {**start, name: moved[name]}) - before).abs().max() > 1e-9
    }
    # A bias of the keys adds the same to every score of a row, unless positions turn it.
    constant = {"blocks.0.attn.k.bias"} if family not in ("llama", "transformers") else set[str]()
    assert changing == plan.shape.first_attention - constant
    free = adaptation("pinned_finetuning", family=SMALL_OF_EACH[family]).trained_shapes
    assert set(free) - set(plan.shape.tied) == set(start) - plan.shape.first_attention


def test_a_tied_head_is_untied_so_that_the_embedding_stays():
    family = Llama(layers=1, heads=2, key_value_heads=1, width=8, tied_head=True)
    plan = adaptation("pinned_finetuning", family=family)
    base = base_tensors(plan)
    start = trainables(plan, base).tensors
    assert "embed.weight" not in start
    assert torch.equal(start["unembed.weight"], base["embed.weight"])
    before = first_pattern(plan, base, dict(start))
    assert torch.equal(first_pattern(plan, base, perturbed(plan, start)), before)


def test_a_model_without_attention_has_nothing_to_pin():
    with pytest.raises(InvalidSpec) as refused:
        adaptation("pinned_finetuning", family=MiniGPT(layers=1, width=8, attention="none"))
    (problem,) = refused.value.problems
    assert (problem.code, problem.nearest) == ("no_attention", ("full_finetuning",))
