"""Completion of prompts by texts of a dataset."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import PromptedTask
from adaptlab.plugins.written_answers import WrittenAnswers
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.values import Value


class AnswerField(Value):
    """The field with the answer."""

    field: FieldName


@TASKS.register("text_completion")
class TextCompletion(WrittenAnswers, PromptedTask):
    """Continue a record's prompt with its answer, token for token.

    The answer ends with the token that ends a text, if the tokeniser has one. An item is correct if
    greedy generation gives exactly this answer. Training minimises the loss on the answer only.

    With another `metric`, it is measured beside exact match, and trials are chosen by it on
    validation. Metrics that compare answers decode those of validation and test items, greedily
    unless `decoding` says otherwise; perplexity and bits per byte, of which the lowest is the best,
    follow from the right answers.
    """

    title: ClassVar[str] = "Text completion"
    summary: ClassVar[str] = "Prompts and answers of your own dataset, by exact match."
    reference: ClassVar[str] = "Brown et al. (NeurIPS 2020), section 2"
    ends: ClassVar[bool] = True

    name: Literal["text_completion"] = "text_completion"
    answer: AnswerField
    """field of the dataset that holds the answer"""

    def answer_text(self, record: Record) -> str:
        return record[self.answer.field]

    def answer_field(self) -> tuple[str, str]:
        return "/answer/field", self.answer.field

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        field = facts.field(self.answer.field)
        assert field is not None
        if field.empty:
            detail = (
                f"{field.empty:,} records of {facts.name!r} have an empty {field.name!r}. Give "
                "every record an answer."
            )
            yield Problem("/answer/field", "empty_answers", detail)
        else:
            yield from self.unread_answers(facts)

    def chance(self) -> float:
        """Return the accuracy of always giving the most common answer."""
        reference = self.reference_to_records()
        total = reference.splits.train + reference.splits.validation + reference.splits.test
        return reference.majority or 1 / total
