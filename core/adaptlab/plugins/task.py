"""Declaration of a task without torch."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.answer_decoding import GREEDY, AnswerDecoding
from adaptlab.plugins.answer_judge import AnswerJudge
from adaptlab.plugins.dataset import AnyReference, Datasets, WordList
from adaptlab.plugins.described_fields import DescribedFields
from adaptlab.plugins.family import Family
from adaptlab.plugins.images import ImageSize, items_of
from adaptlab.plugins.metric import Metric, metric_named
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.splits import Split, enough_length, scarce_splits
from adaptlab.records.task_groups import GroupMember
from adaptlab.text.lengths import MeanBytes
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import Tokeniser
from adaptlab.values import PluginName


class Task(DescribedFields, ABC):
    """A task with input tokens, target tokens and one score per item.

    The model reads `input_length` tokens and then its own answer. An item is correct if all of its
    answer's counted tokens are, of which there are at most `target_length`.
    """

    title: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    hub_task: ClassVar[str] = "text-generation"
    """The hub's word for such tasks, in the metadata of model cards."""
    needs_tokeniser: ClassVar[bool] = False
    """True if items are texts, which differ in length and have other tokens for other bases."""
    needs_records: ClassVar[bool] = False
    """True if its items are records of a dataset."""
    only_watched: ClassVar[bool] = False
    """True if it is never trained on, and scored beside a job's own task."""

    name: PluginName

    @abstractmethod
    def vocabulary(self) -> int:
        """Return the number of tokens that a model needs."""

    def input_alphabet(self) -> int:
        """Return a number that every token of a question is below."""
        return self.vocabulary()

    @abstractmethod
    def input_length(self) -> int:
        """Return the number of tokens of a question."""

    def input_error(self, tokens: Sequence[int]) -> str | None:
        """Return the reason why tokens are no question, None if they are one."""
        if len(tokens) == self.input_length() and max(tokens) < self.input_alphabet():
            return None
        return (
            f"An input of {self.name} has {self.input_length()} tokens, each below "
            f"{self.input_alphabet()}."
        )

    def input_problem(self) -> Problem | None:
        """Return the reason why only its own items can be asked, None if any can."""
        return None

    @abstractmethod
    def target_length(self) -> int:
        """Return the number of tokens of an answer."""

    @abstractmethod
    def chance(self) -> float:
        """Return the exact-match accuracy of uniform guessing of answer tokens."""

    def constant_answer(self) -> float:
        """Return the accuracy of the best constant answer, 0 if unknown."""
        return 0.0

    def classes(self) -> int | None:
        """Return the number of classes among which a trained head chooses.

        The result is None if the model's own head answers, with tokens.
        """
        return None

    @classmethod
    def own_label(cls, task: Mapping[str, object]) -> str | None:
        """Return a task's label, given or resolved, in place of the usual one.

        By default there is none, and a task is named by its name, dataset or knobs.
        """
        return None

    @classmethod
    def looked_up(cls, choice: Mapping[str, object], datasets: Datasets) -> Iterable[str]:
        """Return names of datasets that follow from a choice without being in it.

        Args:
            choice: the task as a spec names it, unchecked.
            datasets: those that are known, which can lead to others.
        """
        return ()

    @classmethod
    def has_right_answers(cls, task: Mapping[str, object]) -> bool:
        """Return True if items of a resolved task can be right.

        By default they can. Texts that are read as a whole have figures only.
        """
        return True

    def written(self, tokens: Sequence[int]) -> str:
        """Return tokens as people read them, by default as numbers."""
        return " ".join(map(str, tokens))

    def also_trained(self) -> tuple[int, ...]:
        """Return the places in a question of tokens that training predicts too.

        They are in ascending order, and the first token of a question is not among them.
        """
        return ()

    def longest_demonstration(self, separator: str) -> int | None:
        """Return the most tokens of an item with its answer and a separator.

        The result is None if items of the task cannot be put before others.
        """
        return None

    def other_metric(self) -> str | None:
        """Return the metric that is measured beside the share of right items.

        Trials are chosen, and verdicts given, by that share.
        """
        return None

    def own_metric(self) -> Metric | None:
        """Return that metric as the task sets it, None without one."""
        return metric_named(self.other_metric())

    def answer_decoding(self) -> AnswerDecoding:
        """Return how answers are decoded for a metric that reads them."""
        return GREEDY

    def answer_judge(self) -> AnswerJudge | None:
        """Return what decides by texts which answers are right.

        The result is None if an answer is right where its tokens are.
        """
        return None

    def without_stop(self, text: str) -> str:
        """Return a decoded answer before the sequence that ends it."""
        judge = self.answer_judge()
        return self.answer_decoding().cut(text) if judge is None else judge.cut(text)

    def compares_with_empty(self) -> bool:
        """Return True if answers are calibrated by those to an empty input."""
        return False

    def end_token(self) -> int | None:
        """Return the token that ends a short answer and pads the rest.

        Loss and score consider the answer and the first end token, but not the padding. The result
        is None if all answers have the same length.
        """
        return None

    def chance_loss(self) -> float:
        """Return the loss of uniform guessing in nats per counted token."""
        return -math.log(self.chance()) / self.target_length()

    def counted_length(self) -> float:
        """Return the mean number of counted tokens of an answer.

        The first end token counts. Questions are distributed as for `chance`. Multiplied by a loss
        it gives the nats per answer.
        """
        return self.target_length()

    def sequence_length(self) -> int:
        """Return the tokens that the model reads: all but the answer's last one."""
        return self.input_length() + self.target_length() - 1

    def content_length(self, family: Family, length: int | None = None) -> int:
        """Return the positions of the content of an item of `length` tokens.

        By default, it is the longest item.
        """
        length = self.sequence_length() if length is None else length
        if self.classes() is not None:
            return family.positions_of(length)
        return family.content_length(length)

    def class_values(self) -> tuple[str, ...]:
        """Return the answers by the outputs of a trained head.

        The result is empty if the model's own head answers.
        """
        return ()

    def listed_answers(self) -> Mapping[str, str | None]:
        """Return the answers that can be given, as text, by their labels.

        The text is None if it differs between items. The result is empty if any tokens can be the
        answer.
        """
        return {value: value for value in self.class_values()}

    def image(self) -> ImageSize | None:
        """Return the size of the items, if they are images."""
        return None

    def passes_of_choices(self) -> int:
        """Return the passes in which the choices of an item are compared.

        They come on top of the one with the right answer; 0 if that is enough, or if the number
        depends on the tokeniser.
        """
        return 0

    def passes_of_decoding(self) -> int:
        """Return the passes over all items that decoding adds to scoring.

        It goes on from the pass that scores the right answers. Its tokens, one of every unfinished
        answer at a time, together take about as long as one more pass for each sample; 0 if none is
        decoded.
        """
        metric = self.own_metric()
        is_decoded = metric is not None and metric.needs == "answers"
        is_decoded = is_decoded or self.answer_judge() is not None
        return self.answer_decoding().samples if is_decoded else 0

    def shown(self, count: int) -> int:
        """Return the test items whose answers are shown, at most `count`."""
        return self.at_most("test", count)

    def parts(self) -> "tuple[Task, ...]":
        """Return the tasks of a mixture, or the task itself."""
        return (self,)

    def scored_as(self) -> "tuple[Task, ...]":
        """Return the tasks that are scored one by one if this one is named."""
        return (self,)

    def group_member(self) -> GroupMember | None:
        """Return what it is in a group of tasks whose scores are averaged."""

    def problems(self) -> tuple[Problem, ...]:
        """Return the errors of the configuration, with pointers below the task."""
        return ()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """Return the problem of too few items in one of these splits."""
        return ()

    def reading_problem(self, family: Family) -> Problem | None:
        """Return the problem of a model that cannot read or answer any item."""
        if self.image() != family.image():
            detail = (
                f"The items of {self.name} are {items_of(self.image())}. This {family.name} reads "
                f"{items_of(family.image())}. Use another model or another task."
            )
            return Problem("", "other_items", detail)
        if self.classes() is None and not family.predicts_tokens():
            detail = (
                f"The model has no head that predicts tokens, which {self.name} needs. Use "
                "text_classification with `score: head`."
            )
            return Problem("", "no_token_head", detail)
        return None

    def mask_problem(self, family: Family) -> Problem | None:
        """Return the problem of a model whose mask is one of the task's tokens."""
        mask = family.mask() if self.classes() is None else None
        if mask is None or self.vocabulary() <= mask:
            return None
        detail = (
            f"{self.name} has tokens up to {self.vocabulary() - 1}, and {mask} is the model's mask "
            f"token. Use a task with at most {mask} tokens."
        )
        return Problem("", "mask_is_a_token", detail, nearest=(mask,))

    def settled(self, datasets: Datasets) -> "Task":
        """Return the task with everything set that follows from its dataset.

        A dataset that is not among `datasets` stays open.
        """
        return self

    def conversations(self) -> str | None:
        """Return the field with conversations, None if items are no conversations."""
        return None

    def tokeniser(self) -> Tokeniser | None:
        """Return the tokeniser of its texts, None if it has no texts."""
        return None

    def typical_length(self, vocabulary: int, mean_bytes: MeanBytes) -> int:
        """Return the tokens of an item of a typical batch, with its padding.

        Never above the task's limit, which is the result for other tasks and unknown datasets.

        Args:
            vocabulary: the tokens of the model. If it has no more than there are bytes, the model
                reads bytes.
            mean_bytes: the lengths of the fields of datasets.
        """
        return self.sequence_length()

    def datasets(self) -> tuple[AnyReference, ...]:
        """Return the datasets whose content the task's items need."""
        return ()

    def with_texts(self, sources: Mapping[str, TextSource]) -> "Task":
        """Return the task with the records of its datasets, by digest."""
        return self

    def available(self, split: Split) -> int | None:
        """Return the number of items of a split, None if items are generated."""
        return None

    def at_most(self, split: Split, samples: int) -> int:
        """Return the number of items of a split that there are, of so many."""
        available = self.available(split)
        return samples if available is None else min(samples, available)

    def with_words(self, lists: Mapping[str, WordList]) -> "Task":
        """Return the task with the content of its datasets, by digest."""
        return self


