"""Drift on texts that no task is about."""

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import TextTask, TokenLimits
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.text.splitting import SplitRule, SplitsByField
from adaptlab.text.template import Template, literal, parsed
from adaptlab.text.tokeniser import BYTES_VOCABULARY

LONGEST_PASSAGE = 480
START = "\n"


@TASKS.register("neutral_text")
class NeutralText(TextTask):
    """Read passages, to be watched under `evaluation.tasks`, not trained on.

    Every token of a passage is predicted after those before it, the first after a line feed; space
    in front of a passage is left out. What is kept of each passage are KL(base || adapted) and the
    loss in nats, its tokens and its bytes: drift needs no cue, because the text is one. The base
    model is measured alone, without anything that a method attaches. Passages of one `cluster`,
    such as a chapter, count together.
    """

    title: ClassVar[str] = "Neutral texts"
    summary: ClassVar[str] = "Drift from the base model on texts of a dataset; watched only."
    reference: ClassVar[str] = "Biderman et al. (TMLR 2024), section 5: what is forgotten"
    ends: ClassVar[bool] = False
    only_watched: ClassVar[bool] = True

    name: Literal["neutral_text"] = "neutral_text"
    text: FieldName = "text"
    """field of the dataset with the passages"""
    cluster: FieldName | None = "chapter"
    """field that groups passages which belong together, such as a chapter"""
    tokens: TokenLimits = TokenLimits(longest=LONGEST_PASSAGE + 32, answer=LONGEST_PASSAGE)
    """most tokens of a passage"""
    splits: SplitRule = SplitsByField(field="split")
    """passages that are read: those of the test split"""
    metric: Literal["kl_from_base"] = "kl_from_base"
    """figure that is kept of every passage"""

    @classmethod
    def has_right_answers(cls, task: Mapping[str, object]) -> bool:
        return False

    def other_metric(self) -> str | None:
        return self.metric

    def template(self) -> Template:
        return parsed(literal(START))

    def answer_text(self, record: Record) -> str:
        # A tokeniser may join the line feed in front with space that follows.
        return record[self.text].lstrip()

    def usual_answer(self) -> int:
        return LONGEST_PASSAGE

    def answer_field(self) -> tuple[str, str]:
        return "/text", self.text

    def split_rule(self) -> SplitRule:
        """Return the rule; shares are those of clusters, or of passages."""
        if isinstance(self.splits, SplitsByField) or self.splits.by:
            return self.splits
        return self.splits.model_copy(update={"by": self.cluster or self.text})

    def cut_field(self) -> str:
        return self.text

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        field = facts.field(self.text)
        assert field is not None
        if field.empty:
            detail = (
                f"{field.empty:,} records of {facts.name!r} have an empty {field.name!r}. Give "
                "every record a text."
            )
            yield Problem("/text", "empty_texts", detail)

    def chance(self) -> float:
        """Return 0: no passage is guessed."""
        return 0.0

    def chance_loss(self) -> float:
        """Return the loss of guessing bytes, per token."""
        return math.log(BYTES_VOCABULARY)
