"""Texts of items and answers: their bounds, and the checks of reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from adaptlab.errors import Problem
from adaptlab.plugins.splits import EVERY_SPLIT
from adaptlab.plugins.task import Task
from adaptlab.runs.bounds import (
    brief,
    count,
    equal,
    is_storable,
    one_of,
    storable,
)
from adaptlab.runs.events import AnswerText, Excerpt, ShownItem

LONGEST_PROMPT = 2000
"""Characters of a prompt that are kept; the rest is only counted."""
LONGEST_ANSWER = 500
"""Characters of an answer that are kept."""
LARGEST_CHARACTERS = 2**31 - 1


def prompt_excerpt(text: str) -> Excerpt:
    """Return the start of a prompt."""
    return Excerpt(text=storable(text[:LONGEST_PROMPT]), characters=len(text))


def question_excerpt(text: str) -> Excerpt:
    """Return the end of a prompt that has examples before the question."""
    if len(text) <= LONGEST_PROMPT:
        return prompt_excerpt(text)
    return prompt_excerpt("…" + text[1 - LONGEST_PROMPT :])


def answer_excerpt(text: str, label: str | None = None) -> AnswerText:
    """Return the start of an answer, and the label that it stands for."""
    return AnswerText(text=storable(text[:LONGEST_ANSWER]), characters=len(text), label=label)


@dataclass(frozen=True, slots=True)
class ExpectedAnswers:
    """The items of one task that a job shows, and the answers to them.

    Attributes:
        count: shown items.
        records: records of the task's dataset, None if items are generated.
        words: the label words by label, None where each record has its own; empty if any text can
            be the answer.
    """

    count: int
    records: int | None
    words: Mapping[str, str | None]

    @classmethod
    def of(cls, task: Task, shown: int) -> "ExpectedAnswers":
        """Return what is expected for a scored task of a job."""
        shown = task.shown(shown)
        if not task.needs_records:
            return cls(shown, None, {})
        records = sum(task.available(split) or 0 for split in EVERY_SPLIT)
        return cls(shown, records, task.listed_answers() if task.needs_tokeniser else {})

    def items(self, at: str, items: Sequence[ShownItem]) -> Iterator[Problem]:
        """Yield the problems of the shown items, with pointers below `at`."""
        yield from equal(at, len(items), self.count, "number of shown items")
        for place, shown in enumerate(items[: self.count]):
            here = f"{at}/{place}"
            yield from equal(f"{here}/item", shown.item, place, "item at this place")
            yield from self._line(f"{here}/line", shown.line)
            yield from _excerpt(f"{here}/prompt", shown.prompt, LONGEST_PROMPT)
            yield from self._answer(f"{here}/expected", shown.expected)

    def answers(self, at: str, answers: Sequence[AnswerText]) -> Iterator[Problem]:
        """Yield the problems of given answers, with pointers below `at`."""
        yield from equal(at, len(answers), self.count, "number of shown items")
        for place, answer in enumerate(answers[: self.count]):
            yield from self._answer(f"{at}/{place}", answer)

    def _line(self, at: str, line: int | None) -> Iterator[Problem]:
        if line is None or self.records is None:
            expected = None if self.records is None else "a line of the dataset"
            if (line is None) != (self.records is None):
                yield from equal(at, line, expected, "line of an item")
            return
        yield from count(at, line, 1, self.records)

    def _answer(self, at: str, answer: AnswerText) -> Iterator[Problem]:
        yield from _excerpt(at, answer, LONGEST_ANSWER)
        if not self.words:
            yield from equal(f"{at}/label", answer.label, None, "label of an answer")
        elif answer.label is None or answer.label not in self.words:
            yield from one_of(f"{at}/label", str(answer.label), tuple(self.words), "label")
        elif (word := self.words[answer.label]) is not None:
            text = answer_excerpt(word, answer.label).text
            yield from equal(f"{at}/text", answer.text, text, "word of this label")


def _excerpt(at: str, excerpt: Excerpt, most: int) -> Iterator[Problem]:
    """Yield a problem unless a text is short, storable and cut at the limit."""
    kept = len(excerpt.text)
    if kept > most:
        detail = f"The text has {kept:,} characters. The limit is {most:,}. Shorten it."
        yield Problem(f"{at}/text", "too_long", detail, nearest=(most,))
        return
    if not is_storable(excerpt.text):
        detail = f"{brief(excerpt.text)} has a character that cannot be stored. Replace it."
        yield Problem(f"{at}/text", "not_storable", detail)
    if kept < most:
        yield from equal(f"{at}/characters", excerpt.characters, kept, "number of characters")
    yield from count(f"{at}/characters", excerpt.characters, kept, LARGEST_CHARACTERS)
