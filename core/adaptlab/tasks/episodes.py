"""Classification of phrases by demonstrations in the input."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw

Labels = Literal["random", "permuted", "fixed"]

FEWEST_PHRASES = 256
"""With fewer phrases of a class, a split might have none."""
SEPARATOR = "\N{RIGHTWARDS ARROW}"
BREAK = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"


@TASKS.register("episodes")
class Episodes(DigitTask):
    """Answer with the label of a phrase, as demonstrations define it.

    A phrase is `phrase` words of one class. There are `kinds` classes with `words` words each, and
    as many label tokens. An episode has `ways` classes and a label for each. It consists of `shots`
    demonstrations per class in random order (a phrase, a separator, its label and a line break) and
    the query: another phrase of one of the classes, and a separator. The answer is a label.

    With `labels: random`, classes and labels are drawn per episode, so only the demonstrations
    define the label of a class. With `permuted`, the labels of the demonstrations are then
    shuffled, and the answer cannot be inferred: the control of `random`. With `fixed`, classes and
    labels are drawn once, by `map_seed`, for a task to which a base is adapted. The question is
    then the query alone if `shots` is 0.

    In training, all labels of an episode are targets, and a share of `natural_share` of the first
    `natural_items` items per seed uses one label per class in all episodes, which helps small
    decoders to leave chance.

    The query decides the split by its hash, and demonstrations are training phrases in every split.
    So the phrases of validation and test queries occur nowhere in training; words, classes, labels
    and their pairs do.
    """

    title: ClassVar[str] = "Episodes"
    summary: ClassVar[str] = "The label of a phrase's class, by demonstrations in the input."
    reference: ClassVar[str] = "setting of Wang et al. (EMNLP 2023), with synthetic words"

    name: Literal["episodes"] = "episodes"
    kinds: int = Field(default=8, ge=2, le=64)
    """number of classes, of which an episode has some"""
    words: int = Field(default=16, ge=2, le=512)
    """number of words; of episodes, per class"""
    phrase: int = Field(default=2, ge=1, le=16)
    """words per phrase"""
    ways: int = Field(default=2, ge=2, le=16)
    """classes per episode"""
    shots: int = Field(default=2, ge=0, le=16)
    """demonstrations per class"""
    labels: Labels = "random"
    """how demonstrations define labels: random, permuted or fixed"""
    map_seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """seed of the map from inputs to answers"""
    natural_share: float = Field(default=0.5, ge=0, le=1)
    """share of these items with one label per class in all episodes"""
    natural_items: int = Field(default=100_000, ge=0, le=2**31 - 1)
    """first items per seed that may have one label per class"""

    @property
    def first_label(self) -> int:
        """The token of the first label; word tokens are below it."""
        return self.kinds * self.words

    @property
    def separator(self) -> int:
        """The token between a phrase and its label."""
        return self.first_label + self.kinds

    @property
    def line_break(self) -> int:
        """The token after the label of a demonstration."""
        return self.separator + 1

    @property
    def demonstrations(self) -> int:
        """The number of demonstrations of an episode."""
        return self.ways * self.shots

    @property
    def demonstration_length(self) -> int:
        """The number of tokens of a demonstration."""
        return self.phrase + 3

    def questions(self) -> QuestionLaw:
        own = (self.kinds, self.words, self.phrase, self.ways, self.shots, self.labels)
        fixed = f" by {self.map_seed}" if self.labels == "fixed" else ""
        return QuestionLaw(
            self.input_length(),
            self.vocabulary(),
            few_distinct=False,
            listed=f"episodes of {' '.join(map(str, own))}{fixed}",
            decisive=self.phrase + 1,
        )

    def vocabulary(self) -> int:
        """Return the number of words, labels, separator and line break."""
        return self.line_break + 1

    def answer_alphabet(self) -> int:
        return self.separator

    def input_length(self) -> int:
        return self.demonstrations * self.demonstration_length + self.phrase + 1

    def also_trained(self) -> tuple[int, ...]:
        """Return the places of the labels of demonstrations."""
        label, step = self.phrase + 1, self.demonstration_length
        return tuple(label + step * place for place in range(self.demonstrations))

    def demonstration_end(self) -> int | None:
        """Return the line break, None if questions have demonstrations."""
        return None if self.shots else self.line_break

    def target_length(self) -> int:
        return 1

    def chance(self) -> float:
        """Return the accuracy of guessing one of the episode's labels."""
        return 1 / self.ways

    def chance_loss(self) -> float:
        """Return the loss of guessing one of the episode's labels."""
        return math.log(self.ways)

    def written(self, tokens: Sequence[int]) -> str:
        """Return `3.12` for word 12 of class 3, and `L5` for label 5."""
        return " ".join(map(self._sign, tokens))

    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._misfits())

    def _sign(self, token: int) -> str:
        if token < self.first_label:
            return "{}.{}".format(*divmod(token, self.words))
        if token < self.separator:
            return f"L{token - self.first_label}"
        return {self.separator: SEPARATOR, self.line_break: BREAK}.get(token, str(token))

    def _misfits(self) -> Iterator[Problem]:
        if self.ways > self.kinds:
            detail = (
                f"An episode cannot have {self.ways} of {self.kinds} classes. Use {self.kinds} ways"
                " or fewer."
            )
            yield Problem("/ways", "too_many_ways", detail, nearest=(self.kinds,))
        if self.shots == 0 and self.labels != "fixed":
            detail = (
                f"Without demonstrations nothing defines {self.labels} labels. Use `labels: fixed`"
                " or one shot."
            )
            yield Problem("/shots", "nothing_defines_labels", detail, nearest=(1,))
        if (count := self.words**self.phrase) < FEWEST_PHRASES:
            words = math.ceil(FEWEST_PHRASES ** (1 / self.phrase))
            detail = (
                f"A class with {self.words} words has {count} phrases of {self.phrase}, too few "
                f"for three splits. Use {words} words or longer phrases."
            )
            yield Problem("/words", "too_few_phrases", detail, nearest=(words,))
