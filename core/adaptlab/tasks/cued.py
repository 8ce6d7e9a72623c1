"""A task whose questions begin with a cue."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.dataset import AnyReference, Datasets, WordList
from adaptlab.plugins.inner_tasks import InnerTask, inner_problems
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw, Task

SPARE = 1
"""Tokens above the cue, so that a new task can have a cue that the base model never saw."""


@TASKS.register("cued")
class Cued(DigitTask):
    """Put the token `cue` before every question of `task`.

    In a mixture of cued tasks, the cue tells a model which task is meant, so that it can do all of
    them, and a score on one of them shows if the model still can. A cue is no token of questions or
    answers; the vocabulary has room for one cue more.
    """

    title: ClassVar[str] = "Cued task"
    summary: ClassVar[str] = "Another task, with a token before the question that names it."
    reference: ClassVar[str] = "Raffel et al. (JMLR 2020), section 2.4: prefixes of tasks"

    name: Literal["cued"] = "cued"
    task: InnerTask = Field(default=cast("DigitTask", "sort_ascending"), validate_default=True)
    """task whose questions get the cue, as a name or JSON"""
    cue: Annotated[int, Field(ge=2, le=2048)] = 10
    """token before every question, above those of questions and answers"""

    def cues(self) -> tuple[int, ...]:
        return (self.cue,)

    def questions(self) -> QuestionLaw:
        return self.task.questions()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        problems = self.task.split_problems(splits)
        return tuple(replace(problem, pointer=f"/task{problem.pointer}") for problem in problems)

    def asker(self) -> DigitTask:
        """Return the task that draws the questions."""
        return self.task.asker()

    def settled(self, datasets: Datasets) -> Task:
        return self.model_copy(update={"task": self.task.settled(datasets)})

    def datasets(self) -> tuple[AnyReference, ...]:
        return self.task.datasets()

    def with_words(self, lists: Mapping[str, WordList]) -> Task:
        return self.model_copy(update={"task": self.task.with_words(lists)})

    def answer_alphabet(self) -> int:
        return self.task.answer_alphabet()

    def vocabulary(self) -> int:
        """Return the number of tokens up to the cue, and one more."""
        return self.cue + 1 + SPARE

    def input_alphabet(self) -> int:
        """Return the number of tokens up to the cue."""
        return self.cue + 1

    def input_error(self, tokens: Sequence[int]) -> str | None:
        """Return the reason why tokens are no question with this cue, if any."""
        if tokens[0] == self.cue and self.task.input_error(tokens[1:]) is None:
            return None
        return (
            f"An input of this task has the cue {self.cue} and then {self.task.input_length()} "
            f"tokens, each below {self.task.input_alphabet()}."
        )

    def written(self, tokens: Sequence[int]) -> str:
        """Return tokens as people read them, a cue in brackets."""
        if not tokens or tokens[0] != self.cue:
            return self.task.written(tokens)
        return f"[{self.cue}] {self.task.written(tokens[1:])}"

    def target_length(self) -> int:
        return self.task.target_length()

    def end_token(self) -> int | None:
        return self.task.end_token()

    def chance(self) -> float:
        return self.task.chance()

    def constant_answer(self) -> float:
        return self.task.constant_answer()

    def chance_loss(self) -> float:
        return self.task.chance_loss()

    def counted_length(self) -> float:
        return self.task.counted_length()

    def problems(self) -> tuple[Problem, ...]:
        problems = inner_problems({"/task": self.task})
        needed = self.task.vocabulary()
        if problems or self.cue >= needed:
            return problems
        detail = (
            f"Questions and answers of {self.task.name} use the tokens below {needed}, so "
            f"{self.cue} would be no cue. Use {needed} or more."
        )
        return (Problem("/cue", "cue_is_a_digit", detail, nearest=(needed,)),)
