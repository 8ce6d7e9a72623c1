"""Theorem 1: a virtual token determines one of V^N sequences."""

import torch
from torch import Tensor

from adaptlab.theory.constructions.blocks import (
    Matrices,
    assembled,
    attention,
    beside,
    eye,
    ones,
    picked_sum,
    zeros,
)
from adaptlab.theory.constructions.construction import Construction

SHARPNESS = 50.0


def unconditional(vocabulary: int, length: int, sharpness: float = SHARPNESS) -> Construction:
    """Build one attention layer and an MLP N → N → 1 → V (theorem 1).

    At position i + 1 one head returns e_i, its place, and the other s = (Y_1, …, Y_N)/V, the
    content of the first position; from their sum the MLP extracts s_i. The embedding is zero, so
    tokens carry no information. The engine answers only at positions of tokens, so one such token
    follows the virtual one, and position i + 1 answers Y_i; there are N + 1 positions.
    """
    places = length + 1
    code = beside(zeros(places, length), eye(places))
    shifted = beside(zeros(length, length + 1), eye(length))
    where = Matrices(code, code, shifted)
    first = Matrices(
        beside(zeros(1, length), ones(1, places)),
        beside(zeros(1, length), eye(places)[:1]),
        beside(eye(length), zeros(length, places)),
    )
    base = assembled(
        zeros(vocabulary, length),
        [attention(where, first), *picked_sum(length)],
        virtual=1,
        context=length,
        sharpness=sharpness,
    )

    def prompt(tables: Tensor) -> Tensor:
        codes = eye(places)[0].expand(len(tables), 1, -1)
        return torch.cat([tables.double() / vocabulary, codes], -1)

    return Construction(base, vocabulary, torch.zeros(1, 1).long(), length, prompt)
