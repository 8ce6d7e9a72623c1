"""Methods that add what queries read of learned sums, rows or keys."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import AdaptionPromptConfig, get_peft_model
from tests.engine.making import (
    SMALL_OF_EACH,
    adaptation,
    base_tensors,
    items,
    perturbed,
    sized,
    trainables,
)
from tests.engine.peft_adapters import drawn, exported, imported, written
from tests.engine.published import gpt2, llama, pair
from torch import Tensor

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.methods.ntk_attention import attach, features
from adaptlab.engine.models.attachments import AttentionRead
from adaptlab.engine.models.model import Model
from adaptlab.errors import InvalidSpec, NoPeftForm
from adaptlab.methods.llama_adapter import LlamaAdapter
from adaptlab.methods.ntk_attention import NtkAttention
from adaptlab.plugins.shapes import ModelShape, Site
from adaptlab.theory.observation import random_attachments, random_base
from adaptlab.theory.trained_attention import moved

P = 3
QUERIES = Site("blocks.0.attn.queries", "attention_queries", 4, 4, 0)
WHOLE = slice(None)
FAMILIES = ("minigpt", "llama", "transformers")


def recorded(
    model: Model, tokens: Tensor, *, attached: bool = True
) -> tuple[LayerRecorder, Tensor]:
    """The patterns of a model, and its logits."""
    recorder = LayerRecorder()
    passed = model.logits if attached else model.base_logits
    return recorder, passed(tokens, WHOLE, recorder)


def learned(model: str | dict[str, object], family: str) -> tuple[Model, Tensor]:
    """A perturbed model of a method, and tokens."""
    plan = adaptation(model, family=SMALL_OF_EACH[family])
    base = base_tensors(plan)
    return Model(plan, base, perturbed(plan, trainables(plan, base).tensors)), items(plan).tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_ntk_attention_divides_attention_to_the_content_by_one_factor(family: str):
    """The theorem about prefixes, word for word."""
    model, tokens = learned("ntk_attention", family)
    raised = {n: t + 7 * n.endswith(".keys") for n, t in model.trained.items()}
    model = replace(model, trained=raised)  # so that the sums take a part that matters
    before, plain = recorded(model, tokens, attached=False)
    after, found = recorded(model, tokens)
    first, share = before.patterns[0], after.patterns[0][..., :1]
    assert (share > 0.01).all()
    assert (share < 0.99).any()
    assert torch.allclose(after.patterns[0][..., 1:], (1 - share) * first, rtol=0, atol=1e-12)
    assert share.std() > 1e-2, "the share depends on the query"
    assert (found - plain).abs().max() > 0.05


def test_ntk_attention_is_a_prefix_where_exponentials_are_products_of_features():
    """One head by hand: Σ φ(p)ᵀu and Σ φ(p) stand for a prefix."""
    generator = torch.Generator().manual_seed(2)
    method, shape = NtkAttention(), ModelShape("one", 4, 1, 1, 4, 8, 8, {QUERIES.name: QUERIES})

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    queries, keys, values = (drawn(1, 1, 1, count, 4) for count in (5, 7, 7))
    rows, added = drawn(6, 4), drawn(6, 4)
    scores = queries @ keys.transpose(-1, -2)
    of_rows = features(rows[None, None, None])[0, 0, 0]
    sums = {"values": of_rows.T @ added, "keys": of_rows.sum(0).expm1().log()}
    tensors = {f"{QUERIES.name}.{part}": tensor[None, None] for part, tensor in sums.items()}
    read = AttentionRead(queries, (scores.softmax(-1) @ values)[:, :, 0], scores.logsumexp(-1))
    found, share = attach(method, shape, tensors).queries[QUERIES.name](read)
    of_prefix = features(queries) @ of_rows.T  # in place of exp(q·p)
    weights = torch.cat([of_prefix, scores.exp()], -1)
    weights = weights / weights.sum(-1, keepdim=True)
    expected = weights @ torch.cat([added.expand(1, 1, 1, -1, -1), values], -2)
    assert torch.allclose(found, expected[:, :, 0], rtol=0, atol=1e-12)
    assert share is not None
    assert torch.allclose(share, weights[..., :6].sum(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["prefix_tuning_plus", "llama_adapter"])
def test_outside_of_the_softmax_attention_does_not_change_at_all(method: str, family: str):
    knob = "rows" if method == "prefix_tuning_plus" else "length"
    model, tokens = learned({"name": method, knob: P}, family)
    before, _ = recorded(model, tokens, attached=False)
    after, _ = recorded(model, tokens)
    assert torch.allclose(after.patterns[0], before.patterns[0], rtol=0, atol=1e-12)
    assert (after.patterns[1] - before.patterns[1]).abs().max() > 1e-5
    plan = model.plan
    start = Model(plan, model.base, trainables(plan, dict(model.base)).tensors)
    plain = start.base_logits(tokens, WHOLE)
    assert torch.allclose(start.logits(tokens, WHOLE), plain, rtol=0, atol=1e-12)


def peft_adapter(theirs: Any, layers: int) -> Any:
    """A Llama with the adaption prompts of `peft` in its upper layers."""
    config = AdaptionPromptConfig(
        target_modules="self_attn", adapter_len=P, adapter_layers=layers, task_type="CAUSAL_LM"
    )
    return get_peft_model(theirs, config)


@pytest.mark.parametrize("layers", [None, 1])
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_llama_adapter_computes_what_peft_does(layers: int | None, tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    shape, method = both.ours.family.shape(), LlamaAdapter(length=P, layers=layers)
    base = both.ours.tensors
    model = peft_adapter(both.theirs, len(method.adapted(shape)))
    pairs: dict[str, Any] = {}
    for number, site in enumerate(method.adapted(shape)):
        module = model.base_model.model.model.layers[site.layer].self_attn
        module.adaption_gate.data.fill_(0.3 + number)
        pairs |= {
            f"{site.name}.rows": module.adaption_prompt,
            f"{site.name}.gate": module.adaption_gate,
        }
    own = {n: p.detach().clone().view(method.tensors(shape)[n].shape) for n, p in pairs.items()}
    leaves = {name: tensor.requires_grad_() for name, tensor in own.items()}
    frozen = {n: base[s.initialiser.source] for n, s in method.companions(shape).items()}
    ours, theirs = both.adapted(method, leaves | frozen), model(both.tokens()).logits
    assert (ours - both.logits()).abs().max() > 0.05
    assert (ours - theirs).abs().max() < 1e-5
    target = torch.linspace(-1, 1, ours.numel()).view_as(ours)
    (ours * target).sum().backward()
    (theirs * target).sum().backward()
    for name, leaf in leaves.items():
        assert leaf.grad is not None
        expected = pairs[name].grad.view_as(leaf)
        assert (leaf.grad - expected).abs().max() < 1e-5 * max(1, float(expected.abs().max()))


@pytest.mark.parametrize("name", ["ntk_attention", "prefix_tuning_plus", "llama_adapter"])
@pytest.mark.parametrize("family", FAMILIES)
def test_theory_finds_relative_attention_unmoved_in_every_layer(name: str, family: str):
    """With equal inputs, also of deeper layers."""
    method = sized(name)
    base = random_base(SMALL_OF_EACH[family].resolved(8, 9), seed=1)
    attached = random_attachments(base, method, seed=2)
    layers = moved(base, [torch.randint(8, (1, 3, 9))], attached)
    assert len(layers) == 2
    assert all(layer.sixth < 1e-9 for layer in layers)
    shares = [layer.most_taken for layer in layers]
    assert all((share > 0.01) == (name == "ntk_attention") for share in shares)


@pytest.mark.parametrize(
    ("method", "pointer", "nearest"),
    [
        ({"name": "prefix_tuning_plus", "rows": 7}, "/method/rows", (6,)),
        ({"name": "llama_adapter", "length": 2, "layers": 3}, "/method/layers", (2,)),
    ],
)
def test_a_size_that_no_head_or_layer_has_is_refused(
    method: dict[str, object], pointer: str, nearest: tuple[int, ...]
):
    with pytest.raises(InvalidSpec) as refused:
        adaptation(method)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.nearest) == (pointer, nearest)


def test_llama_adapter_comes_back_from_its_folder(tmp_path: Path):
    both = pair(llama, tmp_path / "base", double=False)
    method = LlamaAdapter(length=P, layers=1)
    tensors = drawn(method, both)
    back = imported(both, written(tmp_path / "back", exported(both, method, tensors)))
    assert back.method == method
    assert all(np.array_equal(back.tensors[name], tensor) for name, tensor in tensors.items())
    other = pair(gpt2, tmp_path / "gpt2", double=False)
    with pytest.raises(NoPeftForm, match="behind W_O"):
        exported(other, method, drawn(method, other))
