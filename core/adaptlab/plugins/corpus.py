"""The records of a text task as tokens of its base model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptlab.errors import BadDataset, InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.plugins.corpus_arrays import Corpus
from adaptlab.plugins.filled_words import Filling, counts
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.request_corpus import RequestReader
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.accepted_answers import NotAnswers
from adaptlab.records.content import read_content
from adaptlab.records.conversations import conversation_in
from adaptlab.records.record import Record
from adaptlab.records.text_units import TEXT_UNITS
from adaptlab.text.chat import BadChat
from adaptlab.text.clusters import Groups
from adaptlab.text.encoding import (
    NO_END,
    Encoded,
    LeavesNothing,
    cut,
    encoded,
    encoded_turn,
    text_alone,
)
from adaptlab.text.source import TextSource
from adaptlab.text.splitting import EVERY_SPLIT
from adaptlab.text.template import Rendered
from adaptlab.text.tokeniser import Tokeniser

OWN_CHOICES = (
    "Label words have fields, so each choice needs a forward pass of its own, and long choices are "
    "at a disadvantage."
)

ONE_BY_ONE = "Each word then needs a forward pass of its own, and long words are at a disadvantage."
AT_ONCE = "The model fills in the tokens of a word without seeing one another."

MOST_CUTS = 32
"""Cutting by tokens shifts those that follow, so it is repeated until the item fits."""


def read_corpus(task: TextTask) -> Corpus:
    """Return the records of a task as tokens.

    Raises:
        InvalidSpec: items are too long, or an answer has no tokens of its own.
        BadDataset: the content is not that of the dataset, or was not given.
    """
    return (RequestReader if task.is_rendered() else _Reader)(task).read()


def check_sample(
    task: TextTask, records: Iterable[Record], tokeniser: Tokeniser, mask: int | None = None
) -> tuple[str, ...]:
    """Check the items of some records, the first of a dataset.

    `mask` is the token that the model replaces by an answer, None if it continues the text.

    Returns warnings about label words, which a job does not fail for.

    Raises:
        InvalidSpec: the items of these records have the problems that `read_corpus` reports.
    """
    digest = task.reference_to_records().digest
    source = TextSource(Path(), digest, tokeniser, mask=mask)
    read = task.with_texts({digest: source})
    if task.is_rendered():
        RequestReader(read).sampled(records)
        return ()
    choices = _Reader(read).sampled(records).choices
    if task.has_own_choices():
        return (OWN_CHOICES,)
    words = [word.fixed or "" for word in task.choices().values()]
    several = AT_ONCE if mask is not None else ONE_BY_ONE
    return tuple(_warnings(dict(zip(words, choices, strict=False)), several))


def _warnings(words: Mapping[str, tuple[int, ...]], of_several: str) -> Iterator[str]:
    """Yield what is unfavourable about the tokens of label words."""
    if several := {word: tokens for word, tokens in words.items() if len(tokens) > 1}:
        yield f"Label words of several tokens: {counts(several)}. {of_several}"
    first: dict[int, str] = {}
    for word, tokens in words.items():
        if (other := first.setdefault(tokens[0], word)) != word:
            yield f"The label words {other!r} and {word!r} begin with the same token."
            return


@dataclass(frozen=True, slots=True)
class _Asked:
    """The item of a record, and its prompt with each of its own choices.

    There are none if all records have the same ones. `others` are its further right answers.
    """

    item: Encoded
    own: tuple[Encoded, ...] = ()
    others: tuple[Encoded, ...] = ()

    @property
    def answers(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of the record's own choices, otherwise those of its answer."""
        return tuple(choice.answer for choice in self.own) or (self.item.answer,)

    @property
    def is_ambiguous(self) -> bool:
        """True if two choices have the same tokens."""
        return len({choice.answer for choice in self.own}) < len(self.own)


