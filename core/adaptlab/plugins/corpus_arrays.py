"""The records of a text task as arrays of tokens."""

from array import array
from collections import defaultdict
from dataclasses import dataclass, field

from adaptlab.records.text_units import TextUnit


@dataclass
class RequestArrays:
    """Compared answers of items or windows of texts, one after the other.

    Attributes:
        prompts: the tokens of prompts, one after the other; requests can share one.
        starts: the place of the first token of each request's prompt.
        asked: tokens of each prompt.
        answers: the tokens of all answers, one after the other.
        answered: tokens of each answer.
        places: the place of each answer among the choices of its item.
        sizes: what each log-likelihood is divided by before it is compared.
        counts: requests of each item, of a text the windows beside its first.
    """

    prompts: "array[int]" = field(default_factory=lambda: array("i"))
    starts: "array[int]" = field(default_factory=lambda: array("i"))
    asked: "array[int]" = field(default_factory=lambda: array("i"))
    answers: "array[int]" = field(default_factory=lambda: array("i"))
    answered: "array[int]" = field(default_factory=lambda: array("i"))
    places: "array[int]" = field(default_factory=lambda: array("b"))
    sizes: "array[int]" = field(default_factory=lambda: array("i"))
    counts: "array[int]" = field(default_factory=lambda: array("i"))


@dataclass
class Corpus:
    """Records as tokens, in the order of the dataset.

    Attributes:
        tokens: those of all records, one after the other.
        lengths: tokens of each record, its answer included.
        asked: tokens of each prompt.
        splits: the place of each record's split in `EVERY_SPLIT`.
        labels: the place of each record's answer among the choices or classes, if there are any.
        choices: the tokens of each choice, empty if records have their own.
        own: the tokens of every choice of each record, one after the other, if records have their
            own.
        own_lengths: tokens of every choice of each record.
        empty: the tokens of the prompt with every field empty, if scores are calibrated by it.
        behind: what a model that fills masks in reads behind every prompt: a mask for each token of
            a label word, the text after it, and the tokens that end every text. Empty for models
            that continue texts.
        groups: the number of each record's group, empty if records are independent.
        requests: the answers that are compared, or the further windows of texts, if items have
            rendered ones.
        answer_sizes: the length of each record's answer as text, by the units that metrics need.
        others: the tokens of every right answer of each record but its first, one after the other,
            of records that are not for training.
        other_lengths: tokens of each of these answers.
        other_counts: how many of them each record has, if answers are compared.
        targets: the texts of which an answer to each record has to be one, if texts decide.
        stops: tokens that end an answer without being a part of it, beside `end`.
        cut: records whose prompt was shortened.
        end: the token that ends answers, None if none does.
    """

    choices: tuple[tuple[int, ...], ...] = ()
    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    lengths: "array[int]" = field(default_factory=lambda: array("i"))
    asked: "array[int]" = field(default_factory=lambda: array("i"))
    splits: "array[int]" = field(default_factory=lambda: array("b"))
    labels: "array[int]" = field(default_factory=lambda: array("b"))
    groups: "array[int]" = field(default_factory=lambda: array("i"))
    answer_sizes: "dict[TextUnit, array[int]]" = field(
        default_factory=lambda: defaultdict(lambda: array("i"))
    )
    own: "array[int]" = field(default_factory=lambda: array("i"))
    own_lengths: "array[int]" = field(default_factory=lambda: array("i"))
    others: "array[int]" = field(default_factory=lambda: array("i"))
    other_lengths: "array[int]" = field(default_factory=lambda: array("i"))
    other_counts: "array[int]" = field(default_factory=lambda: array("b"))
    empty: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    requests: RequestArrays | None = None
    targets: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    stops: tuple[int, ...] = ()
    cut: int = 0
    end: int | None = None
