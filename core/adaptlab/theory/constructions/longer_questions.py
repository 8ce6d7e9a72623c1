"""Questions of two tokens, for which a virtual token packs numbers."""

from collections.abc import Iterator

import torch
from torch import Tensor

from adaptlab.theory.constructions.blocks import (
    Block,
    Matrices,
    assembled,
    attention,
    beside,
    eye,
    linear,
    ones,
    picked_sum,
    relu,
    zeros,
)
from adaptlab.theory.constructions.construction import Construction

SHARPNESS = 1000.0
"""The second layer's keys may be as small as 1/V, and a packed digit as small as V^(−V)."""
PLACES = 4


def longer_questions(vocabulary: int, sharpness: float = SHARPNESS) -> Construction:
    """Build a model for all V^(V²) maps of two tokens to one (appendix A).

    Positions 1 and 2 are virtual: an empty one, to which idle heads attend, and one whose
    coordinate x₁ packs the map's row x₁ as Σ_j m(x₁, j) V^−(j+1), j from 0. Tokens are at 3 and 4.
    The first attention puts the packed row at position 3, ReLU layers unpack it, and the second
    attention copies it to position 4, where the second token selects its entry.
    """
    base = assembled(
        eye(vocabulary),
        [*_row_of_first(vocabulary), *unpacking(vocabulary), *_entry_of_second(vocabulary)],
        virtual=2,
        context=2,
        sharpness=sharpness,
    )

    def prompt(tables: Tensor) -> Tensor:
        codes = eye(PLACES)[:2].expand(len(tables), -1, -1)
        packed = packed_rows(tables.squeeze(-1).unflatten(1, (vocabulary, vocabulary)))
        return torch.cat([torch.stack([0 * packed, packed], 1), codes], -1)

    tokens = torch.arange(vocabulary)
    return Construction(base, vocabulary, torch.cartesian_prod(tokens, tokens), 1, prompt)


def packed_rows(rows: Tensor) -> Tensor:
    """Return numbers [...] in [0, 1) whose base-V digits are rows [..., V].

    They are summed as integers, so that each is the float64 nearest to its value.
    """
    vocabulary = rows.shape[-1]
    whole = torch.zeros(rows.shape[:-1], dtype=torch.float64)
    for digit in rows.unbind(-1):
        whole = whole * vocabulary + digit
    return whole / float(vocabulary**vocabulary)


def _row_of_first(vocabulary: int) -> Iterator[Block]:
    """Put x₁'s packed row at position 3 [first half], e_x₂ at 4 [second]."""
    at_three = (_codes(vocabulary, [0, 0, 1, 0]), _codes(vocabulary, [1, 1, 0, 1]))
    at_four = (_codes(vocabulary, [0, 0, 0, 1]), _codes(vocabulary, [1, 1, 1, 0]))
    content = beside(eye(vocabulary), zeros(vocabulary, PLACES))
    first, second = torch.cat([content, 0 * content]), torch.cat([0 * content, content])
    yield attention(
        _looking(vocabulary, at_three, 2, first),
        _looking(vocabulary, at_four, 3, 2 * second),
        _looking(vocabulary, at_three, 1, first),
    )
    yield relu(eye(2 * vocabulary), -1.0)


def _looking(
    vocabulary: int, places: tuple[Tensor, Tensor], target: int, values: Tensor
) -> Matrices:
    """Return a head: one place attends to `target`, others to position 1."""
    there, elsewhere = places
    codes = eye(PLACES)[[0, target]]
    keys = beside(zeros(2, vocabulary), codes)
    return Matrices(torch.cat([elsewhere, there]), keys, values)


def _codes(vocabulary: int, places: list[int]) -> Tensor:
    """Return a row [1, V + 4] that is one at the given positions' codes."""
    return beside(zeros(1, vocabulary), torch.tensor([places], dtype=torch.float64))


def unpacking(vocabulary: int) -> Iterator[Block]:
    """Yield layers from [packed row | second half] to [row/V | second half].

    In between the stream is a number z, the V digits so far, and the second half. Digit j of z is
    the count of v from 1 to V − 1 with z ≥ v/V, where z is accurate to the nearest 1/G for
    G = V^(V−j); then z ← V z − digit. The step at v/V is 1 − ReLU(1 − ReLU(2G (z − v/V) + 3/2)),
    which is exact wherever z is off by less than 1/(4G).
    """
    halves = 2 * vocabulary
    total = beside(ones(1, vocabulary), zeros(1, vocabulary))
    second = beside(zeros(vocabulary, vocabulary), eye(vocabulary))
    yield relu(torch.cat([total, zeros(vocabulary, halves), second]))
    for place in range(vocabulary):
        yield from _digit(vocabulary, place)
    yield linear(beside(zeros(halves, 1), eye(halves)))


def _digit(vocabulary: int, place: int) -> Iterator[Block]:
    """Yield one digit's layers: store digit/V, subtract it from z."""
    steps, kept = vocabulary - 1, 1 + 2 * vocabulary
    finer = float(2 * vocabulary ** (vocabulary - place))
    thresholds = finer * torch.arange(1, vocabulary, dtype=torch.float64) / vocabulary
    passed = beside(zeros(kept, steps), eye(kept))
    yield relu(
        torch.cat([beside(finer * ones(steps, 1), zeros(steps, kept - 1)), eye(kept)]),
        torch.cat([1.5 - thresholds, zeros(kept, 1).squeeze(1)]),
    )
    yield relu(
        torch.cat([beside(-eye(steps), zeros(steps, kept)), passed]),
        torch.cat([ones(steps, 1).squeeze(1), zeros(kept, 1).squeeze(1)]),
    )
    matrix, bias = passed.clone(), zeros(kept, 1).squeeze(1)
    matrix[0, :steps], matrix[0, steps], bias[0] = 1, vocabulary, -steps
    matrix[1 + place, :steps], bias[1 + place] = -1 / vocabulary, steps / vocabulary
    yield linear(matrix, bias)


def _entry_of_second(vocabulary: int) -> Iterator[Block]:
    """Select at position 4 entry x₂ of the row at position 3.

    Only position 4 has a second half.
    """
    left = beside(ones(1, vocabulary), zeros(1, vocabulary))
    right = beside(zeros(1, vocabulary), ones(1, vocabulary))
    padding = zeros(1, 2 * vocabulary)  # two rows of keys, as in the first attention layer
    row = Matrices(
        torch.cat([right, padding]),
        torch.cat([left, padding]),
        beside(eye(vocabulary), zeros(vocabulary, vocabulary)),
    )
    token = Matrices(right, right, beside(zeros(vocabulary, vocabulary), eye(vocabulary)))
    yield attention(row, token)
    yield from picked_sum(vocabulary)
