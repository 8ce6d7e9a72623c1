"""Completion of prompts by texts of a dataset."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.figures import counted
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import PromptedTask
from adaptlab.plugins.written_answers import WrittenAnswers
from adaptlab.records.accepted_answers import NotAnswers, Several, accepted_in, wanted
from adaptlab.records.facts import FieldFacts, RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.values import Value


class AnswerField(Value):
    """The field with the answer, or with several right ones.

    With `several: list` it holds a JSON list of texts or a single text, with `bars` texts between
    vertical bars.
    """

    field: FieldName
    several: Several | None = Field(
        default=None,
        exclude_if=lambda several: several is None,  # older jobs keep their digests
    )


@TASKS.register("text_completion")
class TextCompletion(WrittenAnswers, PromptedTask):
    """Continue a record's prompt with its answer, token for token.

    The answer ends with the token that ends a text, if the tokeniser has one. An item is correct if
    greedy generation gives exactly this answer. Training minimises the loss on the answer only.

    With another `metric`, it is measured beside exact match, and trials are chosen by it on
    validation. Metrics that compare answers decode those of validation and test items, greedily
    unless `decoding` says otherwise; perplexity and bits per byte, of which the lowest is the best,
    follow from the right answers.

    If records have several right answers, training has the first one, and exact match and metrics
    that compare answers any of them. Where they have none, as some questions of SQuAD 2.0, the
    empty answer is the right one.
    """

    title: ClassVar[str] = "Text completion"
    summary: ClassVar[str] = "Prompts and answers of your own dataset, by exact match."
    reference: ClassVar[str] = "Brown et al. (NeurIPS 2020), section 2"
    ends: ClassVar[bool] = True

    name: Literal["text_completion"] = "text_completion"
    answer: AnswerField
    """field of the dataset that holds the answer"""

    def answer_text(self, record: Record) -> str:
        return self.accepted(record)[0]

    def accepted(self, record: Record) -> tuple[str, ...]:
        value, several = record[self.answer.field], self.answer.several
        return (value,) if several is None else accepted_in(value, several)

    def accepts_several(self) -> bool:
        return self.answer.several is not None

    def wanted_answers(self) -> str:
        assert self.answer.several is not None
        return f"Give {wanted(self.answer.several)}."

    def own_metric(self) -> Metric | None:
        metric = super().own_metric()
        return metric if metric is None or self.answer.several is None else metric.of_several()

    def majority(self, facts: RecordsFacts) -> float | None:
        """Return the largest share of records with one right answer, if known."""
        if self.answer.several is None:
            return super().majority(facts)
        field = facts.field(self.answer.field)
        if field is None or field.values is None:
            return None
        counts: Counter[str] = Counter()
        for entry in field.values:
            with suppress(NotAnswers):  # the job refuses such values
                for answer in accepted_in(entry.value, self.answer.several):
                    counts[answer] += entry.count
        return max(counts.values()) / facts.records if counts else None

    def answer_field(self) -> tuple[str, str]:
        return "/answer/field", self.answer.field

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        field = facts.field(self.answer.field)
        assert field is not None
        without = field.answers.unanswered - field.empty if field.answers else 0
        if field.empty:
            detail = (
                f"{field.empty:,} records of {facts.name!r} have an empty {field.name!r}. Give "
                "every record an answer; where a question has none, a text that says so, or `[]` "
                "with `several: list`. SQuAD's objects become that when they are uploaded again."
            )
            yield Problem("/answer/field", "empty_answers", detail)
        elif self.answer.several is None:
            yield from self.unread_answers(facts)
            yield from self._unread_lists(facts.name, field)
        elif without:
            yield from self._misfits_without_answers(facts.name, without)

    def _misfits_without_answers(self, dataset: str, count: int) -> Iterator[Problem]:
        """Yield the problem of missing answers that are not read as such."""
        metric = self.own_metric()
        if self.answer.several == "bars":
            detail = f"{count:,} records of {dataset!r} have an empty list. Set `several: list`."
            yield Problem("/answer/several", "empty_answers", detail)
        elif metric is not None and not metric.counts_no_answer:
            detail = (
                f"{count:,} records of {dataset!r} have no right answer, which {self.metric} "
                "cannot count. Use squad_f1, squad_exact_match, token_f1 or text_match."
            )
            yield Problem("/metric", "empty_answers", detail)

    def _unread_lists(self, dataset: str, field: FieldFacts) -> Iterator[Problem]:
        """Yield the problem of lists of answers that would be read as text.

        As JSON they can be the answer.
        """
        if field.answers is None or self.metric == "json":
            return
        detail = (
            f"Records of {dataset!r} have up to {counted(field.answers.most, 'right answer')} in "
            f"{field.name!r}, as lists. Set `answer: {{field: {field.name}, several: list}}`, or "
            "`metric: json` if the list itself is the answer."
        )
        yield Problem("/answer", "several_answers", detail)

    def chance(self) -> float:
        """Return the accuracy of always giving the most common answer."""
        reference = self.reference_to_records()
        total = reference.splits.train + reference.splits.validation + reference.splits.test
        return reference.majority or 1 / total

    def _own_problems(self) -> Iterator[Problem]:
        yield from super()._own_problems()
        metric = self.own_metric()
        if self.answer.several is not None and metric is not None and metric.needs != "answers":
            detail = (
                f"The metric {self.metric} reads the first right answer only. Choose exact_match, "
                "or a metric that compares answers, such as text_match."
            )
            yield Problem("/answer/several", "first_answer_only", detail)
