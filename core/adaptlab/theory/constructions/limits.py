"""Limits of exact constructions: sharpness of attention, tokens per float."""

import math
from collections.abc import Callable

import torch

from adaptlab.theory.constructions.construction import (
    Construction,
    every_table,
    extreme_tables,
    mistakes,
    random_tables,
)
from adaptlab.theory.constructions.longer_questions import longer_questions
from adaptlab.theory.constructions.unconditional import unconditional


def sufficient_sharpness(vocabulary: int, positions: int) -> float:
    """Return the β that suffices for exact decoding over p positions.

    A head that should attend to one position leaks δ = (p−1)/(e^β + p−1) to others, which moves
    the number s to s − δ(1+s); that stays within 1/(2V) of s when e^β ≥ (p−1)(4V−1).
    """
    return math.log((positions - 1) * (4 * vocabulary - 1))


def least_sharpness(build: Callable[[float], Construction], width: float = 1e-3) -> float:
    """Return the least β, up to `width`, at which all tables are exact.

    `build` returns the construction for β; it must be exact at β = 64.
    """
    wrong, right = 0.0, 64.0
    while right - wrong > width:
        middle = (wrong + right) / 2
        construction = build(middle)
        if mistakes(construction, every_table(construction)):
            wrong = middle
        else:
            right = middle
    return right


def first_packing_failure(dtype: torch.dtype, maps: int, most: int) -> int | None:
    """Return the least V with a wrong two-token answer; None up to `most`.

    V is tried from 2 on, with the extreme tables and `maps` random ones.
    """
    for vocabulary in range(2, most + 1):
        construction = longer_questions(vocabulary)
        tables = torch.cat([extreme_tables(construction), random_tables(construction, maps)])
        if mistakes(construction, tables, dtype):
            return vocabulary
    return None


def first_decoding_failure(dtype: torch.dtype, least: int, most: int) -> int | None:
    """Return the least V with a decoding error; None up to `most`.

    All V tokens are tried for every V, in theorem 1 for sequences of one token. Failures are not
    monotonic in V (powers of two stay exact for long), so bisection would not find the first.
    """
    for vocabulary in range(least, most + 1):
        construction = unconditional(vocabulary, 1)
        if mistakes(construction, every_table(construction), dtype):
            return vocabulary
    return None


def packing_bound(dtype: torch.dtype) -> int:
    """Return the largest V with V^V distinct packed rows.

    Its packed numbers are added to one, and of the numbers in [1, 2) a float with p significant
    bits has 2^(p−1): V log₂ V ≤ p − 1.
    """
    numbers = round(1 / torch.finfo(dtype).eps)  # 2^(p−1)
    return max(v for v in range(1, 64) if v**v <= numbers)


def decoding_bound(dtype: torch.dtype) -> int:
    """Return a V up to which rounding cannot cause a decoding error.

    With unit roundoff u the number has an error of at most 2u (its own and its sum's), and a logit
    adds at most 3.25u (weight, bias, product and sum): 2·5.25u < 1/V².
    """
    unit = torch.finfo(dtype).eps / 2
    return math.floor((10.5 * unit) ** -0.5)
