"""What a task declares, torch-free: its knobs, lengths, vocabulary and chance level."""

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import Field

from adaptlab.registry import Registry
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

    @abstractmethod
    def input_length(self) -> int:
        """Tokens of the question."""

    @abstractmethod
    def target_length(self) -> int:
        """Tokens of the answer."""

    @abstractmethod
    def chance(self) -> float:
        """The exact-match accuracy of uniform guessing over the possible answer tokens."""

    def sequence_length(self) -> int:
        """Tokens that the model is fed: question and answer without its last token."""
        return self.input_length() + self.target_length() - 1


class DigitTask(Task, ABC):
    """A sequence of digits in, a sequence of as many digits out.

    `length` digits are drawn from an alphabet of `alphabet` digits. With `few_distinct`, half of
    the attempts are rejected when they hold more than five distinct digits, which makes repeated
    digits common (paper, section 5).
    """

    headroom: ClassVar[int] = 2
    """Tokens beyond the alphabet, so that a base of one task can also answer `add`."""

    length: int = Field(default=10, ge=1, le=512)
    alphabet: int = Field(default=8, ge=2, le=512)
    few_distinct: bool = True

    def vocabulary(self) -> int:
        """The alphabet and the headroom."""
        return self.alphabet + self.headroom

    def input_length(self) -> int:
        """As many tokens as digits."""
        return self.length

    def target_length(self) -> int:
        """As many tokens as digits."""
        return self.length

    def chance(self) -> float:
        """Guessing every digit from the alphabet."""
        return float(self.alphabet) ** -self.length


TASKS: Registry[type[Task]] = Registry("task", "adaptlab.tasks")
