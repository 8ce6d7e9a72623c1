"""What a task declares, torch-free: its knobs, lengths, vocabulary and chance level."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.dataset import DatasetReference, Datasets, WordList
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.splits import Split, enough_length, scarce_splits
from adaptlab.values import PluginName, Value


class Task(Value, ABC):
    """A task as it can be asked for: input tokens, target tokens, one score per item.

    The model sees `input_length` tokens and then its own answer; an item is right when all
    `target_length` answer tokens are.
    """

    title: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]

    name: PluginName

    @abstractmethod
    def vocabulary(self) -> int:
        """The number of tokens a model needs for it."""

    def input_alphabet(self) -> int:
        """The number that every token of a question is below."""
        return self.vocabulary()

    @abstractmethod
    def input_length(self) -> int:
        """Tokens of the question."""

    @abstractmethod
    def target_length(self) -> int:
        """Tokens of the answer."""

    @abstractmethod
    def chance(self) -> float:
        """The exact-match accuracy of uniform guessing over the possible answer tokens."""

    def end_token(self) -> int | None:
        """The token that ends an answer of fewer than `target_length` tokens and fills up the rest.

        Loss and score look at the answer and the first end token, not at the filling. None where
        all answers are of one length.
        """
        return None

    def chance_loss(self) -> float:
        """The loss of uniform guessing, in nats a counted token of the answer."""
        return -math.log(self.chance()) / self.target_length()

    def counted_length(self) -> float:
        """The mean number of tokens of an answer that count, its end token among them.

        Of questions as `chance` takes them. Times a loss it is the nats that an answer costs.
        """
        return self.target_length()

    def sequence_length(self) -> int:
        """Tokens that the model is fed: question and answer without its last token."""
        return self.input_length() + self.target_length() - 1

    def parts(self) -> "tuple[Task, ...]":
        """The tasks whose items it mixes; a task that mixes none is its own only part."""
        return (self,)

    def problems(self) -> tuple[Problem, ...]:
        """Faults of the configuration, with pointers below the task."""
        return ()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """Faults, with pointers below the task, where one of these splits has too few items."""
        return ()

    def settled(self, datasets: Datasets) -> "Task":
        """The task with what depends on a dataset decided; a dataset not among these stays open."""
        return self

    def datasets(self) -> tuple[DatasetReference, ...]:
        """The datasets whose content it needs to make items."""
        return ()

    def with_words(self, lists: Mapping[str, WordList]) -> "Task":
        """The same task with the content of its datasets at hand; `lists` are by digest."""
        return self


@dataclass(frozen=True, slots=True)
class QuestionLaw:
    """How the questions of a digit task are drawn: `length` digits below `alphabet`.

    With `few_distinct`, half of the attempts are rejected when they hold more than five distinct
    digits, which makes repeated digits common (paper, section 5). Where questions are not
    `held_out`, every split draws from all of them. With `listed` they are not drawn digit by digit,
    but taken from the list that it names: tasks whose laws name one list ask the same questions.
    """

    length: int
    alphabet: int
    few_distinct: bool
    held_out: bool = True
    listed: str | None = None


class DigitTask(Task, ABC):
    """A sequence of digits in, a sequence of tokens out that follows from it."""

    headroom: ClassVar[int] = 2
    """Tokens beyond the alphabet, so that a base of one task can also answer `add`."""

    @abstractmethod
    def questions(self) -> QuestionLaw:
        """How its questions are drawn."""

    def asker(self) -> "DigitTask":
        """The task whose questions it asks: itself, unless it is made of others."""
        return self

    @abstractmethod
    def answer_alphabet(self) -> int:
        """The number that every token of an answer is below."""

    def vocabulary(self) -> int:
        """Digits of questions, with headroom, and tokens of answers."""
        return max(self.questions().alphabet + self.headroom, self.answer_alphabet())

    def input_alphabet(self) -> int:
        """That of its questions."""
        return self.questions().alphabet

    def input_length(self) -> int:
        """As many tokens as digits."""
        return self.questions().length


class PlainTask(DigitTask, ABC):
    """A digit task with a law of questions of its own, and by default as many tokens out.

    `length` digits are drawn from an alphabet of `alphabet` digits. With `few_distinct`, half of
    the attempts are rejected when they hold more than five distinct digits.
    """

    length: int = Field(default=10, ge=1, le=512)
    alphabet: int = Field(default=8, ge=2, le=512)
    few_distinct: bool = True

    def questions(self) -> QuestionLaw:
        """The knobs as they are."""
        return QuestionLaw(self.length, self.alphabet, self.few_distinct)

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """At the length, with the smallest that is enough."""
        law = self.questions()
        scarce = scarce_splits(law.length, law.alphabet) if law.held_out else ()
        if not (lacking := [split for split in splits if split in scarce]):
            return ()
        nearest = enough_length(law.alphabet, splits)
        detail = (
            f"{self.name} has no {lacking[0]} items, or next to none, among the "
            f"{law.alphabet**law.length} questions of length {law.length} over {law.alphabet} "
            f"digits; give it a length of at least {nearest}."
        )
        return (Problem("/length", "empty_split", detail, nearest=(nearest,)),)

    def answer_alphabet(self) -> int:
        """That of the questions."""
        return self.alphabet

    def target_length(self) -> int:
        """As many tokens as digits."""
        return self.length

    def chance(self) -> float:
        """Guessing every token of the answer from as many as there are digits."""
        return chance_of(self.alphabet, self.target_length())

    def chance_loss(self) -> float:
        """Guessing from as many tokens as there are digits."""
        return math.log(self.alphabet)


def chance_of(tokens: int, length: int) -> float:
    """Of guessing so many tokens of an answer rightly; never 0, which a float would round it to."""
    return max(float(tokens) ** -length, sys.float_info.min)


TASKS: Registry[type[Task]] = Registry("task", "adaptlab.tasks")

AnyTask = Annotated[Task, ByName(TASKS)]
"""A field of a value that holds any registered one; it is read by name."""
