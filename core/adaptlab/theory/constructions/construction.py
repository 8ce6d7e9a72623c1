"""A construction: a model by formula, its questions, its prompts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.kernels.counter import random_bits, stream
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.families.formal import Formal
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.theory.generation import GeneratingBase, completions

NUMBERS_AT_ONCE = 2**23
"""Activations or logits of one layer that are computed at once."""


@dataclass(frozen=True)
class Construction:
    """A model whose virtual tokens answer its `questions` [B, n_X].

    A table [B, n_Y] holds the correct answer to every question. `prompt` returns the virtual tokens
    [R, P, C] of tables [R, B, n_Y]; only they depend on a table, the weights do not.
    """

    base: GeneratingBase
    vocabulary: int
    questions: Tensor
    answer_length: int
    prompt: Callable[[Tensor], Tensor]

    @property
    def tables(self) -> int:
        """The number of possible tables, V^(B n_Y)."""
        return self.vocabulary ** (len(self.questions) * self.answer_length)

    @property
    def positions(self) -> int:
        """The number of positions N, including virtual ones."""
        assert isinstance(self.base.family, Formal)
        return self.base.family.codes()

    def with_inverse_temperature(self, value: float) -> Self:
        """Return the construction with another inverse temperature T."""
        changed = {"inverse_temperature": value}
        family = self.base.family.model_copy(update=changed)
        return replace(self, base=replace(self.base, family=family))


def every_table(construction: Construction) -> Tensor:
    """Return all tables [V^(B n_Y), B, n_Y], in numerical order."""
    places = len(construction.questions) * construction.answer_length
    numbers = torch.arange(construction.tables).unsqueeze(1)
    digits = numbers // construction.vocabulary ** torch.arange(places - 1, -1, -1)
    return _as_tables(construction, digits % construction.vocabulary)


def random_tables(construction: Construction, count: int, seed: int = 0) -> Tensor:
    """Draw uniform tables [R, B, n_Y]; the first do not depend on `count`."""
    places = len(construction.questions) * construction.answer_length
    kind, own = torch.tensor([stream("tables"), seed])
    drawn = random_bits(kind, own, torch.arange(count).unsqueeze(1), torch.arange(places))
    return _as_tables(construction, drawn % construction.vocabulary)


def extreme_tables(construction: Construction) -> Tensor:
    """Return tables [4, B, n_Y]: all 0, all V − 1, only last or first 0."""
    places = len(construction.questions) * construction.answer_length
    low, high = torch.zeros(places).long(), torch.full((places,), construction.vocabulary - 1)
    last, first = high.clone(), high.clone()
    last[-1], first[0] = 0, 0
    return _as_tables(construction, torch.stack([low, high, last, first]))


def _as_tables(construction: Construction, values: Tensor) -> Tensor:
    return values.view(len(values), len(construction.questions), construction.answer_length)


def answers(
    construction: Construction, tables: Tensor, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Return the model's completions [R, B, n_Y] of the questions, in `dtype`.

    Every table is a replicate with its own soft prompt, attached as by that method.
    """
    base, count = construction.base.to(dtype), construction.answer_length
    questions = construction.questions.unsqueeze(0)
    return torch.cat(
        [
            completions(base, questions, count, _attached(base, construction.prompt(part)))
            for part in _parts(construction, tables)
        ]
    )


def _attached(base: GeneratingBase, rows: Tensor) -> Attachments:
    """Attach virtual tokens [R, P, C] as a soft prompt."""
    rows = rows.to(base.dtype)
    method, shape = SoftPrompt(length=rows.shape[1]), base.family.shape()
    tensors = {"embed.prompt": rows}
    declared = {name: tensor.shape for name, tensor in method.tensors(shape).items()}
    assert declared == {name: tuple(tensor.shape[1:]) for name, tensor in tensors.items()}
    attached = ENGINE_METHODS.get(method.name)(method, shape, tensors)
    return replace(attached, replicates=len(rows))


def _parts(construction: Construction, tables: Tensor) -> Iterator[Tensor]:
    """Yield tables [R, B, n_Y] in parts that fit in memory."""
    shape = construction.base.family.shape()
    widest = max((*(s.outputs for s in shape.sites.values()), shape.width, shape.vocabulary))
    numbers = len(construction.questions) * construction.positions * widest
    yield from tables.split(max(1, NUMBERS_AT_ONCE // numbers))


def mistakes(construction: Construction, tables: Tensor, dtype: torch.dtype = torch.float64) -> int:
    """Return the number of the R·B completions that differ from the tables."""
    return int((answers(construction, tables, dtype) != tables).any(-1).sum())
