"""The switches of miniGPT.

They are what attention sees, dropout, and pads before the content.
"""

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import (
    ANYWHERE,
    adaptation,
    base_tensors,
    items,
    perturbed,
    sized,
    trainables,
)
from tests.engine.plain import plain_logits

from adaptlab.engine.items.digits import make_items, target_rows
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.dropout import TrainingStep, dropped, training_step
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.errors import InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.family import Family
from adaptlab.plugins.hard_prompt import FluentPromptSearch
from adaptlab.specs.budget import solve, trainable_parameters
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec
from adaptlab.tasks.lookup import Lookup

BOTH = MiniGPT(layers=2, heads=2, width=12, attention="bidirectional")
NONE = MiniGPT(layers=2, heads=2, width=12, attention="none")
PADDED = MiniGPT(layers=2, heads=2, width=12, pad_positions=3)
WITH_DROPOUT = MiniGPT(layers=2, heads=2, width=12, dropout=0.4)


def made(method: object, family: Family, **changes: object):
    """Plan, base, trained tensors moved by noise, and tokens of three items."""
    plan = adaptation(method, family=family, **changes)  # type: ignore[arg-type]
    base = base_tensors(plan)
    trained = perturbed(plan, trainables(plan, base).tensors)
    return plan, base, trained, items(plan).tokens


def shown(plan: Plan, tokens: torch.Tensor) -> list[int]:
    """Return the model's input for one item: the question and the mask."""
    asked = plan.task.input_length()
    return [*tokens[:asked].tolist(), *[plan.shape.vocabulary] * (len(tokens) - asked)]


def one(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor[0] for name, tensor in tensors.items()}


SEEN_BY_ALL = ["full_finetuning", "prefix_tuning", "soft_prompt", "suffix-input-only"]


@pytest.mark.parametrize("name", SEEN_BY_ALL)
def test_without_the_mask_every_position_sees_all(name: str):
    plan, base, trained, tokens = made(sized(name).model_dump(mode="json"), BOTH)
    found = Model(plan, base, trained).logits(tokens, slice(None))
    w, t = one(base), one(trained)
    for sample in range(tokens.shape[1]):
        prompt, prefixes = t.get("embed.prompt"), None
        if name == "full_finetuning":
            w = t
        elif name == "prefix_tuning":
            prefixes = [t[f"blocks.{layer}.attn.input"] for layer in range(2)]
        read = shown(plan, tokens[0, sample])
        late, first = t.get("embed.suffix"), plan.task.input_length() - 1
        expected = plain_logits(
            BOTH, w, read, prompt=prompt, prefixes=prefixes, late_prompt=late, answer_start=first
        )
        assert torch.allclose(found[0, sample], expected, rtol=0, atol=1e-12)


def test_virtual_tokens_that_see_content_do_not_mix_samples():
    plan, base, trained, tokens = made({"name": "soft_prompt", "length": 2}, BOTH)
    model = Model(plan, base, trained)
    together = model.logits(tokens, slice(None))
    for sample in range(tokens.shape[1]):
        alone = model.logits(tokens[:, [sample]], slice(None))
        assert torch.allclose(alone[:, 0], together[:, sample], rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", ["all", "answers"])
def test_a_model_that_sees_all_is_not_shown_the_answer(rows: str):
    plan, base, trained, tokens = made("full_finetuning", BOTH)
    model, asked = Model(plan, base, trained), plan.task.input_length()
    wanted = slice(None) if rows == "all" else target_rows(plan.task)
    other = tokens.clone()
    other[..., asked:] = (other[..., asked:] + 1) % 6
    assert torch.equal(model.logits(tokens, wanted), model.logits(other, wanted))
    other[..., 0] = (other[..., 0] + 1) % 6
    assert not torch.allclose(model.logits(tokens, wanted), model.logits(other, wanted))


def test_the_mask_has_a_row_of_its_own_in_the_embedding_and_none_in_the_head():
    shape = BOTH.resolved(8, 9).shape()
    assert shape.tensors["embed.weight"].shape == (9, 12)
    assert shape.tensors["unembed.weight"].shape == (8, 12)
    assert shape.vocabulary == 8


def test_without_attention_a_position_depends_on_its_own_token_alone():
    plan, base, trained, tokens = made("full_finetuning", NONE)
    model = Model(plan, base, trained)
    other = tokens.clone()
    other[..., 2] = (other[..., 2] + 1) % 6
    before, after = (model.logits(t, slice(None)) for t in (tokens, other))
    same = (before == after).all(-1)[0, 0]
    assert same.tolist() == [position != 2 for position in range(tokens.shape[-1])]
    cut = model.logits(tokens, target_rows(plan.task))
    assert torch.allclose(cut, before[:, :, target_rows(plan.task)], rtol=0, atol=1e-12)


def test_without_attention_logits_are_those_of_the_plain_model():
    plan, base, trained, tokens = made({"name": "adapter", "bottleneck": 2}, NONE)
    base_logits = Model(plan, base, trained).base_logits(tokens, slice(None))
    expected = plain_logits(NONE, one(base), tokens[0, 0].tolist())
    assert torch.allclose(base_logits[0, 0], expected, rtol=0, atol=1e-12)
    assert not any(".attn" in name for name in {**plan.shape.tensors, **plan.shape.sites})


@pytest.mark.parametrize("name", ["prefix_tuning", "soft_prompt", "attention_bias", "lora"])
def test_methods_that_need_attention_are_refused_without_it(name: str):
    with pytest.raises(InvalidSpec) as refused:
        adaptation(sized(name).model_dump(mode="json"), family=NONE)
    assert refused.value.problems[0].pointer in ("/method/name", "/method/sites/0")


def test_an_adapter_after_attention_that_is_not_there_is_refused_and_not_halved():
    with pytest.raises(InvalidSpec) as refused:
        adaptation({"name": "adapter", "bottleneck": 2, "after": ["mlp", "attn"]}, family=NONE)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.nearest) == ("/method/after/1", ("mlp",))
    adaptation({"name": "adapter", "bottleneck": 2, "after": ["mlp"]}, family=NONE)


