"""A random map from questions to answers, which can only be memorised."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.task import TASKS, PlainTask, QuestionLaw


@TASKS.register("lookup")
class Lookup(PlainTask):
    """Answer with the value of a random map for the question.

    Each of the `alphabet` ** `length` questions has `answer_length` random digits as its answer,
    determined by `map_seed`. No answer can be inferred from others, so every split draws from all
    questions, and a score is the share of the map that was memorised.
    """

    title: ClassVar[str] = "Lookup"
    summary: ClassVar[str] = "A random answer for every question, to measure memory capacity."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 3: maps of tokens"

    name: Literal["lookup"] = "lookup"
    length: int = Field(default=2, ge=1, le=512)
    """digits per input"""
    few_distinct: bool = False
    """repeated digits are common in the inputs"""
    answer_length: int = Field(default=1, ge=1, le=512)
    """digits per answer"""
    map_seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """seed of the map from inputs to answers"""

    def questions(self) -> QuestionLaw:
        return QuestionLaw(self.length, self.alphabet, self.few_distinct, held_out=False)

    def target_length(self) -> int:
        return self.answer_length
