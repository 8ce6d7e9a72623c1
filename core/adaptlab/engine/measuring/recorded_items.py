"""Items whose attention is recorded: digits, texts, or images."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.items.digits import items_of, make_items, target_rows
from adaptlab.engine.items.images import image_items
from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import ITEM_SEED, as_digit_task
from adaptlab.engine.items.texts import chosen_items, texts_of
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.plugins import PatternRecorder
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.images import shade
from adaptlab.plugins.task import DigitTask
from adaptlab.plugins.text_task import TextTask
from adaptlab.runs.bounds import word_excerpt
from adaptlab.runs.events import SampleText
from adaptlab.specs.spec import AttentionSpec

ALL_ROWS = slice(None)
CLASS_TOKEN = "class"
"""The name of the first position of an image."""
Rows = tuple[tuple[int, ...], ...]
"""Tokens by sample."""


@dataclass(frozen=True)
class Given:
    """The answers of one replicate: tokens or places of choices, and texts."""

    predictions: Rows
    texts: tuple[SampleText, ...] = ()


class RecordedItems(ABC):
    """Items [R, B, T], the same for every replicate.

    Attributes:
        content: the content positions of the longest item.
        start: the first query row that produces an answer token, the smallest of all items.
        tokens: the tokens at the content positions of each item.
        is_content: a mask of the positions that are not padding; None if none is.
    """

    content: int
    start: int
    tokens: Rows
    is_content: Bool[Tensor, "B T"] | None

    @abstractmethod
    def observed(
        self, model: Model, recorder: PatternRecorder, *, attached: bool
    ) -> tuple[Given, ...]:
        """Record attention, and return the answers of every replicate.

        Without `attached`, those of the base model alone.
        """


def recorded_items(plan: Plan, attention: AttentionSpec, replicates: int) -> RecordedItems:
    """Return the items to record: those given, or the first test items."""
    if isinstance(plan.task, TextTask):
        return _Texts(plan, plan.task, attention.samples, replicates)
    if isinstance(plan.task, ImageTask):
        return _Images(plan, plan.task, attention.samples, replicates)
    return _Digits(plan, as_digit_task(plan.task), attention, replicates)


class _Digits(RecordedItems):
    def __init__(
        self, plan: Plan, task: DigitTask, attention: AttentionSpec, replicates: int
    ) -> None:
        seeds = torch.tensor([ITEM_SEED], device=plan.device)
        if attention.inputs:
            inputs = torch.tensor(attention.inputs, dtype=torch.int64, device=plan.device)
            items = items_of(task, inputs.unsqueeze(0))
        else:
            items = make_items(task, "test", seeds, 0, attention.samples)
        self._task, self._tokens = task, items.tokens.expand(replicates, -1, -1).contiguous()
        self.content = plan.family.content_length(items.tokens.shape[-1])
        self.start = plan.family.answer_start(task.input_length())
        self.is_content = None
        whole = torch.cat([items.tokens, items.targets[..., -1:]], -1)
        self.tokens = _rows_of(whole[0, :, : self.content])

    def observed(
        self, model: Model, recorder: PatternRecorder, *, attached: bool
    ) -> tuple[Given, ...]:
        compute = model.logits if attached else model.base_logits
        logits = compute(self._tokens, ALL_ROWS, recorder)
        answers = logits.argmax(-1)[:, :, target_rows(self._task)]
        return tuple(Given(_rows_of(row)) for row in answers)


class _Texts(RecordedItems):
    def __init__(self, plan: Plan, task: TextTask, samples: int, replicates: int) -> None:
        items = chosen_items(task, "test", torch.arange(samples), plan.device)
        assert items.answer_rows is not None
        self._items = items.each(lambda tensor: tensor.expand(replicates, -1, -1).contiguous())
        # All rows are computed, so they are counted from the first.
        rows = items.answer_rows + items.first
        self._rows = rows.expand(replicates, -1, -1)
        self._tokeniser = task.source().tokeniser
        self._choices = item_texts(task) if task.listed_answers() else None
        counted = torch.ones_like(rows, dtype=torch.bool)
        counted = counted if items.counted is None else items.counted
        self._answered: list[int] = counted[0].sum(-1).tolist()
        lengths = torch.where(counted, rows, 0).amax(-1)[0] + 1
        lengths = lengths if items.read is None else items.read[0]
        self.content = items.tokens.shape[-1]
        self.is_content = torch.arange(self.content, device=plan.device) < lengths.unsqueeze(-1)
        self.tokens = tuple(
            tuple(row[:length])
            for row, length in zip(items.tokens[0].tolist(), lengths.tolist(), strict=True)
        )
        has_start = task.classes() is None or not plan.family.attends_to_all()
        starts = rows[0, :, 0] + plan.family.predicts_in_place()
        self._starts: list[int] = starts.tolist() if has_start else [0] * samples
        self.start = min(self._starts)
        self._right = self._kept(_right_answers(task, items, samples))

    def observed(
        self, model: Model, recorder: PatternRecorder, *, attached: bool
    ) -> tuple[Given, ...]:
        compute = model.logits if attached else model.base_logits
        items = self._items
        logits = compute(items.tokens, ALL_ROWS, recorder, answer_rows=self._rows, read=items.read)

        def answer(others: Items) -> Float[Tensor, "R B M V"]:
            return model.answers(others, attached=attached)

        chosen = items.choose(answer)
        answers = logits.argmax(-1) if chosen is None else chosen.unsqueeze(-1)
        return tuple(self._given(self._kept(row.tolist())) for row in answers)

    def _kept(self, answers: Sequence[Sequence[int]]) -> Rows:
        """Return the tokens of answers without padding, or the places of choices."""
        if self._choices is not None:
            return tuple(tuple(row) for row in answers)
        return tuple(tuple(row[:count]) for row, count in zip(answers, self._answered, strict=True))

    def _given(self, predictions: Rows) -> Given:
        texts = tuple(
            SampleText(
                words=self._words(tokens), target_start=start, expected=right, predicted=told
            )
            for tokens, start, right, told in zip(
                self.tokens,
                self._starts,
                self._written(self._right),
                self._written(predictions),
                strict=True,
            )
        )
        return Given(predictions, texts)

    def _written(self, answers: Rows) -> list[tuple[str, ...]]:
        """Return the words of every sample's answer, or its choice."""
        if self._choices is None:
            return [self._words(answer) for answer in answers]
        return [
            tuple(word_excerpt(self._choices.choice(item, place).text) for place in answer)
            for item, answer in enumerate(answers)
        ]

    def _words(self, tokens: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(word_excerpt(self._tokeniser.word(token)) for token in tokens)


class _Images(RecordedItems):
    """Images; tokens are a class token of 0 and mean levels of patches."""

    def __init__(self, plan: Plan, task: ImageTask, samples: int, replicates: int) -> None:
        seeds = torch.tensor([ITEM_SEED], device=plan.device)
        items = image_items(task, "test", seeds, 0, samples)
        self._items = items.each(lambda tensor: tensor.expand(replicates, -1, -1).contiguous())
        self._classes, self._right = task.class_values(), _rows_of(items.targets[0])
        self._is_light = task.levels_are_light
        rows, columns = plan.family.patches()
        self.content, self.start, self.is_content = rows * columns + 1, 0, None
        self._places = [
            f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns)
        ]
        levels = items.tokens[0].unflatten(-1, task.image()).float()
        means = levels.unflatten(2, (rows, -1)).unflatten(4, (columns, -1)).mean((1, 3, 5))
        patches = means.flatten(1).round().long()
        self.tokens = _rows_of(torch.cat([torch.zeros_like(patches[:, :1]), patches], -1))

    def observed(
        self, model: Model, recorder: PatternRecorder, *, attached: bool
    ) -> tuple[Given, ...]:
        compute = model.logits if attached else model.base_logits
        items = self._items
        logits = compute(
            items.tokens, ALL_ROWS, recorder, answer_rows=items.answer_rows, read=items.read
        )
        return tuple(self._given(_rows_of(row)) for row in logits.argmax(-1))

    def _given(self, predictions: Rows) -> Given:
        texts = tuple(
            SampleText(
                words=(CLASS_TOKEN, *self._words(levels[1:])),
                target_start=0,
                expected=tuple(self._classes[place] for place in right),
                predicted=tuple(self._classes[place] for place in told),
            )
            for levels, right, told in zip(self.tokens, self._right, predictions, strict=True)
        )
        return Given(predictions, texts)

    def _words(self, levels: Sequence[int]) -> Iterator[str]:
        """Yield the shade and place of each patch, counted from 1."""
        for level, place in zip(levels, self._places, strict=True):
            yield f"{shade(level, is_light=self._is_light)} {place}"


def _right_answers(task: TextTask, items: Items, samples: int) -> list[list[int]]:
    """Return the right answers: tokens, or places of choices."""
    texts = texts_of(task)
    if texts.labels is None:
        tokens: list[list[int]] = items.targets[0].tolist()
        return tokens
    places: list[int] = texts.labels[texts.of_split["test"][:samples]].tolist()
    return [[place] for place in places]


def _rows_of(tokens: Int[Tensor, "B T"]) -> Rows:
    return tuple(tuple(row) for row in tokens.tolist())