@pytest.mark.parametrize("family", [BOTH, MiniGPT(layers=2, heads=2, width=12)])
def test_the_task_says_where_the_answer_starts_and_not_the_rows_asked_for(family: Family):
    """Here the own task asks five digits, and the other one two."""
    plan, base, trained, _ = made({"name": "suffix_tuning", "length": 2}, family)
    model, other = Model(plan, base, trained), Lookup(alphabet=6, answer_length=4)
    tokens = make_items(other, "test", plan.seeds, 0, 3).tokens
    rows = target_rows(other)
    every, answers = (model.logits(tokens, some, task=other) for some in (slice(None), rows))
    assert torch.allclose(every[:, :, rows], answers, rtol=0, atol=1e-12)
    assert not torch.allclose(model.logits(tokens, rows), answers)
    every, answers = (model.base_logits(tokens, some, task=other) for some in (slice(None), rows))
    assert torch.allclose(every[:, :, rows], answers, rtol=0, atol=1e-12)
    right = outcomes(model, other, "test", 40, plan.replicates)
    items = make_items(other, "test", torch.tensor([0]), 0, 40)
    found = model.logits(items.tokens, slice(None), task=other)[:, :, rows].argmax(-1)
    assert torch.equal(right, (found == items.targets).all(-1))


def test_the_baseline_that_trains_nothing_is_not_refused():
    adaptation("frozen", family=NONE)


def test_attention_that_is_not_there_cannot_be_captured():
    spec = {
        "name": "tiny",
        "family": {"name": "minigpt", "attention": "none"},
        "task": {"name": "sort_ascending", "length": 4},
        "capture": {"attention": {"samples": 1}},
    }
    with pytest.raises(InvalidSpec) as refused:
        resolve(PretrainSpec.model_validate(spec), None)
    assert refused.value.problems[0].pointer == "/capture/attention"


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", [n for n in ANYWHERE if n != "frozen"])
@pytest.mark.parametrize("family", [BOTH, NONE, PADDED], ids=["both", "none", "padded"])
def test_a_method_counts_right_and_changes_the_model_or_is_refused(name: str, family: Family):
    method, shape = sized(name), family.resolved(8, 9).shape()
    if isinstance(method, FluentPromptSearch):  # which needs a model that predicts the next token
        method = method.model_copy(update={"fluency": 0.0})
    try:
        solve(method, shape, None)
    except InvalidSpec:
        if family is NONE:
            return
        raise
    plan, base, trained, tokens = made(method.model_dump(mode="json"), family)
    model = Model(plan, base, trained)
    assert sum(t[0].numel() for t in trained.values()) == trainable_parameters(method, shape)
    plain = model.base_logits(tokens, slice(None))
    assert not torch.allclose(model.logits(tokens, slice(None)), plain)


# Pads


def padded_logits(w: dict[str, torch.Tensor], tokens: list[int]) -> torch.Tensor:
    """Return the logits of content rows from the plain model.

    The model runs over pads and content alike, as the paper runs it.
    """
    pads = PADDED.pad_positions
    return plain_logits(PADDED, w, [0] * pads + tokens)[pads:]


def test_pads_are_tokens_zero_at_positions_of_their_own():
    plan, base, trained, tokens = made("frozen", PADDED)
    found = Model(plan, base, trained).logits(tokens, slice(None))
    assert plan.shape.context == 9
    assert plan.shape.tensors["positions.weight"].shape == (12, 12)
    for sample in range(tokens.shape[1]):
        expected = padded_logits(one(base), tokens[0, sample].tolist())
        assert torch.allclose(found[0, sample], expected, rtol=0, atol=1e-12)


