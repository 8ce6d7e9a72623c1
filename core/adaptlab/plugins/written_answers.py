"""Tasks whose answers are texts that a model writes."""

import math
from abc import ABC
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from adaptlab.errors import Problem
from adaptlab.plugins.answer_decoding import GREEDY, AnswerDecoding
from adaptlab.plugins.metric import AnswerMetric, Metric, metric_named
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.answer_schema import LONGEST_SCHEMA, BadSchema, answer_schema
from adaptlab.text.tokeniser import BYTES_VOCABULARY

TYPICAL_ANSWER = 32


class WrittenAnswers(TextTask, ABC):
    """A task over texts whose answers can be any text."""

    metric: AnswerMetric = "exact_match"
    """figure by which answers are scored"""
    decoding: AnswerDecoding = Field(
        default=GREEDY,
        exclude_if=lambda decoding: decoding == GREEDY,  # older jobs keep their digests
    )
    """how answers are decoded for a metric that reads them"""
    answer_schema: Annotated[str, StringConstraints(max_length=LONGEST_SCHEMA)] | None = Field(
        default=None,
        exclude_if=lambda schema: schema is None,  # older jobs keep their digests
    )
    """JSON Schema (draft 2020-12), as JSON text, that answers should fit, for the metric json"""

    def other_metric(self) -> str | None:
        """Return the metric that is measured beside exact match."""
        return None if self.metric == "exact_match" else self.metric

    def own_metric(self) -> Metric | None:
        """Return the metric beside exact match, with its schema."""
        metric, schema = super().own_metric(), self.answer_schema
        if metric is None or schema is None or not metric.reads_schema:
            return metric
        return metric.with_schema(schema)

    def answer_decoding(self) -> AnswerDecoding:
        """Return how answers are decoded for the metric."""
        return self.decoding

    def usual_answer(self) -> int:
        """Return the limit on the tokens of an answer if the spec has none."""
        return TYPICAL_ANSWER

    def chance_loss(self) -> float:
        """Return the loss of guessing bytes, in nats per token."""
        return math.log(BYTES_VOCABULARY)

    def _schema_problems(self) -> Iterator[Problem]:
        if (schema := self.answer_schema) is None:
            return
        metric = metric_named(self.other_metric())
        if metric is None or not metric.reads_schema:
            detail = f"The metric {self.metric} reads no schema. Leave it out, or choose json."
            yield Problem("/answer_schema", "no_schema_read", detail)
        try:
            answer_schema(schema)
        except BadSchema as error:
            yield Problem("/answer_schema", "bad_schema", f"The schema cannot be used. {error}")

    def _own_problems(self) -> Iterator[Problem]:
        yield from super()._own_problems()
        yield from self._schema_problems()
        metric, decoding = self.own_metric(), self.decoding
        if decoding != GREEDY and (metric is None or metric.needs != "answers"):
            detail = (
                f"With the metric {self.metric} no answer is decoded, so `decoding` has no effect. "
                "Leave it out, or choose a metric that reads answers, such as text_match."
            )
            yield Problem("/decoding", "nothing_decoded", detail)
        if decoding.samples > 1 and not decoding.is_sampled:
            detail = (
                f"With temperature 0, all {decoding.samples} samples are equal. Set a temperature "
                "above 0, or leave `samples` out."
            )
            yield Problem("/decoding/samples", "equal_samples", detail, nearest=(1,))
        if decoding.best_of is not None and decoding.kept != "best":
            detail = "The mean of all samples is kept. Set `kept: best`, or leave `best_of` out."
            yield Problem("/decoding/best_of", "mean_kept", detail)
        elif (decoding.best_of or 1) > decoding.samples:
            detail = (
                f"There are no {decoding.best_of} samples to choose the best of, only "
                f"{decoding.samples}. Raise `samples`, or lower `best_of`."
            )
            nearest = (decoding.samples,)
            yield Problem("/decoding/best_of", "too_few_samples", detail, nearest=nearest)
        if decoding.top_p < 1 and not decoding.is_sampled:
            detail = "With temperature 0, `top_p` has no effect. Set a temperature above 0."
            yield Problem("/decoding/top_p", "nothing_drawn", detail)