@dataclass(frozen=True, slots=True)
class QuestionLaw:
    """The distribution of a digit task's questions.

    A question has `length` digits below `alphabet`. With `few_distinct`, half of the attempts are
    rejected if they have more than five distinct digits, which makes repeated digits common (paper,
    section 5). Unless questions are `held_out`, every split draws from all of them. With `listed`,
    questions come from the list of that name; tasks that name the same list ask the same questions.
    With `decisive`, only this number of tokens at the end of a question decides its split.
    """

    length: int
    alphabet: int
    few_distinct: bool
    held_out: bool = True
    listed: str | None = None
    decisive: int | None = None


class DigitTask(Task, ABC):
    """A task with digits as input, which determine the target tokens."""

    headroom: ClassVar[int] = 2
    """Additional tokens, so that a base model of another task can also answer `add`."""

    @abstractmethod
    def questions(self) -> QuestionLaw:
        """Return the distribution of the questions."""

    def cues(self) -> tuple[int, ...]:
        """Return the token before the questions of each part, if they have one."""
        return ()

    def asker(self) -> "DigitTask":
        """Return the task that draws the questions, itself or an inner task."""
        return self

    def demonstration_end(self) -> int | None:
        """Return the token between a demonstration and the next question.

        The result is None if items of the task cannot be put before others.
        """
        return None

    def longest_demonstration(self, separator: str) -> int | None:
        """Return the tokens of an item with its answer and the token after it."""
        if self.demonstration_end() is None:
            return None
        return self.input_length() + self.target_length() + 1

    @abstractmethod
    def answer_alphabet(self) -> int:
        """Return a number that every token of an answer is below."""

    def written(self, tokens: Sequence[int]) -> str:
        """Return tokens as the task that draws the questions writes them."""
        asker = self.asker()
        return super().written(tokens) if asker is self else asker.written(tokens)

    def vocabulary(self) -> int:
        """Return the number of tokens of questions, with headroom, and answers."""
        return max(self.questions().alphabet + self.headroom, self.answer_alphabet())

    def input_alphabet(self) -> int:
        """Return the number of digits of questions."""
        return self.questions().alphabet

    def input_length(self) -> int:
        """Return the number of digits of a question, and of its cue."""
        return self.questions().length + bool(self.cues())


