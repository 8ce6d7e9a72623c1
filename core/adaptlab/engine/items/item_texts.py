"""Items and answers of any task as text, and as drafts of answers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from adaptlab.engine.items.images import images_of
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import as_digit_task, scored_items
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Int
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import DigitTask, Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.runs.events import AnswerText, ShownItem
from adaptlab.runs.reported_answers import answer_excerpt, prompt_excerpt, question_excerpt

BETWEEN = " | "
"""Between the right answers of an item."""


class ItemTexts(ABC):
    """The texts of the first items of one split of a task.

    Attributes:
        end: the token that ends an answer, None if there is none.
        width: the most tokens of an answer.
    """

    end: int | None
    width: int

    @abstractmethod
    def shown(self, count: int) -> tuple[ShownItem, ...]:
        """Return the first items as text."""

    @abstractmethod
    def drafted(
        self, places: Int[Tensor, "B"], items: Items, answers: Int[Tensor, "A B M"]
    ) -> Items:
        """Return the items at these places, as if they had these answers."""

    @abstractmethod
    def room(self, places: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
        """Return the most tokens of an answer to each item."""

    def others(self, place: int) -> tuple[str, ...]:
        """Return the further right answers to an item, whole and as text."""
        return ()

    def copied(self, place: int) -> str:
        """Return an item's prompt as an answer, as far as there is room."""
        return ""

    @abstractmethod
    def written(self, tokens: Sequence[int]) -> str:
        """Return the whole text of an answer without its end token."""

    def targets(self, place: int) -> tuple[str, ...]:
        """Return the texts of which an answer to an item has to be one.

        The result is empty if tokens decide.
        """
        return ()

    def is_stopped(self, tokens: Sequence[int]) -> bool:
        """Return True if a token beside `end` ends an answer."""
        return False

    def answer(self, tokens: Sequence[int]) -> AnswerText:
        """Return the text of an answer without its end token, as it is kept."""
        return answer_excerpt(self.written(tokens))

    @abstractmethod
    def choice(self, item: int, place: int) -> AnswerText:
        """Return the text of one of the answers that an item's is chosen from."""


def item_texts(task: Task, split: Split = "test") -> ItemTexts:
    """Return the texts of a task's items of a split."""
    if isinstance(task, ImageTask):
        return _OfImages(task, split)
    if isinstance(task, TextTask):
        return _OfRecords(task, split)
    return _OfDigits(as_digit_task(task), split)


class _OfDigits(ItemTexts):
    def __init__(self, task: DigitTask, split: Split) -> None:
        self._split: Split = split
        self._task, self.end, self.width = task, task.end_token(), task.target_length()

    def shown(self, count: int) -> tuple[ShownItem, ...]:
        ((_, items),) = scored_items(self._task, self._split, count, count, torch.device("cpu"))
        asked = items.tokens[0, :, : self._task.input_length()].tolist()
        return tuple(
            ShownItem(
                item=place,
                prompt=prompt_excerpt(self._task.written(question)),
                expected=self.answer(without_end(expected_tokens(items, place), self.end)),
            )
            for place, question in enumerate(asked)
        )

    def drafted(self, places: Tensor, items: Items, answers: Tensor) -> Items:
        asked = lifted(items.tokens[..., : self._task.input_length()], len(answers))
        every = items.each(lambda tensor: lifted(tensor, len(answers)))
        return replace(every, tokens=torch.cat([asked, answers[..., :-1]], -1))

    def room(self, places: Tensor) -> Tensor:
        return torch.full_like(places, self._task.target_length())

    def written(self, tokens: Sequence[int]) -> str:
        return self._task.written(tokens)

    def choice(self, item: int, place: int) -> AnswerText:
        raise IndexError(f"{self._task.name} has no list of answers to choose from.")


