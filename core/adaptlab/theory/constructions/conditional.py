"""Theorem 2 and longer answers: maps of a token to n_Y tokens."""

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
from adaptlab.theory.constructions.unconditional import SHARPNESS


def conditional(vocabulary: int, sharpness: float = SHARPNESS) -> Construction:
    """Build a model for all V^V maps of a token to a token (theorem 2).

    It has two heads and an MLP V → V → 1 → V. One head returns e_X, the token itself, the other
    s = (m(1), …, m(V))/V, the content of the first position; from their sum the MLP extracts s_X.
    The heads' leaks cancel, so the sum is e_X + s at any temperature.
    """
    code = beside(zeros(2, vocabulary), eye(2))
    content = beside(eye(vocabulary), zeros(vocabulary, 2))
    own = Matrices(code, code, content)
    first = Matrices(
        beside(zeros(1, vocabulary), ones(1, 2)),
        beside(zeros(1, vocabulary), eye(2)[:1]),
        content,
    )
    return _mapping(vocabulary, 1, own, first, sharpness)


def longer_answers(
    vocabulary: int, answer_length: int, sharpness: float = SHARPNESS
) -> Construction:
    """Build a model for all V^(V n_Y) maps to n_Y tokens (appendix A).

    Virtual token i holds the map's i-th column. At position n_Y + i, which answers the i-th
    token, one head reads n_Y positions back and the other reads the user's token at n_Y + 1.
    """
    places = 2 * answer_length
    back = beside(zeros(answer_length, answer_length), eye(answer_length))
    content = beside(eye(vocabulary), zeros(vocabulary, places))
    behind = Matrices(
        beside(zeros(places, vocabulary), torch.cat([back, 0 * back])),
        beside(zeros(places, vocabulary), eye(places)),
        content,
    )
    user = Matrices(
        beside(zeros(1, vocabulary), ones(1, places)),
        beside(zeros(1, vocabulary), eye(places)[answer_length : answer_length + 1]),
        content,
    )
    return _mapping(vocabulary, answer_length, behind, user, sharpness)


def _mapping(
    vocabulary: int, answer_length: int, one: Matrices, other: Matrices, sharpness: float
) -> Construction:
    """Build a model of two heads, with n_Y virtual tokens in front."""
    base = assembled(
        eye(vocabulary),
        [attention(one, other), *picked_sum(vocabulary)],
        virtual=answer_length,
        context=answer_length,
        sharpness=sharpness,
    )

    def prompt(tables: Tensor) -> Tensor:
        codes = eye(2 * answer_length)[:answer_length].expand(len(tables), -1, -1)
        return torch.cat([tables.double().mT / vocabulary, codes], -1)

    questions = torch.arange(vocabulary).unsqueeze(1)
    return Construction(base, vocabulary, questions, answer_length, prompt)
