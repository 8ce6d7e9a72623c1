"""Translations of words, which can only be memorised."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr

from adaptlab.errors import BadDataset, Problem
from adaptlab.plugins import generated_words
from adaptlab.plugins.dataset import (
    FEWEST_TRIPLES,
    LONGEST_WORD,
    MOST_TRIPLES,
    DatasetFacts,
    DatasetReference,
    Datasets,
    WordList,
)
from adaptlab.plugins.splits import Split, first_of_splits
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw
from adaptlab.records.facts import RecordsFacts
from adaptlab.values import Name

SEPARATOR = "\N{RIGHTWARDS ARROW}"
"""The token between a question and its answer, as it is shown."""

Target = Literal["german", "spanish", "german_reversed"]


@TASKS.register("word_translation")
class WordTranslation(DigitTask):
    """Answer an English word with its translation, letter by letter.

    Words come from a `dataset`: `generated`, which is always available, or an uploaded one. In a
    fixed order, the first `words` triples are used that have no word of more than `longest`
    characters in any language. So tasks that differ only in `target` have the same questions.
    Without these two options, all words are used. `german_reversed` is the German word with its
    letters in reverse order.

    A question is the word, padding and a separator; an answer is the word and an end token. The
    vocabulary has the characters of all languages of the dataset, so a base model trained on one
    target can learn the others. A translation cannot be inferred from others, so all splits have
    the same words, and a score is the share that was memorised. With `held_out`, every word belongs
    to one split. Scored items go through the list in order, each word once before any is repeated.
    Training items are drawn from the list.
    """

    title: ClassVar[str] = "Word translation"
    summary: ClassVar[str] = "English words to memorise in German or Spanish."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), appendix C"

    name: Literal["word_translation"] = "word_translation"
    dataset: DatasetReference | Name = generated_words.NAME
    """name of the dataset"""
    target: Target = "german"
    """language of the answers"""
    longest: int | None = Field(default=None, ge=1, le=LONGEST_WORD)
    """longest word, in characters"""
    words: int | None = Field(default=None, ge=FEWEST_TRIPLES, le=MOST_TRIPLES)
    """number of words; of episodes, per class"""
    held_out: bool = False
    """test on words that training does not show"""

    _content: WordList | None = PrivateAttr(default=None)
    _problems: tuple[Problem, ...] = PrivateAttr(default=())

    def settled(self, datasets: Datasets) -> "WordTranslation":
        """Return the task with its dataset's digest, `longest` and `words` set."""
        name = self.dataset if isinstance(self.dataset, str) else self.dataset.name
        facts = generated_facts() if name == generated_words.NAME else datasets.get(name)
        if facts is None or isinstance(facts, RecordsFacts):
            return self._refused(_unknown(name) if facts is None else _not_words(facts))
        if problems := self._misfits(facts):
            return self._refused(*problems)
        longest = self.longest or facts.longest
        return self.model_copy(
            update={
                "dataset": facts.reference(),
                "longest": longest,
                "words": self.words or facts.triples_up_to(longest),
            }
        )

    def problems(self) -> tuple[Problem, ...]:
        if self._problems or isinstance(self.dataset, DatasetReference):
            return self._problems
        return (_unknown(self.dataset),)

    def datasets(self) -> tuple[DatasetReference, ...]:
        return (self._known,) if self._known.source == "imported" else ()

    def with_words(self, lists: Mapping[str, WordList]) -> "WordTranslation":
        task = self.model_copy()
        task._content = lists.get(self._known.digest)
        return task

    def asked(self) -> tuple[int, int]:
        """Return the most characters of a word, and the number of words."""
        return self.longest or LONGEST_WORD, self.words or MOST_TRIPLES

    def word_list(self) -> WordList:
        """Return the words of the dataset.

        Raises:
            BadDataset: the words have not been loaded, or this version generates others.
        """
        dataset, words = self._known, self._content
        if words is None and dataset.source == "generated":
            words = generated_words.generated_words()
        if words is None or words.digest != dataset.digest:
            raise BadDataset(
                f"The words of the dataset {dataset.name!r} with the SHA-256 {dataset.digest} are "
                "not available here. Get them from the server, or use the same version of the "
                "code."
            )
        return words

    def question(self, english: str, characters: str) -> tuple[int, ...]:
        """Return the tokens of a word, then padding and separator.

        `characters` are those of the dataset; a token is an index in them.
        """
        padding = [len(characters) + 1] * (self.asked()[0] - len(english))
        return (*map(characters.index, english), *padding, len(characters))

    def written(self, tokens: Sequence[int]) -> str:
        """Return the letters; the separator is an arrow, padding is left out."""
        signs = (*self._known.characters, SEPARATOR, "")
        return "".join(signs[token] for token in tokens if token < len(signs))

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """Return the problem of too few words in one of these splits.

        The words of an uploaded dataset are not available when a job is submitted. If they are too
        few to be held out, the job fails when it generates its first items.
        """
        try:
            words = self.word_list() if self.held_out else None
        except BadDataset:
            return ()
        return () if words is None else self._empty_split(words, splits)

    def questions(self) -> QuestionLaw:
        dataset = self._known
        longest, words = self.asked()
        listed = f"{words} words to {longest} characters of {dataset.name} ({dataset.digest[:12]})"
        return QuestionLaw(self._places, self.vocabulary(), False, self.held_out, listed)

    def answer_alphabet(self) -> int:
        return self.vocabulary()

    def vocabulary(self) -> int:
        """Return the number of characters, separator and end token included."""
        return len(self._known.characters) + 2

    def target_length(self) -> int:
        """Return the length of the longest word with its end token."""
        return self._places

    def end_token(self) -> int:
        """Return the end token, which also pads questions."""
        return len(self._known.characters) + 1

    def chance(self) -> float:
        """Return the accuracy of answering every question with the same word."""
        return 1 / self.asked()[1]

    def chance_loss(self) -> float:
        """Return the loss of guessing from characters and end token."""
        return math.log(len(self._known.characters) + 1)

    def counted_length(self) -> float:
        """Return the mean length of a word with its end token.

        If the words of an uploaded dataset are not available, it is the upper limit,
        `target_length`.
        """
        try:
            words = self.word_list()
        except BadDataset:
            return self.target_length()
        chosen = words.chosen(*self.asked())
        spanish = self.target == "spanish"
        letters = sum(len(word.spanish if spanish else word.german) for word in chosen)
        return 1 + letters / len(chosen)

    def _empty_split(self, words: WordList, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """Return the problem of the first split without words.

        `nearest` is the smallest number or length of words that gives every split a word.
        """
        longest, count = self.asked()
        needed = self._first_of_splits(words, longest)
        lacking = [split for split in splits if needed.get(split, MOST_TRIPLES + 1) > count]
        if not lacking:
            return ()
        fault = f"None of the {self.questions().listed} is in the {lacking[0]} split."
        if set(splits) <= needed.keys():
            enough = max(needed[split] for split in splits)
            detail = f"{fault} Use {enough:,} words or more."
            return (Problem("/words", "empty_split", detail, nearest=(enough,)),)
        longer = range(longest + 1, LONGEST_WORD + 1)
        sufficient = (n for n in longer if set(splits) <= self._first_of_splits(words, n).keys())
        nearest = tuple(islice(sufficient, 1))
        detail = f"{fault} Use longer words, or a dataset with more words."
        return (Problem("/longest", "empty_split", detail, nearest=nearest),)

    def _first_of_splits(self, words: WordList, longest: int) -> dict[Split, int]:
        """Return the number of words until each split has one."""
        task = self.model_copy(update={"longest": longest})
        chosen = words.chosen(longest, MOST_TRIPLES)
        return first_of_splits(task.question(t.english, words.characters) for t in chosen)

    @property
    def _places(self) -> int:
        return self.asked()[0] + 1

    @property
    def _known(self) -> DatasetReference:
        if isinstance(self.dataset, str):
            raise BadDataset(f"The dataset {self.dataset!r} has not been looked up yet.")
        return self.dataset

    def _refused(self, *problems: Problem) -> "WordTranslation":
        task = self.model_copy()
        task._problems = problems
        return task

    def _misfits(self, facts: DatasetFacts) -> "list[Problem]":
        """Return the problems of options that the dataset cannot satisfy."""
        if not isinstance(self.dataset, str) and self.dataset != facts.reference():
            detail = (
                f"The dataset {facts.name!r} on this server has the SHA-256 {facts.digest}, which "
                "differs from the spec's. Use this digest, or name the dataset only."
            )
            return [Problem("/dataset", "dataset_differs", detail, nearest=(facts.digest,))]
        longest = self.longest or facts.longest
        available = facts.triples_up_to(longest)
        if available < FEWEST_TRIPLES:
            nearest = next(n for n in range(1, facts.longest + 1) if facts.triples_up_to(n) > 1)
            detail = (
                f"{facts.name!r} has {available} words of at most {longest} characters, but a task "
                f"needs {FEWEST_TRIPLES}. Set `longest` to {nearest} or more."
            )
            return [Problem("/longest", "too_few_words", detail, nearest=(nearest,))]
        if self.words is not None and self.words > available:
            detail = (
                f"{facts.name!r} has {available:,} words of at most {longest} characters, not "
                f"{self.words:,}. Use {available:,} or fewer."
            )
            return [Problem("/words", "too_many_words", detail, nearest=(available,))]
        return []


def generated_facts() -> DatasetFacts:
    """Return the facts about the generated list."""
    return generated_words.generated_words().facts(generated_words.NAME, "generated")


def _not_words(facts: RecordsFacts) -> Problem:
    names = ", ".join(facts.names())
    return Problem(
        "/dataset",
        "not_words",
        f"{facts.name!r} is a dataset of records with the fields {names}, but this task needs "
        "words. Name a dataset of words, or use the generated list.",
        nearest=(generated_words.NAME,),
    )


def _unknown(name: str) -> Problem:
    return Problem(
        "/dataset",
        "unknown_dataset",
        f"There is no dataset named {name!r}. Upload one, or use the generated list.",
        nearest=(generated_words.NAME,),
    )
