"""Classification of texts by label words."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.facts import MOST_VALUES, RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.values import Value

MOST_USUAL = 8
"""Tokens of a label word, if the spec does not say otherwise."""

LabelWord = Annotated[str, Field(min_length=1, max_length=100)]


class LabelWords(Value):
    """The field with the label, and a word for each of its values."""

    field: FieldName
    words: Annotated[dict[str, LabelWord], Field(min_length=2, max_length=MOST_VALUES)]

    def __hash__(self) -> int:
        return hash((self.field, *sorted(self.words.items())))


@TASKS.register("text_classification")
class TextClassification(TextTask):
    """Choose the label of a record's text.

    The model reads the prompt and answers with a label word. The choice is the word to which the
    model gives the highest probability among all label words; a word of several tokens has the
    product of their probabilities. Training minimises the loss on the tokens of the right word.
    Chance is the share of the most common label in the dataset.
    """

    title: ClassVar[str] = "Text classification"
    summary: ClassVar[str] = "Texts of your own dataset, labelled by words."
    reference: ClassVar[str] = "Schick, Schütze (EACL 2021), label words"
    ends: ClassVar[bool] = False

    name: Literal["text_classification"] = "text_classification"
    label: LabelWords
    score: Literal["label_words"] = "label_words"
    metric: Literal["accuracy"] = "accuracy"

    def answer_text(self, record: Record) -> str:
        return self.label.words[record[self.label.field]]

    def answer_field(self) -> tuple[str, str]:
        return "/label/field", self.label.field

    def usual_answer(self) -> int:
        # No tokeniser makes more tokens of a word than it has bytes.
        return min(MOST_USUAL, max(len(word.encode()) for word in self.label.words.values()))

    def choices(self) -> Mapping[str, str]:
        return self.label.words

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        field = facts.field(self.label.field)
        assert field is not None
        if field.values is None:
            detail = (
                f"The field {field.name!r} has more than {MOST_VALUES} values. Choose a field with "
                "labels, or the task text_completion."
            )
            yield Problem("/label/field", "too_many_labels", detail)
            return
        present = [entry.value for entry in field.values]
        words = self.label.words
        if len(present) < 2:
            detail = f"All records have the label {present[0]!r}. There must be two labels or more."
            yield Problem("/label/field", "one_label", detail)
        elif missing := [value for value in present if value not in words]:
            listed = ", ".join(map(repr, missing[:8]))
            detail = f"The label {listed} of {facts.name!r} has no word. Give one for every label."
            yield Problem("/label/words", "label_without_word", detail, allowed=tuple(present))
        if absent := [value for value in words if value not in present]:
            listed = ", ".join(map(repr, absent[:8]))
            detail = f"No record of {facts.name!r} has the label {listed}. Leave its word out."
            yield Problem("/label/words", "no_such_label", detail, allowed=tuple(present))

    def chance(self) -> float:
        """Return the accuracy of always answering the most common label."""
        return self.reference_to_records().majority or 1 / len(self.label.words)

    def chance_loss(self) -> float:
        """Return the loss of guessing among labels whose words are one token."""
        return math.log(len(self.label.words))

    def _own_problems(self) -> Iterator[Problem]:
        yield from super()._own_problems()
        counts = Counter(self.label.words.values())
        if twice := [word for word, count in counts.items() if count > 1]:
            detail = f"The word {twice[0]!r} stands for several labels. Give each its own."
            yield Problem("/label/words", "word_twice", detail)
