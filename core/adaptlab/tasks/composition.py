"""One task applied to the answer of another."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, cast

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.dataset import AnyReference, Datasets, WordList
from adaptlab.plugins.inner_tasks import InnerTask, inner_problems
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw, Task


@TASKS.register("composition")
class Composition(DigitTask):
    """Answer as `then` would answer the answer of `first`.

    Questions are those of `first`. Its answers must have the form of questions of `then`: the same
    length, and all tokens below the alphabet. The distribution of `then`'s questions has no effect.
    """

    title: ClassVar[str] = "Composition"
    summary: ClassVar[str] = "The answer of one task is the question of the next."
    reference: ClassVar[str] = "extended experiments of Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["composition"] = "composition"
    first: InnerTask = Field(default=cast("DigitTask", "sort_ascending"), validate_default=True)
    """task whose answers are answered again, as a name or JSON"""
    then: InnerTask = Field(default=cast("DigitTask", "add"), validate_default=True)
    """task that answers the first one's answers, as a name or JSON"""

    def questions(self) -> QuestionLaw:
        return self.first.questions()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        problems = self.first.split_problems(splits)
        return tuple(replace(problem, pointer=f"/first{problem.pointer}") for problem in problems)

    def asker(self) -> DigitTask:
        """Return the task that draws the questions of `first`."""
        return self.first.asker()

    def settled(self, datasets: Datasets) -> Task:
        return self._with(lambda task: task.settled(datasets))

    def datasets(self) -> tuple[AnyReference, ...]:
        return (*self.first.datasets(), *self.then.datasets())

    def with_words(self, lists: Mapping[str, WordList]) -> Task:
        return self._with(lambda task: task.with_words(lists))

    def _with(self, change: Callable[[DigitTask], Task]) -> Task:
        changed = {"first": change(self.first), "then": change(self.then)}
        return self.model_copy(update=changed)

    def answer_alphabet(self) -> int:
        return self.then.answer_alphabet()

    def vocabulary(self) -> int:
        """Return the larger vocabulary of the two tasks."""
        return max(self.first.vocabulary(), self.then.vocabulary())

    def target_length(self) -> int:
        return self.then.target_length()

    def end_token(self) -> int | None:
        """Return the end token of `then`."""
        return self.then.end_token()

    def chance(self) -> float:
        """Return the chance level of `then`."""
        return self.then.chance()

    def chance_loss(self) -> float:
        """Return the chance loss of `then`."""
        return self.then.chance_loss()

    def counted_length(self) -> float:
        """Return the counted length of `then` for its own questions."""
        return self.then.counted_length()

    def problems(self) -> tuple[Problem, ...]:
        inner = {"/first": self.first, "/then": self.then}
        return inner_problems(inner) or tuple(self._misfits())

    def _misfits(self) -> Iterator[Problem]:
        """Yield the reasons why answers of `first` are not questions of `then`."""
        first, law = self.first, self.then.questions()
        if law.listed is not None:
            detail = f"{self.then.name} has questions from {law.listed} only. Use it as `first`."
            yield Problem("/then/name", "asked_from_a_list", detail)
            return
        length, below = first.target_length(), first.answer_alphabet()
        if law.length != length:
            detail = (
                f"Answers of {first.name} have {length} tokens, but questions of {self.then.name} "
                f"have {law.length}. Set its length to {length}."
            )
            yield Problem("/then/length", "length_does_not_match", detail, nearest=(length,))
        if law.alphabet < below:
            detail = (
                f"Answers of {first.name} have tokens below {below}, but questions of "
                f"{self.then.name} have digits below {law.alphabet}. Set its alphabet to {below} "
                "or more."
            )
            yield Problem("/then/alphabet", "alphabet_too_small", detail, nearest=(below,))
