"""Completion of conversations by the assistant's last turn."""

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.metric import AnswerMetric
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.conversations import conversation_in
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.text.template import Template, TemplatePiece
from adaptlab.text.tokeniser import BYTES_VOCABULARY
from adaptlab.values import Value

TYPICAL_ANSWER = 32


class ConversationField(Value):
    """The field with lists of messages."""

    field: FieldName


@TASKS.register("chat_completion")
class ChatCompletion(TextTask):
    """Continue a conversation with the assistant's last turn.

    The earlier turns are the prompt. All are written by the base model's own chat template, or by a
    plain one if it has none. The answer ends with the special token that the template writes after
    a turn, or else with the token that ends a text. An item is correct if greedy generation gives
    exactly this answer. Training minimises the loss on the last turn only.

    `metric` is as for `text_completion`.
    """

    title: ClassVar[str] = "Chat completion"
    summary: ClassVar[str] = "The assistant's last turn in conversations of your own dataset."
    reference: ClassVar[str] = "Ouyang et al. (NeurIPS 2022), section 3.5, supervised fine-tuning"
    ends: ClassVar[bool] = True

    name: Literal["chat_completion"] = "chat_completion"
    messages: ConversationField
    """field of the dataset that holds the conversations"""
    metric: AnswerMetric = "exact_match"
    """figure by which answers are scored"""

    def other_metric(self) -> str | None:
        return None if self.metric == "exact_match" else self.metric

    def template(self) -> Template:
        """Return a prompt of the conversation alone.

        The model's own template is not known here.
        """
        return Template((TemplatePiece(self.messages.field, is_field=True),))

    def templates(self) -> Iterator[tuple[str, Template]]:
        """Yield nothing: the field is that of the answer."""
        yield from ()

    def conversations(self) -> str:
        return self.messages.field

    def answer_text(self, record: Record) -> str:
        messages = conversation_in(record[self.messages.field])
        return messages[-1].content if messages else ""

    def usual_answer(self) -> int:
        return TYPICAL_ANSWER

    def answer_field(self) -> tuple[str, str]:
        return "/messages/field", self.messages.field

    def majority(self, facts: RecordsFacts) -> None:
        """Return None: answers are not counted apart from their conversations."""

    def longest_demonstration(self, separator: str) -> None:
        """Return None: a conversation is not put before another."""

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        field = facts.field(self.messages.field)
        assert field is not None
        figures = field.conversations
        if figures is None:
            detail = (
                f"The field {field.name!r} of {facts.name!r} is not a list of messages in every "
                'record. Upload JSON lines with lists such as [{"role": "user", "content": "…"}, '
                '{"role": "assistant", "content": "…"}], or use text_completion.'
            )
            yield Problem("/messages/field", "not_conversations", detail)
        elif figures.unanswered:
            detail = (
                f"{figures.unanswered:,} conversations of {facts.name!r} do not end with the "
                "assistant's turn, which is the answer. Add it, or leave these records out."
            )
            yield Problem("/messages/field", "empty_answers", detail)

    def chance(self) -> float:
        """Return the accuracy of always giving the answer to one of the records."""
        splits = self.reference_to_records().splits
        return 1 / (splits.train + splits.validation + splits.test)

    def chance_loss(self) -> float:
        """Return the loss of guessing bytes, per token."""
        return math.log(BYTES_VOCABULARY)

    def _own_problems(self) -> Iterator[Problem]:
        yield from super()._own_problems()
        if self.tokens.if_longer == "cut":
            detail = (
                "Conversations are not cut, because a chat template needs whole turns. Raise "
                "`longest`, or leave long conversations out of the dataset."
            )
            yield Problem("/tokens/if_longer", "not_cut", detail, allowed=("refuse",))
        if self.tokens.cut.field is not None:
            detail = "Conversations are not cut. Leave the field to cut out."
            yield Problem("/tokens/cut/field", "not_cut", detail)
