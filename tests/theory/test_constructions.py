"""Constructed transformers answer as any virtual tokens determine."""

import itertools
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from adaptlab.families.formal import AttentionLayer, Formal, ReluLayer
from adaptlab.theory.constructions.blocks import Block
from adaptlab.theory.constructions.conditional import conditional, longer_answers
from adaptlab.theory.constructions.construction import (
    Construction,
    answers,
    every_table,
    extreme_tables,
    mistakes,
    random_tables,
)
from adaptlab.theory.constructions.longer_questions import (
    longer_questions,
    packed_rows,
    unpacking,
)
from adaptlab.theory.constructions.unconditional import unconditional

SMALL: dict[str, tuple[Callable[[], Construction], int]] = {
    "sequences of 4 of 4 tokens": (lambda: unconditional(4, 4), 4**4),
    "sequences of 1 of 2 tokens": (lambda: unconditional(2, 1), 2),
    "sequences of 6 of 3 tokens": (lambda: unconditional(3, 6), 3**6),
    "maps of 4 tokens": (lambda: conditional(4), 4**4),
    "maps of 3 tokens to pairs": (lambda: longer_answers(3, 2), 3**6),
    "maps of 2 tokens to triples": (lambda: longer_answers(2, 3), 2**6),
    "maps of pairs of 2 tokens": (lambda: longer_questions(2), 2**4),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_answer_to_every_question_can_be_had_from_one_model(name: str):
    build, count = SMALL[name]
    construction = build()
    shape = (len(construction.questions), construction.answer_length)
    sequences = itertools.product(range(construction.vocabulary), repeat=shape[0] * shape[1])
    wanted = torch.tensor(list(sequences)).view(-1, *shape)
    assert len(wanted) == count == construction.tables
    assert torch.equal(every_table(construction), wanted)
    assert torch.equal(answers(construction, wanted), wanted)
    assert all(len(weight) == 1 for weight in construction.base.weights.values())


def test_all_15625_cases_of_maps_of_five_tokens():
    construction = conditional(5)
    tables = every_table(construction)
    assert len(tables) * len(construction.questions) == 15_625
    assert mistakes(construction, tables) == 0


@pytest.mark.parametrize(
    "build",
    [lambda: unconditional(94, 20), lambda: conditional(94), lambda: longer_answers(94, 5)],
)
def test_large_vocabularies_too(build: Callable[[], Construction]):
    construction = build()
    tables = torch.cat([extreme_tables(construction), random_tables(construction, 4)])
    assert torch.equal(answers(construction, tables), tables)


@pytest.mark.parametrize("vocabulary", [3, 6, 10])
def test_random_maps_of_pairs(vocabulary: int):
    construction = longer_questions(vocabulary)
    tables = torch.cat([extreme_tables(construction), random_tables(construction, 20)])
    assert torch.equal(answers(construction, tables), tables)


@pytest.mark.parametrize("temperature", [0.0, 0.1, 7.0])
def test_theorem_two_needs_no_sharp_attention(temperature: float):
    construction = conditional(3).with_inverse_temperature(temperature)
    assert mistakes(construction, every_table(construction)) == 0


@pytest.mark.parametrize(
    "build",
    [lambda: unconditional(4, 4), lambda: longer_answers(3, 2), lambda: longer_questions(2)],
)
def test_the_others_do_and_mistakes_are_counted(build: Callable[[], Construction]):
    construction = build()
    tables = every_table(construction)
    assert mistakes(construction.with_inverse_temperature(0.0), tables) > 0
    told = answers(construction, tables)
    assert int((told != tables.roll(1, 0)).any(-1).sum()) == int(
        (tables != tables.roll(1, 0)).any(-1).sum()
    )


def test_the_prompt_alone_decides():
    """With another table's prompt, the model answers as that table does."""
    construction = conditional(3)
    one, other = every_table(construction)[[5, 11]]
    assert mistakes(construction, one.unsqueeze(0)) == 0
    swapped = Construction(
        construction.base,
        construction.vocabulary,
        construction.questions,
        construction.answer_length,
        lambda tables: construction.prompt(other.expand_as(tables)),
    )
    assert torch.equal(answers(swapped, one.unsqueeze(0))[0], other)


def test_the_sizes_of_theorem_two_are_those_of_the_paper():
    family = conditional(5).base.family
    assert isinstance(family, Formal)
    attention, *mlp = family.stack
    assert isinstance(attention, AttentionLayer)
    assert len(attention.heads) == 2
    assert [layer.width for layer in mlp if isinstance(layer, ReluLayer)] == [5, 1]
    assert (family.shape().width, family.codes()) == (7, 2)


def test_rows_are_packed_to_the_nearest_float():
    rows = torch.randint(0, 13, (50, 13), generator=torch.Generator().manual_seed(1))
    exact = [sum(Fraction(int(d), 13 ** (j + 1)) for j, d in enumerate(row)) for row in rows]
    assert packed_rows(rows).tolist() == [float(value) for value in exact]


@pytest.mark.parametrize("vocabulary", [2, 3, 10, 13])
def test_layers_unpack_what_was_packed(vocabulary: int):
    """The digits come out as floats near v/V, far from the threshold."""
    generator = torch.Generator().manual_seed(vocabulary)
    rows = torch.randint(0, vocabulary, (200, vocabulary), generator=generator)
    rows[0], rows[1] = 0, vocabulary - 1
    second = torch.rand(200, vocabulary, generator=generator).double()
    packed = torch.zeros(200, vocabulary).double()
    packed[:, 1] = packed_rows(rows)
    x = torch.cat([packed, second], 1)
    for block in unpacking(vocabulary):
        x = applied(block, x)
    assert torch.allclose(x[:, :vocabulary], rows.double() / vocabulary, rtol=0, atol=1e-12)
    assert torch.equal(x[:, vocabulary:], second)


def applied(block: Block, x: Tensor) -> Tensor:
    kind = block.layer.kind
    y = x @ block.tensors[f"{kind}.weight"].T + block.tensors[f"{kind}.bias"]
    return y.clamp(min=0) if kind == "relu" else y


def test_random_tables_are_even_and_the_first_do_not_depend_on_the_count():
    construction = unconditional(4, 4)
    many = random_tables(construction, 2000, seed=3)
    assert torch.equal(many[:7], random_tables(construction, 7, seed=3))
    assert not torch.equal(many, random_tables(construction, 2000, seed=4))
    shares = torch.bincount(many.flatten()) / many.numel()
    assert (shares - 0.25).abs().max() < 0.02