class _OfImages(ItemTexts):
    def __init__(self, task: ImageTask, split: Split) -> None:
        self._split: Split = split
        self._task, self.end, self.width = task, None, 1

    def shown(self, count: int) -> tuple[ShownItem, ...]:
        ((_, items),) = scored_items(self._task, self._split, count, count, torch.device("cpu"))
        pairs = zip(items.tokens[0].tolist(), items.targets[0, :, 0].tolist(), strict=True)
        lines = images_of(self._task, self._split, torch.device("cpu")).lines
        return tuple(
            ShownItem(
                item=place,
                line=None if lines is None else int(lines[place]),
                prompt=prompt_excerpt(self._task.written(levels)),
                expected=self.choice(place, right),
            )
            for place, (levels, right) in enumerate(pairs)
        )

    def drafted(self, places: Tensor, items: Items, answers: Tensor) -> Items:
        return items  # a class is not read

    def room(self, places: Tensor) -> Tensor:
        return torch.ones_like(places)

    def written(self, tokens: Sequence[int]) -> str:
        return self._task.class_values()[tokens[0]]

    def choice(self, item: int, place: int) -> AnswerText:
        return answer_excerpt(self._task.class_values()[place])


class _OfRecords(ItemTexts):
    def __init__(self, task: TextTask, split: Split) -> None:
        self._texts, self._tokeniser = texts_of(task), task.source().tokeniser
        self._excerpt = question_excerpt if task.is_rendered() else prompt_excerpt
        self._choices = tuple(task.listed_answers().items())
        self._records = self._texts.of_split[split]
        self.end = self._texts.end
        self.width = task.target_length()

    def shown(self, count: int) -> tuple[ShownItem, ...]:
        return tuple(self._item(n, int(record)) for n, record in enumerate(self._records[:count]))

    def _item(self, place: int, record: int) -> ShownItem:
        texts = self._texts
        start, asked = int(texts.starts[record]), int(texts.asked[record])
        stop = start + int(texts.read[record]) + 1
        tokens: list[int] = texts.tokens[start:stop].tolist()
        if self._choices:
            assert texts.labels is not None
            expected = self.choice(place, int(texts.labels[record]))
        else:
            first = self.targets(place) or (self.written(without_end(tokens[asked:], self.end)),)
            expected = answer_excerpt(BETWEEN.join(dict.fromkeys((*first, *self.others(place)))))
        return ShownItem(
            item=place,
            line=record + 1,
            prompt=self._excerpt(self._tokeniser.text(tuple(tokens[:asked]))),
            expected=expected,
        )

    def drafted(self, places: Tensor, items: Items, answers: Tensor) -> Items:
        drafted = self._texts.drafted(self._records[places], answers.cpu())
        return drafted.each(lambda tensor: tensor.to(answers.device))

    def room(self, places: Tensor) -> Tensor:
        return self._texts.room(self._records[places])

    def written(self, tokens: Sequence[int]) -> str:
        stop = next((n for n, one in enumerate(tokens) if one in self._texts.stops), None)
        return self._tokeniser.text(tuple(tokens[:stop]))

    def targets(self, place: int) -> tuple[str, ...]:
        every = self._texts.targets
        return every[int(self._records[place])] if every else ()

    def is_stopped(self, tokens: Sequence[int]) -> bool:
        return not self._texts.stops.isdisjoint(tokens)

    def others(self, place: int) -> tuple[str, ...]:
        if (others := self._texts.others) is None:
            return ()
        answers = others.of_record(int(self._records[place]))
        return tuple(self.written(without_end(answer, self.end)) for answer in answers)

    def copied(self, place: int) -> str:
        texts, record = self._texts, self._records[place]
        count = min(int(texts.asked[record]), int(texts.room(record)))
        start = int(texts.starts[record])
        return self.written(texts.tokens[start : start + count].tolist())

    def choice(self, item: int, place: int) -> AnswerText:
        label, word = self._choices[place]
        if word is None:
            tokens = self._texts.choice_tokens(int(self._records[item]), place)
            word = self._tokeniser.text(tokens)
        return answer_excerpt(word, label)


def expected_tokens(items: Items, place: int) -> list[int]:
    """Return the counted tokens of the right answer to one of some items."""
    tokens: list[int] = items.targets[0, place].tolist()
    counted = len(tokens) if items.counted is None else int(items.counted[0, place].sum())
    return tokens[:counted]


def without_end(tokens: Sequence[int], end: int | None) -> list[int]:
    """Return the tokens before the one that ends an answer."""
    listed = list(tokens)
    return listed[: listed.index(end)] if end in listed else listed
