"""Words of one language with their counterparts in another, which can only be remembered."""

import math
from collections.abc import Mapping
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
from adaptlab.values import Name

Target = Literal["german", "spanish", "german_reversed"]


@TASKS.register("word_translation")
class WordTranslation(DigitTask):
    """Answer an English word with its counterpart in the `target` language, letter by letter.

    The words are those of a `dataset`: `generated`, which is always there, or one that was
    uploaded. Of them the first `words` are taken, in an order of their own, that have no form of
    more than `longest` characters in any language; so tasks of one dataset that differ in `target`
    alone ask the same words. Without the two knobs all words are taken. `german_reversed` is the
    German word from its last letter to its first.

    A question is the word, padding and a separator; an answer is the word and an end token. The
    vocabulary has the characters of all languages of the dataset, so that every target can be
    learned by a base model of any. As a word says nothing about another's translation, all splits
    ask the same words and a score is the share that is remembered; with `held_out` every word
    belongs to one split. Scored items go through the list in order, each word once before any
    comes again; trained ones are drawn from it.
    """

    title: ClassVar[str] = "Word translation"
    summary: ClassVar[str] = "English words to German or Spanish ones, to be remembered."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), appendix C"

    name: Literal["word_translation"] = "word_translation"
    dataset: DatasetReference | Name = generated_words.NAME
    target: Target = "german"
    longest: int | None = Field(default=None, ge=1, le=LONGEST_WORD)
    words: int | None = Field(default=None, ge=FEWEST_TRIPLES, le=MOST_TRIPLES)
    held_out: bool = False

    _content: WordList | None = PrivateAttr(default=None)
    _problems: tuple[Problem, ...] = PrivateAttr(default=())

    def settled(self, datasets: Datasets) -> "WordTranslation":
        """With the dataset known by its digest, and `longest` and `words` filled in."""
        name = self.dataset if isinstance(self.dataset, str) else self.dataset.name
        facts = generated_facts() if name == generated_words.NAME else datasets.get(name)
        faults = () if facts is None else tuple(self._misfits(facts))
        if facts is None or faults:
            kept = self.model_copy()
            kept._problems = faults or (_unknown(name),)
            return kept
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
        made = self.model_copy()
        made._content = lists.get(self._known.digest)
        return made

    def asked(self) -> tuple[int, int]:
        """The most characters of a word, and the number of words."""
        return self.longest or LONGEST_WORD, self.words or MOST_TRIPLES

    def word_list(self) -> WordList:
        """The words of its dataset; raises `BadDataset` where they are not at hand."""
        known, words = self._known, self._content
        if words is None and known.source == "generated":
            words = generated_words.generated_words()
        if words is None or words.digest != known.digest:
            raise BadDataset(
                f"The words of the dataset {known.name!r} with the SHA-256 {known.digest} are "
                "not available here. Get them from the server, or use the same version of the "
                "code."
            )
        return words

    def question(self, english: str, characters: str) -> tuple[int, ...]:
        """The tokens of a word of a list with these `characters`; separator and padding last."""
        padding = [len(characters) + 1] * (self.asked()[0] - len(english))
        return (*map(characters.index, english), *padding, len(characters))

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """At the number of words, with the smallest of this list that is enough.

        Of an imported dataset the words are not at hand when a job is asked for; of too few of
        them, held out, the job fails as it makes its first items.
        """
        try:
            words = self.word_list() if self.held_out else None
        except BadDataset:
            return ()
        return () if words is None else self._empty_split(words, splits)

    def questions(self) -> QuestionLaw:
        known = self._known
        longest, words = self.asked()
        listed = f"{words} words to {longest} characters of {known.name} ({known.digest[:12]})"
        return QuestionLaw(self._places, self.vocabulary(), False, self.held_out, listed)

    def answer_alphabet(self) -> int:
        return self.vocabulary()

    def vocabulary(self) -> int:
        """Every character is the token of its place; then come separator and end token."""
        return len(self._known.characters) + 2

    def target_length(self) -> int:
        """The longest word and its end token."""
        return self._places

    def end_token(self) -> int:
        """Pads questions as well."""
        return len(self._known.characters) + 1

    def chance(self) -> float:
        """Giving one of the words of the list as the answer, whatever is asked."""
        return 1 / self.asked()[1]

    def chance_loss(self) -> float:
        """Guessing every token from characters and end token."""
        return math.log(len(self._known.characters) + 1)

    def counted_length(self) -> float:
        """A word and its end token, the mean over the list.

        Where the words of an imported dataset are not at hand, `target_length`, which is the most
        that it can be.
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
        """The first of the splits that has no word, with the nearest knob that gives each one."""
        longest, count = self.asked()
        takes = self._first_of_splits(words, longest)
        lacking = [split for split in splits if takes.get(split, MOST_TRIPLES + 1) > count]
        if not lacking:
            return ()
        none = f"None of the {self.questions().listed} is of the {lacking[0]} split; take"
        if set(splits) <= takes.keys():
            more = max(takes[split] for split in splits)
            return (Problem("/words", "empty_split", f"{none} at least {more}.", nearest=(more,)),)
        longer = range(longest + 1, LONGEST_WORD + 1)
        enough = (n for n in longer if set(splits) <= self._first_of_splits(words, n).keys())
        nearest = tuple(islice(enough, 1))
        detail = f"{none} words of more characters, or of a longer list."
        return (Problem("/longest", "empty_split", detail, nearest=nearest),)

    def _first_of_splits(self, words: WordList, longest: int) -> dict[Split, int]:
        """How many words of up to so many characters it takes until each split has one."""
        task = self.model_copy(update={"longest": longest})
        chosen = words.chosen(longest, MOST_TRIPLES)
        return first_of_splits(task.question(one.english, words.characters) for one in chosen)

    @property
    def _places(self) -> int:
        return self.asked()[0] + 1

    @property
    def _known(self) -> DatasetReference:
        if isinstance(self.dataset, str):
            raise BadDataset(f"The dataset {self.dataset!r} has not been looked up yet.")
        return self.dataset

    def _misfits(self, facts: DatasetFacts) -> "list[Problem]":
        """Where the knobs ask for what the dataset has not."""
        if not isinstance(self.dataset, str) and self.dataset != facts.reference():
            detail = f"The dataset {facts.name!r} differs here: its SHA-256 is {facts.digest}."
            return [Problem("/dataset", "dataset_differs", detail, nearest=(facts.digest,))]
        longest = self.longest or facts.longest
        there = facts.triples_up_to(longest)
        if there < FEWEST_TRIPLES:
            detail = f"{facts.name!r} has {there} words of at most {longest} characters."
            nearest = next(n for n in range(1, facts.longest + 1) if facts.triples_up_to(n) > 1)
            return [Problem("/longest", "too_few_words", detail, nearest=(nearest,))]
        if self.words is not None and self.words > there:
            detail = f"{facts.name!r} has {there:,} words of at most {longest} characters."
            return [Problem("/words", "too_many_words", detail, nearest=(there,))]
        return []


def generated_facts() -> DatasetFacts:
    """What is known of the generated list."""
    return generated_words.generated_words().facts(generated_words.NAME, "generated")


def _unknown(name: str) -> Problem:
    return Problem(
        "/dataset",
        "unknown_dataset",
        f"There is no dataset named {name!r}. Upload one, or use the generated list.",
        nearest=(generated_words.NAME,),
    )
