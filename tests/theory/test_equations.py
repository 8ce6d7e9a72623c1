"""Equations 6 and 7 against sums by hand, on every family."""

import math

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments, merged
from adaptlab.errors import AdaptlabError
from adaptlab.families.minigpt import MiniGPT
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.family import Family
from adaptlab.theory.check import Check
from adaptlab.theory.equations import equations_6_and_7, queries_break_equation_6
from adaptlab.theory.observation import FrozenBase, observe, random_attachments, random_base
from adaptlab.theory.prefix_effect import prefix_effects

TOKENS = torch.arange(2 * 9).view(1, 2, 9) * 5 % 8
BASES: dict[str, Family] = SMALL_OF_EACH | {
    "three-layers": MiniGPT(layers=3, heads=3, width=12, attention_norm=False),
    "pads": MiniGPT(layers=2, heads=2, width=12, pad_positions=2),
    "bidirectional": MiniGPT(layers=2, heads=2, width=12, attention="bidirectional"),
}
every_base = pytest.mark.parametrize("family", BASES)


def base_of(family: str) -> FrozenBase:
    return random_base(BASES[family].resolved(8, 9), seed=1)


def verdicts(checks: tuple[Check, ...]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


BOTH_HOLD = {
    "equation-6.first-layer": "holds",
    "equation-7.first-layer": "holds",
    "equation-6.deeper-layers": "holds",
    "equation-7.deeper-layers": "holds",
}


@pytest.mark.long("every combination", but="each")
@every_base
@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("side", ["input", "key_value"])
def test_both_hold_for_any_prefix(family: str, length: int, side: str):
    base = base_of(family)
    method = PrefixTuning.model_validate({"length": length, "side": side})
    if side == "key_value" and not base.family.shape().layer_sites("attention_keys_values"):
        pytest.skip("keys and values of this base have different widths")
    checks = equations_6_and_7(base, TOKENS, random_attachments(base, method, seed=2))
    assert verdicts(checks) == BOTH_HOLD
    for check in checks:
        assert check.measured < 1e-14
        assert check.details["least_taken"] != check.details["most_taken"]


@pytest.mark.parametrize("length", [1, 3])
def test_the_parts_are_the_sums_of_the_paper(length: int):
    family = MiniGPT(layers=1, heads=1, width=6, attention_norm=False).resolved(8, 9)
    base = random_base(family, seed=3)
    prefix = random_attachments(base, PrefixTuning(length=length), seed=4)
    (effect,) = prefix_effects(base, TOKENS, prefix)
    (rows,) = prefix.attention_inputs.values()
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    x = weights["embed.weight"][TOKENS[0, 1]] + weights["positions.weight"]
    for i in range(9):
        exponents = [score(weights, x[i], s) for s in (*rows[0], *x[: i + 1])]
        total = sum(exponents)
        alpha = sum(exponents[:length]) / total
        content = sum(
            (e / (total * (1 - alpha)) * value(weights, x[j])
             for j, e in enumerate(exponents[length:])),
            torch.zeros(6).double(),
        )  # fmt: skip
        added = sum(
            (e / total * value(weights, s)
             for e, s in zip(exponents[:length], rows[0], strict=True)),
            torch.zeros(6).double(),
        )  # fmt: skip
        assert effect.taken[0, 1, 0, i].item() == pytest.approx(alpha, abs=1e-13)
        assert torch.allclose(effect.content[0, 1, 0, i], content, atol=1e-13)
        assert torch.allclose(effect.addition[0, 1, 0, i], added, atol=1e-13)


def score(weights: dict[str, Tensor], query: Tensor, key: Tensor) -> float:
    """Exp of the scaled score of one head of six features."""
    q, k = (
        weights[f"blocks.0.attn.{part}.weight"] @ x + weights[f"blocks.0.attn.{part}.bias"]
        for part, x in (("q", query), ("k", key))
    )
    return math.exp(float(q @ k) / math.sqrt(6))


def value(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return weights["blocks.0.attn.v.weight"] @ x + weights["blocks.0.attn.v.bias"]


def with_lora(base: FrozenBase, site: str) -> Attachments:
    """A prefix and a low-rank update of one part of attention."""
    prefix = random_attachments(base, PrefixTuning(length=2), seed=2)
    return merged([prefix, random_attachments(base, Lora(rank=1, sites=(site,)), seed=5)])


@every_base
def test_an_update_of_queries_or_keys_breaks_the_sixth(family: str):
    base = base_of(family)
    for site in ("attn.q", "attn.k"):
        found = verdicts(equations_6_and_7(base, TOKENS, with_lora(base, site)))
        assert found["equation-6.first-layer"] == "fails"
        assert found["equation-6.deeper-layers"] == "fails"


@every_base
def test_an_update_of_values_breaks_the_seventh_alone(family: str):
    base = base_of(family)
    found = verdicts(equations_6_and_7(base, TOKENS, with_lora(base, "attn.v")))
    assert found == {
        "equation-6.first-layer": "holds",
        "equation-7.first-layer": "fails",
        "equation-6.deeper-layers": "holds",
        "equation-7.deeper-layers": "fails",
    }


@every_base
def test_the_negative_sees_lora_on_queries_and_nothing_where_there_is_none(family: str):
    base = base_of(family)
    lora = Lora(rank=1, sites=("attn.q",))
    broken = queries_break_equation_6(base, TOKENS, random_attachments(base, lora, seed=5))
    assert broken.verdict == "holds"
    assert broken.measured > 1e-2
    whole = queries_break_equation_6(base, TOKENS, random_attachments(base, lora, 5, spread=0))
    assert whole.verdict == "fails"
    assert whole.measured < 1e-14
    prefix = random_attachments(base, PrefixTuning(length=2), seed=2)
    assert queries_break_equation_6(base, TOKENS, prefix).verdict == "fails"


def test_the_negative_sees_lora_on_a_base_with_weights_as_small_as_at_the_start():
    family = MiniGPT(layers=6, heads=2, width=24).resolved(8, 9)
    base = random_base(family, seed=1, spread=0.02)
    lora = Lora(rank=1, sites=("attn.q",))
    assert (
        queries_break_equation_6(base, TOKENS, random_attachments(base, lora, 5)).verdict == "holds"
    )


def test_deeper_layers_change_where_their_input_is_not_held_equal():
    base = base_of("gpt2")
    prefix = random_attachments(base, PrefixTuning(length=2), seed=2)
    before, after = observe(base, TOKENS), observe(base, TOKENS, prefix)
    assert torch.allclose(before[0].relative, after[0].relative, atol=1e-14)
    assert (before[1].relative - after[1].relative).abs().max() > 1e-2
    held = prefix_effects(base, TOKENS, prefix)[1]
    assert torch.equal(held.before.source, held.after.source)
    assert (held.before.source - before[1].source).abs().max() > 1e-2


def test_replicates_of_bases_and_prefixes_are_checked_together():
    family = SMALL_OF_EACH["llama"].resolved(8, 9)
    one, other = random_base(family, 1), random_base(family, 2)
    weights = {name: torch.cat([one.weights[name], other.weights[name]]) for name in one.weights}
    base = FrozenBase(family, weights)
    several = [random_attachments(base, PrefixTuning(length=2), seed=s) for s in range(4)]
    rows = {
        site: torch.cat([each.attention_inputs[site] for each in several])
        for site in several[0].attention_inputs
    }
    effect = prefix_effects(base, TOKENS, Attachments(attention_inputs=rows))[1]
    alone = prefix_effects(other, TOKENS, several[3])[1]
    assert torch.allclose(effect.addition[3], alone.addition[0], atol=1e-13)
    checks = equations_6_and_7(base, TOKENS, Attachments(attention_inputs=rows))
    assert verdicts(checks) == BOTH_HOLD


def test_what_is_no_prefix_is_refused():
    base = base_of("minigpt")
    prompt = random_attachments(base, SoftPrompt(length=2), seed=1)
    with pytest.raises(AdaptlabError, match="give a prefix"):
        equations_6_and_7(base, TOKENS, prompt)
    none = random_base(MiniGPT(layers=1, attention="none").resolved(8, 9), seed=1)
    with pytest.raises(AdaptlabError, match="0 attention layers"):
        observe(none, TOKENS)
