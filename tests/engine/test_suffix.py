"""Visibility of a suffix, and its place in records."""

from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    SMALL_OF_EACH,
    adaptation,
    base_tensors,
    items,
    one_layer,
    perturbed,
    rounding,
    trainables,
)
from tests.engine.published import llama, pair, qwen2, their_output

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.model import Model
from adaptlab.plugins.family import FAMILIES

every_scope = pytest.mark.parametrize("scope", ["per_layer", "input_only"])
every_family = pytest.mark.parametrize("family", FAMILIES.names())


@every_family
@every_scope
def test_a_suffix_leaves_the_question_alone_and_the_first_answer_sees_it(scope: str, family: str):
    plan = adaptation(
        {"name": "suffix_tuning", "length": 2, "scope": scope}, family=SMALL_OF_EACH[family]
    )
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    plain = model.base_logits(made.tokens, slice(None))
    moved = model.logits(made.tokens, slice(None)) - plain
    by_position = moved.abs().amax((0, 1, 3))
    asked = plan.task.input_length() - 1  # the last digit of the question gives the first answer
    # The suffix's empty columns lengthen the sums of a softmax, which may change their order.
    assert by_position[:asked].max() <= rounding(plain)
    assert by_position[asked:].min() > 1e-3


@every_family
@every_scope
def test_its_columns_come_first_and_are_empty_for_the_question(scope: str, family: str):
    plan = adaptation(
        {"name": "suffix_tuning", "length": 2, "scope": scope}, family=SMALL_OF_EACH[family]
    )
    base, made, recorder = base_tensors(plan), items(plan), LayerRecorder()
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    model.logits(made.tokens, slice(None), recorder)
    asked, length = plan.task.input_length() - 1, made.tokens.shape[-1]
    for pattern, relative in zip(recorder.patterns, recorder.relative, strict=True):
        assert pattern.shape[-1] == 2 + length
        assert pattern[..., :asked, :2].max() == 0
        assert pattern[..., asked:, :2].min() > 0
        content = pattern[..., 2:] / pattern[..., 2:].sum(-1, keepdim=True)
        assert torch.allclose(content, relative, rtol=0, atol=1e-12)


@every_family
@every_scope
def test_all_rows_and_answer_rows_alone_agree_about_where_the_answer_starts(
    scope: str, family: str
):
    plan = adaptation(
        {"name": "suffix_tuning", "length": 2, "scope": scope}, family=SMALL_OF_EACH[family]
    )
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    asked = plan.task.input_length() - 1
    every = model.logits(made.tokens, slice(None))[:, :, asked:]
    answers = model.logits(made.tokens, slice(asked, made.tokens.shape[-1]))
    assert torch.allclose(every, answers, rtol=0, atol=1e-12)


@every_family
def test_in_one_layer_a_virtual_token_after_the_question_is_a_row_of_a_suffix(family: str):
    rows, tokens = (
        adaptation(
            {"name": "suffix_tuning", "length": 3, "scope": scope},
            family=one_layer(SMALL_OF_EACH[family]),
        )
        for scope in ("per_layer", "input_only")
    )
    base, made = base_tensors(rows), items(rows)
    trained = perturbed(rows, trainables(rows, base).tensors)
    expected = Model(rows, base, trained).logits(made.tokens, slice(None))
    virtual = {"embed.suffix": trained["blocks.0.attn.input"]}
    found = Model(tokens, base, virtual).logits(made.tokens, slice(None))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@every_family
def test_its_virtual_tokens_see_the_question_and_never_the_answer(family: str):
    plan = adaptation(
        {"name": "suffix_tuning", "length": 2, "scope": "input_only"}, family=SMALL_OF_EACH[family]
    )
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    before = model.logits(made.tokens, slice(None))
    for place in range(made.tokens.shape[-1]):
        other = made.tokens.clone()
        other[..., place] = (other[..., place] + 1) % 6
        same = (model.logits(other, slice(None)) == before).all(-1).flatten(0, 1).all(0)
        # a token is seen from its own position on, and virtual tokens add no way back
        assert same.tolist() == [position < place for position in range(len(same))], place


@pytest.mark.parametrize("model", [llama, qwen2], ids=["llama", "qwen2"])
def test_with_rotary_positions_its_virtual_tokens_agree_with_the_library(model, tmp_path: Path):
    """`transformers` gets the virtual tokens behind the content.

    The mask and the positions are of our making.
    """
    both, count, start = pair(model, tmp_path, double=True), 3, 4
    generator = torch.Generator().manual_seed(7)
    late = torch.randn(count, 24, generator=generator, dtype=torch.float64)
    attached = Attachments(late_prompt=late.unsqueeze(0), answer_start=start)
    tokens = both.tokens()
    samples, content = tokens.shape
    own = both.theirs.get_input_embeddings()(tokens)
    embedded = torch.cat([own, late.expand(samples, -1, -1)], 1)
    sees = torch.ones(content + count, content + count, dtype=torch.bool).tril()
    sees[:start, content:], sees[start:, content:] = False, True
    sees[content:, : start + 1], sees[content:, start + 1 :] = True, False
    sees[content:, content:] = torch.ones(count, count, dtype=torch.bool).tril()
    places = torch.cat([torch.arange(content), torch.arange(start + 1 - count, start + 1)])
    expected = their_output(
        both.theirs,
        None,
        double=True,
        inputs_embeds=embedded,
        attention_mask=torch.zeros(sees.shape).double().masked_fill(~sees, -torch.inf)[None, None],
        position_ids=places.unsqueeze(0),
    ).logits[:, :content]
    found = both.logits(attached)
    assert torch.allclose(found, expected, rtol=0, atol=1e-10)
    assert (found - both.logits()).abs().max() > 0.05
