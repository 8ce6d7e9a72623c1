"""The records of a text task as tokens of its base model."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adaptlab.errors import BadDataset, InvalidSpec, Problem
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.content import read_content
from adaptlab.records.record import Record
from adaptlab.text.encoding import Encoded, LeavesNothing, cut, encoded, text_alone
from adaptlab.text.source import TextSource
from adaptlab.text.splitting import EVERY_SPLIT
from adaptlab.text.template import Rendered
from adaptlab.text.tokeniser import Tokeniser

MOST_NAMED = 8
"""Label words that a warning names."""

MOST_CUTS = 32
"""Cutting by tokens shifts those that follow, so it is repeated until the item fits."""


@dataclass
class Corpus:
    """Records as tokens, in the order of the dataset.

    Attributes:
        tokens: those of all records, one after the other.
        lengths: tokens of each record, its answer included.
        asked: tokens of each prompt.
        splits: the place of each record's split in `EVERY_SPLIT`.
        labels: the place of each record's answer among the choices or classes, if there are any.
        choices: the tokens of each choice.
        cut: records whose prompt was shortened.
    """

    choices: tuple[tuple[int, ...], ...] = ()
    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    lengths: "array[int]" = field(default_factory=lambda: array("i"))
    asked: "array[int]" = field(default_factory=lambda: array("i"))
    splits: "array[int]" = field(default_factory=lambda: array("b"))
    labels: "array[int]" = field(default_factory=lambda: array("b"))
    cut: int = 0


def read_corpus(task: TextTask) -> Corpus:
    """Return the records of a task as tokens.

    Raises:
        InvalidSpec: items are too long, or an answer has no tokens of its own.
        BadDataset: the content is not that of the dataset, or was not given.
    """
    return _Reader(task).read()


def check_sample(
    task: TextTask, records: Iterable[Record], tokeniser: Tokeniser
) -> tuple[str, ...]:
    """Check the items of some records, the first of a dataset.

    Returns warnings about label words, which a job does not fail for.

    Raises:
        InvalidSpec: the items of these records have the problems that `read_corpus` reports.
    """
    digest = task.reference_to_records().digest
    reader = _Reader(task.with_texts({digest: TextSource(Path(), digest, tokeniser)}))
    choices = reader.sampled(records).choices
    words = dict(zip(task.choices().values(), choices, strict=False))
    return tuple(_warnings(words))


def _warnings(words: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """Yield what is unfavourable about the tokens of label words."""
    several = [f"{word!r} ({len(tokens)})" for word, tokens in words.items() if len(tokens) > 1]
    if several:
        yield (
            f"Label words of several tokens: {', '.join(several[:MOST_NAMED])}. Each word then "
            "needs a forward pass of its own, and long words are at a disadvantage."
        )
    first: dict[int, str] = {}
    for word, tokens in words.items():
        if (other := first.setdefault(tokens[0], word)) != word:
            yield f"The label words {other!r} and {word!r} begin with the same token."
            return


class _Reader:
    def __init__(self, task: TextTask) -> None:
        self._task, self._source = task, task.source()
        self._rule = task.split_rule()
        values = task.class_values() or task.choices()
        self._labels = {value: place for place, value in enumerate(values)}
        self._has_classes = task.classes() is not None
        self._corpus = Corpus()
        self._faults: Counter[str] = Counter()
        self._examples: dict[str, int] = {}
        self._longest = self._longest_answer = 0

    def read(self) -> Corpus:
        with self._source.content.open("rb") as file:
            for number, record in enumerate(read_content(file, self._source.digest)):
                self._add(number, record)
        if problems := self._problems():
            raise InvalidSpec(*problems)
        self._check_splits()
        return self._corpus

    def sampled(self, records: Iterable[Record]) -> Corpus:
        """Return some records as tokens, without a look at the splits."""
        for number, record in enumerate(records):
            self._add(number, record)
        if problems := self._problems():
            raise InvalidSpec(*problems)
        return self._corpus

    def _check_splits(self) -> None:
        """Raise `BadDataset` if splits differ from those of the spec."""
        counts = Counter(EVERY_SPLIT[place] for place in self._corpus.splits)
        reference = self._task.reference_to_records()
        if any(counts[split] != self._task.available(split) for split in EVERY_SPLIT):
            raise BadDataset(
                f"The splits of {reference.name!r} have {dict(counts)} records here, not "
                f"{reference.splits.model_dump()} as on the server. Use the same version of the "
                "code."
            )

    def _add(self, number: int, record: Record) -> None:
        task, corpus = self._task, self._corpus
        try:
            if not corpus.choices and task.choices():
                corpus.choices = self._choices(record)
            item = self._fitted(record)
        except LeavesNothing as error:
            self._note(str(error), number)
            return
        longest, most = task.tokens.longest, task.answer_tokens()
        length = self._length(item)
        self._longest = max(self._longest, length)
        self._longest_answer = max(self._longest_answer, len(item.answer))
        if len(item.answer) > most:
            self._note("long_answer", number)
        elif length > longest:
            self._note("long", number)
        elif self._labels:
            label = self._labels[record[task.answer_field()[1]]]
            if corpus.choices and item.answer != corpus.choices[label]:
                self._note("other_tokens", number)
            corpus.labels.append(label)
        corpus.tokens.extend((*item.prompt, *item.answer))
        corpus.lengths.append(item.length)
        corpus.asked.append(len(item.prompt))
        corpus.splits.append(EVERY_SPLIT.index(self._rule.split_of(record)))

    def _choices(self, record: Record) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of every choice after the prompt of a record."""
        task, tokeniser = self._task, self._source.tokeniser
        prompt = task.template().rendered(record).text
        return tuple(
            encoded(tokeniser, prompt, word, ends=task.ends).answer
            for word in task.choices().values()
        )

    def _fitted(self, record: Record) -> Encoded:
        """Return a record's item, shortened if the task says so."""
        task, tokeniser = self._task, self._source.tokeniser
        limits, values = task.tokens, dict(record)
        answer = "" if self._has_classes else task.answer_text(record)
        item = self._item(prompt := task.template().rendered(values), answer)
        cuts = 0
        while (
            limits.if_longer == "cut"
            and (excess := self._length(item) - limits.longest) > 0
            and cuts < MOST_CUTS
        ):
            field = task.cut_field()
            shorter = cut(tokeniser, prompt, field, limits.cut.keep, excess)
            if shorter is None:
                break
            values[field] = shorter
            item = self._item(prompt := task.template().rendered(values), answer)
            cuts += 1
        self._corpus.cut += cuts > 0
        return item

    def _item(self, prompt: Rendered, answer: str) -> Encoded:
        if self._has_classes:
            return text_alone(self._source.tokeniser, prompt.text)
        return encoded(self._source.tokeniser, prompt.text, answer, ends=self._task.ends)

    def _length(self, item: Encoded) -> int:
        """Return the tokens of an item with the longest answer that is scored."""
        answers = (*self._corpus.choices, item.answer)
        return len(item.prompt) + max(map(len, answers))

    def _note(self, fault: str, number: int) -> None:
        self._faults[fault] += 1
        self._examples.setdefault(fault, number)

    def _problems(self) -> list[Problem]:
        return [self._problem(fault, count) for fault, count in self._faults.items()]

    def _problem(self, fault: str, count: int) -> Problem:
        limits, total = self._task.tokens, len(self._corpus.lengths)
        most = self._task.answer_tokens()
        place = f"line {self._examples[fault] + 1:,} of the dataset is the first"
        if fault == "long":
            detail = (
                f"{count:,} of {total:,} items have more than {limits.longest:,} tokens; {place}, "
                f"and the longest has {self._longest:,}. Raise `tokens.longest`, or set "
                "`tokens.if_longer` to cut."
            )
            return Problem(
                "/task/tokens/longest", "items_too_long", detail, nearest=(self._longest,)
            )
        if fault == "long_answer":
            detail = (
                f"{count:,} of {total:,} answers have more than {most:,} tokens; {place}, "
                f"and the longest has {self._longest_answer:,}. Raise `tokens.answer`."
            )
            nearest = (self._longest_answer,)
            return Problem("/task/tokens/answer", "answers_too_long", detail, nearest=nearest)
        if fault == "other_tokens":
            detail = (
                f"After {count:,} prompts a label word has other tokens than after the first; "
                f"{place}. End the prompt with a sign that no word contains, such as a colon, and "
                "begin every label word with a space."
            )
            return Problem("/task/label/words", "label_word_varies", detail)
        detail = (
            f"{fault} This concerns {count:,} records; {place}. End the prompt with fixed text, "
            "and begin the answer with a space."
        )
        return Problem("/task/prompt", "no_own_tokens", detail)