class _Reader:
    def __init__(self, task: TextTask) -> None:
        self._task, self._source = task, task.source()
        self._rule = task.split_rule()
        self._groups = Groups(task.cluster)
        self._words = tuple(task.choices().values())
        self._has_own = task.has_own_choices()
        self._first: tuple[Encoded, ...] = ()
        values = task.class_values() or task.choices()
        self._labels = {value: place for place, value in enumerate(values)}
        self._has_classes = task.classes() is not None
        self._metric = task.own_metric()
        self._corpus = Corpus(end=self._source.tokeniser.end if task.ends else None)
        self._faults: Counter[str] = Counter()
        self._examples: dict[str, int] = {}
        self._not_rendered = set[str]()
        self._of_masks: tuple[Problem, ...] = ()
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
        words = [word.rendered(record).text for word in self._words] if self._has_own else []
        if fault := _fault_of(words):
            self._note(fault, number)
            return
        try:
            if self._words and not self._first:
                self._note_first(number, record)
            asked = self._fitted(record, words)
            varies = bool(words and self._corpus.empty) and self._varies_alone(words, asked.own)
        except NotAnswers:
            self._note("not_answers", number)
            return
        except (LeavesNothing, BadChat) as error:
            self._note(str(error), number)
            if task.conversations() is not None:
                self._not_rendered.add(str(error))
            return
        if self._labels:
            corpus.labels.append(self._labels[record[task.answer_field()[1]]])
        self._keep(number, record, asked)
        if fault := self._misfit(asked) or ("other_tokens_alone" if varies else None):
            self._note(fault, number)

    def _keep(self, number: int, record: Record, asked: _Asked) -> None:
        """Keep the tokens, split and group of a record."""
        corpus, item = self._corpus, asked.item
        for choice in asked.own:
            corpus.own.extend(choice.answer)
            corpus.own_lengths.append(len(choice.answer))
        corpus.tokens.extend((*item.prompt, *item.answer))
        corpus.lengths.append(item.length)
        corpus.asked.append(len(item.prompt))
        split = self._rule.split_of(record)
        if self._metric is not None:
            self._keep_answer(number, record, item, self._metric, is_read=split != "train")
        if self._task.accepts_several():
            self._keep_others(asked.others if split != "train" else ())
        corpus.splits.append(EVERY_SPLIT.index(split))
        if (group := self._groups.number_of(record, split, number + 1)) is not None:
            corpus.groups.append(group)

    def _keep_answer(
        self, number: int, record: Record, item: Encoded, metric: Metric, *, is_read: bool
    ) -> None:
        """Keep the length of an answer, and note one that cannot be read."""
        answer, needs_text = self._task.answer_text(record), metric.needs == "likelihood_of_text"
        if needs_text:
            size = TEXT_UNITS[metric.text_unit](answer)
            self._corpus.answer_sizes[metric.text_unit].append(size)
        if is_read and not all(map(metric.reads_answer, self._task.accepted(record))):
            self._note("unread_answer", number)
        if is_read and needs_text:
            text = self._source.tokeniser.text((*item.prompt, *item.answer))
            if answer.strip() not in text:
                self._note("changed_answer", number)

    def _keep_others(self, others: Sequence[Encoded]) -> None:
        corpus = self._corpus
        corpus.other_counts.append(len(others))
        for other in others:
            corpus.others.extend(other.answer)
            corpus.other_lengths.append(len(other.answer))

    def _misfit(self, asked: _Asked) -> str | None:
        """Return what is wrong with the tokens of a record, None if nothing is.

        Its label is the last that was added.
        """
        length, answered = self._length(asked), max(map(len, asked.answers))
        self._longest = max(self._longest, length)
        self._longest_answer = max(self._longest_answer, answered)
        if answered > self._task.answer_tokens():
            return "long_answer"
        if length > self._task.tokens.longest:
            return "long"
        if asked.is_ambiguous:
            return "equal_choices"
        varies = self._words and self._varies(asked, self._corpus.labels[-1])
        return "other_tokens" if varies else None

    def _note_first(self, number: int, record: Record) -> None:
        """Keep the tokens that label words have after the first prompt."""
        prompt = self._task.template().rendered(record).text
        self._first = tuple(
            self._encoded(prompt, word.rendered(record).text) for word in self._words
        )
        self._note_empty(number, [word.rendered(record).text for word in self._words])
        if self._has_own:
            return
        answers = tuple(choice.answer for choice in self._first)
        self._corpus.choices = answers
        self._note_filling()
        if len(set(answers)) < len(answers):
            self._note("equal_words", number)
        elif len({choice.prompt for choice in self._first}) > 1:
            self._note("other_tokens", number)

    def _note_filling(self) -> None:
        """Keep what an encoder reads behind prompts, and problems with it."""
        if (mask := self._source.mask) is None:
            return
        filling = Filling(self._source.tokeniser, mask, self._task.text_after())
        template = self._task.template()
        empty = template.rendered(dict.fromkeys(template.fields, "")).text
        words = [word.fixed or "" for word in self._words]
        self._corpus.behind = filling.behind(self._corpus.choices[0])
        of_words = dict(zip(words, self._corpus.choices, strict=True))
        self._of_masks = tuple(filling.problems(empty, of_words))

    def _note_empty(self, number: int, words: Sequence[str]) -> None:
        """Keep the tokens of the prompt with every field empty, if it is needed."""
        if (prompt := self._task.empty_prompt()) is None:
            return
        try:
            self._corpus.empty = self._encoded(prompt, words[0]).prompt
            varies = not self._has_own and self._varies_alone(words, self._first)
        except LeavesNothing:
            self._note("no_empty_prompt", number)
            return
        if varies:
            self._note("other_tokens_alone", number)

    def _varies_alone(self, words: Sequence[str], choices: Sequence[Encoded]) -> bool:
        """Return True if words have other tokens after the empty prompt."""
        prompt = self._task.empty_prompt() or ""
        alone = (self._encoded(prompt, word) for word in words)
        return any(
            one.prompt != self._corpus.empty or one.answer != choice.answer
            for one, choice in zip(alone, choices, strict=True)
        )

    def _varies(self, asked: _Asked, label: int) -> bool:
        """Return True if words have other tokens than after the first prompt.

        A word with fields may have any, but all choices must leave the same tokens to the prompt.
        """
        if not asked.own:
            return asked.item.answer != self._first[label].answer
        fixed = (
            choice.answer != first.answer
            for choice, first, word in zip(asked.own, self._first, self._words, strict=True)
            if not word.fields
        )
        return any(fixed) or len({choice.prompt for choice in asked.own}) > 1

    def _fitted(self, record: Record, words: Sequence[str]) -> _Asked:
        """Return a record's item, shortened if the task says so."""
        if (field := self._task.conversations()) is not None:
            return self._turn(record[field])
        task, tokeniser = self._task, self._source.tokeniser
        limits, values = task.tokens, dict(record)
        asked = self._asked(prompt := task.template().rendered(values), record, words)
        cuts = 0
        while (
            limits.if_longer == "cut"
            and (excess := self._length(asked) - limits.longest) > 0
            and cuts < MOST_CUTS
        ):
            field = task.cut_field()
            shorter = cut(tokeniser, prompt, field, limits.cut.keep, excess)
            if shorter is None:
                break
            values[field] = shorter
            asked = self._asked(prompt := task.template().rendered(values), record, words)
            cuts += 1
        self._corpus.cut += cuts > 0
        return asked

    def _turn(self, value: str) -> _Asked:
        """Return a conversation's item, as the chat template writes it."""
        messages = conversation_in(value)
        if messages is None or messages[-1].role != "assistant":
            raise LeavesNothing("The conversation does not end with the assistant's turn.")
        tokeniser = self._source.tokeniser
        item = encoded_turn(tokeniser, self._source.chat.turn(messages))
        last = item.answer[-1]
        self._corpus.end = last if tokeniser.is_special(last) else None
        return _Asked(item)

    def _asked(self, prompt: Rendered, record: Record, words: Sequence[str]) -> _Asked:
        if self._has_classes:
            return _Asked(text_alone(self._source.tokeniser, prompt.text))
        if not words:
            first, *others = (
                self._encoded(prompt.text, answer) for answer in self._task.accepted(record)
            )
            return _Asked(first, others=tuple(others))
        own = tuple(self._encoded(prompt.text, word) for word in words)
        return _Asked(own[self._labels[record[self._task.answer_field()[1]]]], own)

    def _encoded(self, prompt: str, answer: str) -> Encoded:
        return encoded(self._source.tokeniser, prompt, answer, ends=self._task.ends)

    def _length(self, asked: _Asked) -> int:
        """Return the tokens of an item with the longest answer that is scored."""
        answers = (*self._corpus.choices, *asked.answers)
        prompt = max(len(asked.item.prompt), len(self._corpus.empty))
        # Behind an encoder's answer is what ends every text.
        return prompt + max(*map(len, answers), len(self._corpus.behind))

    def _note(self, fault: str, number: int) -> None:
        self._faults[fault] += 1
        self._examples.setdefault(fault, number)

    def _problems(self) -> list[Problem]:
        return [
            *self._of_masks,
            *self._groups.problems(),
            *(
                self._chat_problem(fault, count)
                if fault in self._not_rendered
                else self._problem(fault, count)
                for fault, count in self._faults.items()
            ),
        ]

    def _chat_problem(self, fault: str, count: int) -> Problem:
        pointer, _ = self._task.answer_field()
        detail = (
            f"{fault} This concerns {count:,} records; line {self._examples[fault] + 1:,} of the "
            "dataset is the first. Change these conversations, or use a base model with another "
            "chat template."
        )
        return Problem(f"/task{pointer}", "chat_not_rendered", detail)

    def _answer_problem(self, fault: str, count: int) -> Problem:
        place = f"line {self._examples[fault] + 1:,} of the dataset is the first"
        if fault == "not_answers":
            pointer, field = self._task.answer_field()
            detail = (
                f"In {count:,} records the field {field!r} does not hold the right answers; "
                f"{place}. {self._task.wanted_answers()}"
            )
            return Problem(f"/task{pointer}", fault, detail)
        metric = self._metric
        assert metric is not None
        if fault == "unread_answer":
            detail = metric.unread(f"{counted(count, 'right answer')}; {place}")
            return Problem("/task/metric", "unread_answers", detail)
        detail = (
            f"The base model's tokeniser changes {count:,} right answers, so their "
            f"{metric.text_unit} say nothing about its tokens; {place}. Use another metric than "
            f"{metric.name}, or another base model."
        )
        return Problem("/task/metric", "changed_answers", detail)

    def _problem(self, fault: str, count: int) -> Problem:
        limits, total = self._task.tokens, len(self._corpus.lengths)
        most = self._task.answer_tokens()
        place = f"line {self._examples[fault] + 1:,} of the dataset is the first"
        if fault == "long":
            is_chat = self._task.conversations() is not None
            otherwise = (
                "or leave these records out" if is_chat else "or set `tokens.if_longer` to cut"
            )
            detail = (
                f"{count:,} of {total:,} items have more than {limits.longest:,} tokens; {place}, "
                f"and the longest has {self._longest:,}. Raise `tokens.longest`, {otherwise}."
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
        if fault == "no_empty_prompt":
            detail = (
                "With every field empty, the prompt has no token before the answer, so there is "
                "nothing to calibrate by. Put fixed text into the prompt, or leave `calibration` "
                "out."
            )
            return Problem("/task/calibration", "no_empty_prompt", detail)
        if fault == "other_tokens_alone":
            detail = (
                f"In {count:,} records a label word has other tokens after the prompt with empty "
                f"fields than after its own; {place}. End the prompt with a sign that no word "
                "contains, such as a colon, and begin every label word with a space."
            )
            return Problem("/task/calibration", "label_word_varies", detail)
        if fault in ("not_answers", "unread_answer", "changed_answer"):
            return self._answer_problem(fault, count)
        if fault == "equal_words":
            detail = (
                "Two label words have the same tokens, so no model can tell them apart. Give each "
                "label a word of its own."
            )
            return Problem("/task/label/words", "word_twice", detail)
        if fault == "empty_choice":
            detail = (
                f"{count:,} records have an empty choice; {place}. Leave these records out, or "
                "choose words whose fields are never empty."
            )
            return Problem("/task/label/words", "empty_choice", detail)
        if fault == "equal_choices":
            detail = (
                f"{count:,} records have two choices with the same text or the same tokens; "
                f"{place}. Leave these records out, or change one of the choices."
            )
            return Problem("/task/label/words", "equal_choices", detail)
        usual = "End the prompt with fixed text, and begin the answer with a space."
        advice = {NO_END: "Leave them out, or use another base model."}.get(fault, usual)
        detail = f"{fault} This concerns {count:,} records; {place}. {advice}"
        return Problem("/task/prompt", "no_own_tokens", detail)


def _fault_of(words: Sequence[str]) -> str | None:
    """Return what is wrong with the choices of a record, None if nothing."""
    if any(not word.strip() for word in words):
        return "empty_choice"
    return "equal_choices" if len(set(words)) < len(words) else None
