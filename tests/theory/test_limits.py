"""Limits of sharpness and of tokens per float, against the algebra."""

import math

import pytest
import torch

from adaptlab.theory.constructions.conditional import longer_answers
from adaptlab.theory.constructions.construction import every_table, extreme_tables, mistakes
from adaptlab.theory.constructions.limits import (
    decoding_bound,
    first_decoding_failure,
    first_packing_failure,
    least_sharpness,
    packing_bound,
    sufficient_sharpness,
)
from adaptlab.theory.constructions.longer_questions import longer_questions
from adaptlab.theory.constructions.unconditional import unconditional


@pytest.mark.parametrize(("vocabulary", "length"), [(2, 3), (3, 3), (4, 2)])
def test_the_sharpness_said_to_suffice_does(vocabulary: int, length: int):
    enough = sufficient_sharpness(vocabulary, length + 1)
    assert math.exp(enough) == pytest.approx(length * (4 * vocabulary - 1))
    construction = unconditional(vocabulary, length, enough)
    assert mistakes(construction, every_table(construction)) == 0


def test_the_least_sharpness_is_where_mistakes_end():
    def build(sharpness: float):
        return longer_answers(2, 2, sharpness)

    least = least_sharpness(build)
    below, above = build(least - 0.01), build(least)
    assert mistakes(below, every_table(below)) > 0
    assert mistakes(above, every_table(above)) == 0
    assert 0 < least <= sufficient_sharpness(2, 4)


@pytest.mark.parametrize(
    ("dtype", "bits", "bound"),
    [(torch.float16, 11, 4), (torch.float32, 24, 7), (torch.float64, 53, 13)],
)
def test_as_many_digits_fit_as_the_bits_allow(dtype: torch.dtype, bits: int, bound: int):
    assert bound * math.log2(bound) <= bits - 1 < (bound + 1) * math.log2(bound + 1)
    assert packing_bound(dtype) == bound
    if dtype != torch.float64:  # which takes a second, and is a check of `theorems`
        assert first_packing_failure(dtype, maps=10, most=9) == bound + 1


def test_one_token_more_than_float64_holds_is_one_too_many():
    inside, outside = longer_questions(13), longer_questions(14)
    assert mistakes(inside, extreme_tables(inside)) == 0
    assert first_packing_failure(torch.float64, maps=1, most=3) is None
    assert mistakes(outside, extreme_tables(outside)) > 0


def test_the_decoder_fails_beyond_its_bound_and_not_before():
    bound = decoding_bound(torch.float16)
    assert first_decoding_failure(torch.float16, 2, bound) is None
    failure = first_decoding_failure(torch.float16, bound, 200)
    assert failure is not None
    assert failure > bound
    assert 10.5 * 2**-11 * bound**2 < 1 <= 10.5 * 2**-11 * (bound + 1) ** 2