class PlainTask(DigitTask, ABC):
    """A digit task with its own distribution of questions.

    `length` digits are drawn from `alphabet` digits. With `few_distinct`, half of the attempts are
    rejected if they have more than five distinct digits. By default an answer is as long as a
    question.
    """

    length: int = Field(default=10, ge=1, le=512)
    """digits per input"""
    alphabet: int = Field(default=8, ge=2, le=512)
    """number of different digits"""
    few_distinct: bool = True
    """repeated digits are common in the inputs"""

    def questions(self) -> QuestionLaw:
        """Return the distribution that the fields describe."""
        return QuestionLaw(self.length, self.alphabet, self.few_distinct)

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """Return the problem of questions too short for these splits."""
        law = self.questions()
        scarce = scarce_splits(law.length, law.alphabet) if law.held_out else ()
        if not (lacking := [split for split in splits if split in scarce]):
            return ()
        nearest = enough_length(law.alphabet, splits)
        detail = (
            f"{self.name} has no {lacking[0]} items, or almost none, among the "
            f"{law.alphabet**law.length:,} questions of length {law.length} over {law.alphabet} "
            f"digits. Use a length of {nearest} or more."
        )
        return (Problem("/length", "empty_split", detail, nearest=(nearest,)),)

    def answer_alphabet(self) -> int:
        """Return the number of digits of questions."""
        return self.alphabet

    def target_length(self) -> int:
        """Return the number of digits of a question."""
        return self.length

    def chance(self) -> float:
        """Return the accuracy of guessing every token from the alphabet."""
        return chance_of(self.alphabet, self.target_length())

    def chance_loss(self) -> float:
        """Return the loss of guessing every token from the alphabet."""
        return math.log(self.alphabet)


def only_own_items(name: str, items: str, code: str) -> Problem:
    """Return the problem of inputs to a task whose items are given."""
    detail = (
        f"The items of {name} are {items}, so inputs cannot be given. Leave them out to record the "
        "first test items."
    )
    return Problem("", code, detail)


def chance_of(tokens: int, length: int) -> float:
    """Return the probability of guessing `length` tokens correctly.

    It is never 0, to which a float would round it.
    """
    return max(float(tokens) ** -length, sys.float_info.min)


TASKS: Registry[type[Task]] = Registry("task", "adaptlab.tasks")

AnyTask = Annotated[Task, ByName(TASKS)]
"""A field with any registered task, read by name."""
