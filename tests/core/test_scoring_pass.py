"""How many items a model scores at once."""

import pytest

from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.scoring_pass import (
    FEATURES_AT_ONCE,
    KEPT_AT_ONCE,
    items_at_once,
    items_kept_at_once,
)

SHARED = (
    Llama(layers=30, heads=9, key_value_heads=3, width=576, head_size=64, hidden=1536)
    .resolved(49_152, 2048)
    .shape()
)
SMALL = MiniGPT(layers=2, heads=2, width=64).resolved(vocabulary=17, context=40).shape()
MANY_WORDS = GPT2(layers=1, heads=1, width=64).resolved(vocabulary=50_000, context=64).shape()
WIDE = GPT2(layers=1, heads=16, width=4096).resolved(vocabulary=100, context=64).shape()


def test_a_small_model_takes_a_fixed_number_of_tokens() -> None:
    assert items_at_once(SMALL, replicates=1, tokens=16, answers=8) == 2**16 // 16
    assert items_at_once(SMALL, replicates=8, tokens=16, answers=8) == 2**16 // 16 // 8


@pytest.mark.parametrize(
    ("shape", "features"), [(MANY_WORDS, 8 * 50_000), (WIDE, 16 * 4 * 4096)], ids=["words", "wide"]
)
def test_a_large_product_takes_fewer(shape: ModelShape, features: int) -> None:
    items = items_at_once(shape, replicates=4, tokens=16, answers=8)
    assert 0.9 * FEATURES_AT_ONCE < 4 * items * features <= FEATURES_AT_ONCE
    assert items_at_once(shape, replicates=10_000, tokens=16, answers=8) == 1, "at least one"


def test_keys_and_values_that_are_kept_have_their_own_limit() -> None:
    items = items_kept_at_once(SHARED, replicates=5, tokens=64)
    kept = 2 * 30 * 3 * 64 * 64 * 5
    assert items * kept <= KEPT_AT_ONCE < (items + 1) * kept
    assert items_kept_at_once(SHARED, replicates=1, tokens=10**6) == 1, "at least one"