def test_the_rows_of_a_prefix_take_the_place_of_the_pads():
    plan, base, trained, tokens = made({"name": "prefix_tuning", "length": 3}, PADDED)
    found = Model(plan, base, trained).logits(tokens, slice(None))
    w = one(base)
    w["positions.weight"] = w["positions.weight"][3:]  # content keeps its positions
    prefixes = [trained[f"blocks.{layer}.attn.input"][0] for layer in range(2)]
    expected = plain_logits(PADDED, w, tokens[0, 0].tolist(), prefixes=prefixes)
    assert torch.allclose(found[0, 0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", ["input", "key_value"])
def test_relative_attention_of_the_first_layer_is_equal_between_pads_and_a_prefix(side: str):
    plan, base, trained, tokens = made({"name": "prefix_tuning", "length": 3, "side": side}, PADDED)
    model, before, after = Model(plan, base, trained), LayerRecorder(), LayerRecorder()
    model.base_logits(tokens, slice(None), before)
    model.logits(tokens, slice(None), after)
    content = tokens.shape[-1]
    assert before.patterns[0].shape[-1] == content + 3
    assert after.patterns[0].shape[-1] == content + (3 if side == "input" else 6)
    assert torch.allclose(before.relative[0], after.relative[0], rtol=0, atol=1e-12)


# Dropout


def at(step: int, seeds: tuple[int, ...], first_item: int = 0) -> TrainingStep:
    return TrainingStep(torch.tensor(step), torch.tensor(seeds), first_item)


def test_dropout_zeroes_its_share_and_keeps_the_mean():
    x = torch.ones(2, 40, 25, 50, dtype=torch.float64)
    y = dropped(x, 0.3, at(0, (1, 2)), "here", 25, slice(None))
    zeros = (y == 0).double().mean((1, 2, 3))
    assert torch.allclose(zeros, torch.tensor(0.3).double(), atol=0.01)  # 4 standard errors: 0.008
    assert set(y.unique().tolist()) == {0.0, 1 / 0.7}


def test_a_draw_depends_on_seed_step_site_item_and_position_and_on_nothing_else():
    x = torch.ones(2, 4, 6, 5)
    whole = dropped(x, 0.5, at(3, (1, 2)), "here", 6, slice(None))
    assert torch.equal(dropped(x[:1], 0.5, at(3, (2,)), "here", 6, slice(None)), whole[1:])
    parts = [dropped(x[:, :2], 0.5, at(3, (1, 2), i), "here", 6, slice(None)) for i in (0, 2)]
    assert torch.equal(torch.cat(parts, 1), whole)
    cut = dropped(x[:, :, 2:5], 0.5, at(3, (1, 2)), "here", 6, slice(2, 5))
    assert torch.equal(cut, whole[:, :, 2:5])
    for other in (
        dropped(x, 0.5, at(4, (1, 2)), "here", 6, slice(None)),
        dropped(x, 0.5, at(3, (1, 2)), "there", 6, slice(None)),
        dropped(x, 0.5, at(3, (7, 8)), "here", 6, slice(None)),
    ):
        assert not torch.equal(other, whole)


def test_dropout_acts_in_training_only_and_not_on_a_frozen_base():
    plan, base, trained, tokens = made("full_finetuning", WITH_DROPOUT)
    step = training_step(plan, 0)
    assert step is not None
    model = Model(plan, base, trained)
    plain = model.logits(tokens, slice(None))
    assert not torch.allclose(model.logits(tokens, slice(None), training=step), plain)
    expected = plain_logits(WITH_DROPOUT, one(trained), tokens[0, 0].tolist())
    assert torch.allclose(plain[0, 0], expected, rtol=0, atol=1e-12)
    assert training_step(adaptation({"name": "lora", "rank": 1}, family=WITH_DROPOUT), 0) is None


def test_a_replicate_in_a_stack_drops_what_it_would_alone():
    plan, base, trained, tokens = made("full_finetuning", WITH_DROPOUT, base_replicates=3)
    step = training_step(plan, 5)
    assert step is not None
    rows = target_rows(plan.task)
    stacked = Model(plan, base, trained).logits(tokens, rows, training=step)
    again = Model(plan, base, trained).logits(tokens, slice(None), training=step)
    assert torch.allclose(again[:, :, rows], stacked, rtol=0, atol=1e-12)
    for replicate in range(3):
        own = {name: tensor[[replicate]] for name, tensor in trained.items()}
        alone_step = TrainingStep(step.step, step.seeds[[replicate]])
        alone = Model(plan, base, own).logits(tokens[[replicate]], rows, training=alone_step)
        assert torch.allclose(alone[0], stacked[replicate], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "family", [BOTH, MiniGPT(layers=2, heads=2, width=12)], ids=["both", "causal"]
)
@pytest.mark.parametrize("scope", ["per_layer", "input_only"])
def test_learned_positions_of_every_kind_at_once_do_not_mix_samples(family: Family, scope: str):
    """Virtual tokens that see content need keys of a sample's own.

    These are beside the keys that all samples share.
    """
    parts = [
        {"name": "soft_prompt", "length": 2},
        {"name": "prefix_tuning", "length": 1},
        {"name": "suffix_tuning", "length": 2, "scope": scope},
    ]
    plan, base, trained, tokens = made({"name": "combine", "parts": parts}, family)
    model = Model(plan, base, trained)
    together = model.logits(tokens, slice(None))
    alone = model.logits(tokens[:, [1]], slice(None))
    assert torch.allclose(alone[:, 0], together[:, 1], rtol=0, atol=1e-12)
