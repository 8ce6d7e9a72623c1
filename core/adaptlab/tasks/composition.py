"""One task applied to the answer of another."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, cast

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.dataset import DatasetReference, Datasets, WordList
from adaptlab.plugins.inner_tasks import InnerTask, inner_problems
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw, Task


@TASKS.register("composition")
class Composition(DigitTask):
    """Answer as `then` would if asked the answer of `first`.

    Questions are those of `first`. Answers of `first` must be questions that `then` has: as
    many tokens as its length, all below its alphabet; its sampling rule does not matter.
    """

    title: ClassVar[str] = "Composition"
    summary: ClassVar[str] = "The answer of one task is the question of the next."
    reference: ClassVar[str] = "extended experiments beside Petrov, Torr, Bibi (ICLR 2024)"

    name: Literal["composition"] = "composition"
    first: InnerTask = Field(default=cast("DigitTask", "sort_ascending"), validate_default=True)
    then: InnerTask = Field(default=cast("DigitTask", "add"), validate_default=True)

    def questions(self) -> QuestionLaw:
        return self.first.questions()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        faults = self.first.split_problems(splits)
        return tuple(replace(fault, pointer=f"/first{fault.pointer}") for fault in faults)

    def asker(self) -> DigitTask:
        """That of the task that is asked first."""
        return self.first.asker()

    def settled(self, datasets: Datasets) -> Task:
        return self._with(lambda task: task.settled(datasets))

    def datasets(self) -> tuple[DatasetReference, ...]:
        return (*self.first.datasets(), *self.then.datasets())

    def with_words(self, lists: Mapping[str, WordList]) -> Task:
        return self._with(lambda task: task.with_words(lists))

    def _with(self, change: Callable[[DigitTask], Task]) -> Task:
        changed = {"first": change(self.first), "then": change(self.then)}
        return self.model_copy(update=changed)

    def answer_alphabet(self) -> int:
        return self.then.answer_alphabet()

    def vocabulary(self) -> int:
        """As many tokens as either needs."""
        return max(self.first.vocabulary(), self.then.vocabulary())

    def target_length(self) -> int:
        return self.then.target_length()

    def end_token(self) -> int | None:
        """That of the task that gives the answer."""
        return self.then.end_token()

    def chance(self) -> float:
        """That of the task that gives the answer."""
        return self.then.chance()

    def chance_loss(self) -> float:
        """That of the task that gives the answer."""
        return self.then.chance_loss()

    def counted_length(self) -> float:
        """That of the task that gives the answer, as if it were asked its own questions."""
        return self.then.counted_length()

    def problems(self) -> tuple[Problem, ...]:
        inner = {"/first": self.first, "/then": self.then}
        return inner_problems(inner) or tuple(self._misfits())

    def _misfits(self) -> Iterator[Problem]:
        """Where the answers of `first` are no questions of `then`."""
        given, law = self.first, self.then.questions()
        if law.listed is not None:
            detail = f"{self.then.name} is asked {law.listed} only; put it first."
            yield Problem("/then/name", "asked_from_a_list", detail)
            return
        length, below = given.target_length(), given.answer_alphabet()
        if law.length != length:
            detail = (
                f"{given.name} answers with {length} tokens and {self.then.name} is asked "
                f"{law.length}; give it the length {length}."
            )
            yield Problem("/then/length", "length_does_not_match", detail, nearest=(length,))
        if law.alphabet < below:
            detail = (
                f"{given.name} answers with tokens below {below} and {self.then.name} is asked "
                f"digits below {law.alphabet}; give it an alphabet of at least {below}."
            )
            yield Problem("/then/alphabet", "alphabet_too_small", detail, nearest=(below,))
