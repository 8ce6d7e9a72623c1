"""The dimensions of a prefix's span, their use, and its attention."""

from dataclasses import replace

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH

from adaptlab.engine.models.attachments import Attachments, merged
from adaptlab.errors import AdaptlabError
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.theory.observation import FrozenBase, random_attachments, random_base
from adaptlab.theory.prefix_effect import prefix_effects
from adaptlab.theory.span import (
    added_part_spans,
    attention_over_prefix,
    effective_rank,
    fraction_over_prefix,
    percentile_gap,
    span_use,
)

TOKENS = torch.arange(6 * 9).view(1, 6, 9) * 5 % 8
every_family = pytest.mark.parametrize("family", ["minigpt", "gpt2", "llama", "formal"])


def base_of(family: str) -> FrozenBase:
    return random_base(SMALL_OF_EACH[family].resolved(8, 9), seed=1)


def direct(base: FrozenBase, length: int, spread: float = 1.0) -> Attachments:
    """A prefix of learned keys and values."""
    return random_attachments(base, PrefixTuning(length=length, side="key_value"), 2, spread)


def with_keys(prefix: Attachments, keys: torch.Tensor) -> Attachments:
    pairs = {site: (keys.expand_as(k), v) for site, (k, v) in prefix.keys_values.items()}
    return replace(prefix, keys_values=pairs)


@every_family
@pytest.mark.parametrize("length", [1, 3])
def test_no_more_dimensions_than_rows(family: str, length: int):
    base = base_of(family)
    prefix = random_attachments(base, PrefixTuning(length=length), seed=2)
    check = added_part_spans(base, TOKENS, prefix)
    assert check.verdict == "holds"
    assert check.measured < 1e-14
    assert check.details["prefix_length"] == length
    ranks = check.details["effective_ranks"]
    assert isinstance(ranks, tuple)
    assert all(1 <= rank <= length + 1e-9 for rank in ranks)


@every_family
def test_an_update_of_values_leaves_the_span(family: str):
    base = base_of(family)
    prefix = random_attachments(base, PrefixTuning(length=2), seed=2)
    updated = random_attachments(base, Lora(rank=2, sites=("attn.v",)), seed=3)
    check = added_part_spans(base, TOKENS, merged([prefix, updated]))
    assert check.verdict == "fails"
    assert check.measured > 1e-3


def test_a_span_that_nothing_could_leave_is_refused():
    base = base_of("minigpt")  # heads of six dimensions
    prefix = random_attachments(base, PrefixTuning(length=6), seed=2)
    with pytest.raises(AdaptlabError, match=r"6 rows .* 6 dimensions"):
        added_part_spans(base, TOKENS, prefix)
    assert len(span_use(base, TOKENS, prefix)[0].singular_values) == 6


def test_use_is_that_of_the_matrix_of_added_parts():
    base = base_of("minigpt")
    prefix = direct(base, 3)
    effects = prefix_effects(base, TOKENS, prefix)
    for use in span_use(base, TOKENS, prefix):
        added = effects[use.layer].expected_addition[0, :, use.head].reshape(-1, 6)
        gram = torch.linalg.eigvalsh(added.T @ added).flip(0)[:3].clamp_min(0).sqrt()
        assert use.singular_values == pytest.approx(gram.tolist(), abs=1e-7)


def test_the_effective_rank_of_known_values():
    assert effective_rank((2.0, 2.0, 2.0)) == pytest.approx(3)
    assert effective_rank((5.0, 0.0)) == pytest.approx(1)
    assert effective_rank((0.0, 0.0)) == 0


def test_equal_values_use_one_dimension_of_many():
    base = base_of("gpt2")
    pairs = {s: (k, v[:, :1].expand_as(v)) for s, (k, v) in direct(base, 4).keys_values.items()}
    for use in span_use(base, TOKENS, Attachments(keys_values=pairs)):
        assert use.effective_rank == pytest.approx(1, abs=1e-6)


def test_the_gap_of_known_fractions():
    fractions = torch.linspace(0, 1, 101).double()
    both = torch.stack([fractions, 1 - fractions], -1).view(1, 101, 1, 2)
    assert percentile_gap(both).flatten().tolist() == pytest.approx([0.98, 0.98])
    assert fraction_over_prefix(torch.tensor([0.1, 0.3])).tolist() == pytest.approx([0.25, 0.75])
    assert fraction_over_prefix(torch.zeros(2)).tolist() == [0, 0]


def test_equal_keys_are_attended_alike_for_all_inputs():
    base = base_of("minigpt")
    check = attention_over_prefix(
        base, TOKENS, with_keys(direct(base, 4), torch.zeros(1, 1, 1).double())
    )
    assert check.verdict == "holds"
    assert check.measured < 1e-14
    assert check.details["largest_fraction_by_layer"] == pytest.approx((0.25, 0.25))


def test_long_keys_are_attended_by_input():
    base = base_of("minigpt")
    assert attention_over_prefix(base, TOKENS, direct(base, 4, spread=50)).verdict == "fails"


def test_one_position_cannot_be_attended_in_two_ways():
    base = base_of("minigpt")
    with pytest.raises(AdaptlabError, match="2 or more"):
        attention_over_prefix(base, TOKENS, direct(base, 1))
