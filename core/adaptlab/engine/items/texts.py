"""Items of text tasks: records as tokens, padded on the right.

A causal model needs no mask for padding behind an item, since no token sees what follows it.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.items.accepted import AcceptedItems
from adaptlab.engine.items.digits import listed_places
from adaptlab.engine.items.items import Items, spans
from adaptlab.engine.items.other_answers import OtherAnswers, other_answers
from adaptlab.engine.items.passages import PassageItems
from adaptlab.engine.items.requests import ItemRequests, RequestItems
from adaptlab.engine.items.word_choice import Alone, ChoiceItems, WordItems, members_of, moved
from adaptlab.engine.kernels.counter import constant, mixed, random_bits, stream
from adaptlab.engine.tensors import Int
from adaptlab.plugins.corpus import read_corpus
from adaptlab.plugins.corpus_arrays import Corpus
from adaptlab.plugins.splits import EVERY_SPLIT, Split
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.text_units import TextUnit

STEPS_SORTED = 16
"""Steps whose items are drawn together and sorted by length."""
PADDED_TO = 8
"""Lengths are multiples of it, so that few different shapes occur."""


def text_items(
    task: TextTask, split: Split, seeds: Int[Tensor, "S"], first: int, count: int
) -> Items:
    """Return items `first` to `first + count` of a split, for every seed.

    Training items are drawn; the others go through the split in order, cyclically.
    """
    texts = texts_of(task)
    device, cpu = seeds.device, torch.device("cpu")
    index = torch.arange(first, first + count).unsqueeze(0)
    listed = texts.of_split[split]
    places = listed_places(split, seeds.to(cpu).unsqueeze(1), index, len(listed))
    # On a GPU steps are recorded, and a recording holds for items of one length only.
    return moved(texts.items(listed[places], is_full=device.type == "cuda"), device)


def items_of_step(task: TextTask, seeds: Int[Tensor, "S"], size: int, step: int) -> Items:
    """Return the training items of a step, as long as each other if possible.

    The items of `STEPS_SORTED` steps are drawn together, sorted by length, and divided into steps,
    whose order is random and the same for all seeds. So little is padding, and every item is as
    likely as without.
    """
    texts = texts_of(task)
    device, cpu = seeds.device, torch.device("cpu")
    window, place = divmod(step, STEPS_SORTED)
    count = STEPS_SORTED * size
    index = torch.arange(window * count, (window + 1) * count).unsqueeze(0)
    listed = texts.of_split["train"]
    records = listed[listed_places("train", seeds.to(cpu).unsqueeze(1), index, len(listed))]
    by_length = records.gather(1, texts.read[records].argsort(stable=True, dim=1))
    drawn = constant(stream("texts/order of steps"), cpu)
    order = random_bits(drawn, constant(window, cpu), torch.arange(STEPS_SORTED)).argsort()
    first = int(order[place]) * size
    chosen = by_length[:, first : first + size]
    # On a GPU steps are recorded, and a recording holds for items of one length only.
    return moved(texts.trained(chosen, is_full=device.type == "cuda"), device)


def scored_order(task: TextTask, split: Split, samples: int) -> Int[Tensor, "N"]:
    """Return the places of the first items of a split, sorted by length."""
    texts = texts_of(task)
    return texts.read[texts.of_split[split][:samples]].argsort(stable=True)


def right_choices(task: TextTask, split: Split, samples: int) -> Int[Tensor, "N"]:
    """Return the places of the right choices or classes of the first records."""
    texts = texts_of(task)
    assert texts.labels is not None
    return texts.labels[texts.of_split[split][:samples]]


def groups_of_texts(task: TextTask, split: Split, samples: int) -> Int[Tensor, "N"] | None:
    """Return the groups of the first records of a split, None without groups."""
    texts = texts_of(task)
    return None if texts.groups is None else texts.groups[texts.of_split[split][:samples]]


def sizes_of_answers(
    task: TextTask, split: Split, samples: int, unit: TextUnit
) -> Int[Tensor, "N"]:
    """Return the lengths of the right answers of the first records of a split.

    `unit` is one that the task's metrics need.
    """
    texts = texts_of(task)
    return texts.answer_sizes[unit][texts.of_split[split][:samples]]


def chosen_items(
    task: TextTask, split: Split, places: Int[Tensor, "B"], device: torch.device
) -> Items:
    """Return the items at some places of a split, for one seed."""
    texts = texts_of(task)
    return moved(texts.items(texts.of_split[split][places].unsqueeze(0)), device)


@dataclass(frozen=True)
class Texts:
    """The records of a task as tokens.

    Attributes:
        tokens: the tokens of all records, one after the other, in 32 bits.
        starts: the place of each record's first token.
        asked: tokens of each prompt.
        read: tokens that the model reads: all but the answer's last one.
        labels: the place of each record's choice or class, if there are any.
        choices: the tokens of each choice, padded, and how many they are; None if there are none,
            or if records have their own.
        own: the choices of each record, if it has its own.
        requests: the answers that each record compares, if a harness has rendered them.
        empty: the tokens of the prompt with every field empty, if scores are calibrated by it.
        behind: what an encoder reads behind every prompt, None if answers continue prompts.
        groups: the number of each record's group, None if records are independent.
        answer_sizes: the length of each record's answer as text, by the units that metrics need.
        others: the right answers beside the first, None if no record has more than one.
        of_split: records of each split, in an order that does not depend on the file's.
        limit: the most tokens that the model reads.
        most_answered: the most tokens of an answer.
        end: the token that ends answers, None if none does.
        targets: the texts of which an answer to each record has to be one, if texts decide.
        stops: other tokens that end an answer.
    """

    tokens: Int[Tensor, "N"]
    starts: Int[Tensor, "W"]
    asked: Int[Tensor, "W"]
    read: Int[Tensor, "W"]
    labels: Int[Tensor, "W"] | None
    choices: tuple[Tensor, Tensor] | None
    own: "OwnChoices | None"
    requests: ItemRequests | None
    empty: Int[Tensor, "E"] | None
    behind: Int[Tensor, "E2"] | None
    groups: Int[Tensor, "W"] | None
    answer_sizes: Mapping[TextUnit, Int[Tensor, "W"]]
    others: OtherAnswers | None
    of_split: Mapping[Split, Int[Tensor, "W2"]]
    limit: int
    most_answered: int
    end: int | None
    targets: Sequence[tuple[str, ...]] = ()
    stops: frozenset[int] = frozenset()

    def items(self, records: Int[Tensor, "S B"], *, is_full: bool = False) -> Items:
        """Return some records as items to score, as long as needed.

        If `is_full`, they have the greatest length, and logits are computed for all of it.
        """
        items = self.trained(records, is_full=is_full)
        if self.choices is None and self.own is None and self.requests is None:
            return self._with_others(items, records)
        if self.requests is not None and self.labels is None:
            return self._in_windows(items, self.requests, records)
        assert self.labels is not None
        if self.requests is not None:
            return self._compared(items, self.requests, records)
        if self._needs_one_pass():
            assert self.choices is not None
            words, lengths = self.choices
            empty = self._after_nothing(words[:1], lengths[:1])
            return ChoiceItems(*members_of(items), choices=words, empty=empty)
        words = list(self._words(records, is_full=is_full))
        return WordItems(
            *members_of(items),
            others=tuple(self._with_answer(records, *word, is_full=is_full) for word in words),
            labels=self.labels[records],
            alone=self._alone(words),
        )

    def _with_others(self, items: Items, records: Int[Tensor, "S B"]) -> Items:
        """Return items with their further right answers, if any has one.

        Those without room behind the prompt cannot be given.
        """
        if self.others is None or len(records) > 1:
            return items
        rooms: list[int] = self.room(records[0]).tolist()
        each = [
            [answer for answer in self.others.of_record(record) if len(answer) <= room]
            for record, room in zip(records[0].tolist(), rooms, strict=True)
        ]
        answers = [torch.tensor(answer) for some in each for answer in some]
        if not answers:
            return items
        owners = torch.arange(len(each)).repeat_interleave(torch.tensor([*map(len, each)]))
        lengths = torch.tensor([*map(len, answers)]).unsqueeze(0)
        padded = torch.nn.utils.rnn.pad_sequence(answers, batch_first=True).unsqueeze(0)
        others = self._with_answer(records[:, owners], padded, lengths, is_full=False)
        return AcceptedItems(*members_of(items), others=others, owners=owners)

    def _compared(
        self, items: Items, requests: ItemRequests, records: Int[Tensor, "1 B"]
    ) -> RequestItems:
        """Return items with all requests, as many per pass as items."""
        assert self.labels is not None
        numbers, owners = requests.of_records(records[0])
        return RequestItems(
            *members_of(items),
            requests=self._passes(requests, numbers, records.shape[1]),
            owners=owners,
            places=requests.places[numbers],
            sizes=requests.sizes[numbers],
            labels=self.labels[records],
        )

    def _in_windows(
        self, items: Items, requests: ItemRequests, records: Int[Tensor, "1 B"]
    ) -> PassageItems:
        """Return texts with their further windows, as many per pass as items."""
        numbers, owners = requests.of_records(records[0])
        windows = self._passes(requests, numbers, records.shape[1])
        return PassageItems(*members_of(items), windows=windows, owners=owners)

    def _passes(
        self, requests: ItemRequests, numbers: Int[Tensor, "Q"], at_once: int
    ) -> tuple[Items, ...]:
        """Return requests as items, `at_once` per pass."""
        return tuple(
            self._joined(requests.prompts_of(some), *requests.answers_of(some), is_full=False)
            for some in numbers.split(at_once)
            if len(some)
        )

    def choice_tokens(self, record: int, place: int) -> tuple[int, ...]:
        """Return the tokens of one choice of a record that has its own."""
        own = self.own or self.requests
        assert own is not None
        return own.tokens_of(record, place)

    def _needs_one_pass(self) -> bool:
        """Return True if one pass scores all choices of an item."""
        if self.choices is None:
            return False
        return self.behind is not None or int(self.choices[1].max()) == 1

    def _alone(self, words: Sequence[tuple[Tensor, Tensor]]) -> Alone | None:
        """Return the words of some records after the empty prompt."""
        if self.empty is None:
            return None
        if self.choices is not None:
            places = torch.arange(len(words)).expand(*words[0][1].shape, -1)
            items = self._after_nothing(*self.choices)
        else:
            longest = max(tokens.shape[-1] for tokens, _ in words)
            padded = [
                functional.pad(tokens, (0, longest - tokens.shape[-1])) for tokens, _ in words
            ]
            lengths = torch.stack([length for _, length in words], -1)
            rows = torch.cat([lengths.unsqueeze(-1), torch.stack(padded, -2)], -1)
            different, inverse = rows.flatten(0, 2).unique(dim=0, return_inverse=True)
            places = inverse.view(lengths.shape)
            items = self._after_nothing(different[:, 1:], different[:, 0])
        return items and Alone(items, places)

    def _after_nothing(self, words: Int[Tensor, "N M"], lengths: Int[Tensor, "N"]) -> Items | None:
        """Return words after the empty prompt, None if there is none."""
        if self.empty is None:
            return None
        asked = torch.full_like(lengths, len(self.empty)).unsqueeze(0)
        prompts = self.empty, torch.zeros_like(asked), asked
        return self._joined(prompts, words.unsqueeze(0), lengths.unsqueeze(0), is_full=False)

    def trained(self, records: Int[Tensor, "S B"], *, is_full: bool = False) -> Items:
        """Return some records as items to train on, without the wrong choices."""
        lists = self.choices, self.own, self.requests
        if self.labels is not None and all(one is None for one in lists):
            return self._with_classes(records, self.labels[records], is_full=is_full)
        asked = self.asked[records]
        answered = self.read[records] + 1 - asked
        most = self.most_answered if is_full else int(answered.max())
        answers = spans(self.tokens, self.starts[records] + asked, answered, most)
        return self._with_answer(records, answers, answered, is_full=is_full)

    def _words(
        self, records: Int[Tensor, "S B"], *, is_full: bool
    ) -> Iterator[tuple[Int[Tensor, "S B M"], Int[Tensor, "S B"]]]:
        """Yield the tokens of each choice of some records, and how many they are."""
        if self.choices is not None:
            for word, length in zip(*self.choices, strict=True):
                yield word.expand(*records.shape, -1), length.expand(records.shape)
        elif self.own is not None:
            for place in range(self.own.lengths.shape[1]):
                yield self.own.words(records, place, self.most_answered if is_full else None)

    def _with_classes(
        self, records: Int[Tensor, "S B"], classes: Int[Tensor, "S B"], *, is_full: bool
    ) -> Items:
        """Return the texts of records with their classes."""
        read = self.asked[records]
        length = self._padded(int(read.max()), is_full=is_full)
        rows = (read - 1).unsqueeze(-1)
        first, last = (0, length - 1) if is_full else (int(rows.min()), int(rows.max()))
        return Items(
            tokens=spans(self.tokens, self.starts[records], read, length),
            targets=classes.unsqueeze(-1),
            answer_rows=rows - first,
            first=first,
            length=last + 1 - first,
            read=read,
        )

    def _padded(self, longest: int, *, is_full: bool) -> int:
        """Return the tokens of items of which the longest has `longest`."""
        return self.limit if is_full else min(-(-longest // PADDED_TO) * PADDED_TO, self.limit)

    def drafted(self, records: Int[Tensor, "B"], answers: Int[Tensor, "A B M"]) -> Items:
        """Return records with answers in place of their own, of any length.

        Answers are `most_answered` tokens long. The end of one that does not fit behind its prompt
        is not read.
        """
        every = records.expand(len(answers), -1)
        answered = self.room(every)
        return self._with_answer(every, answers, answered, is_full=False)

    def room(self, records: Int[Tensor, "*S"]) -> Int[Tensor, "*S"]:
        """Return the most answer tokens that fit behind each prompt."""
        return (self.limit + 1 - self.asked[records]).clamp(max=self.most_answered)

    def _with_answer(
        self,
        records: Int[Tensor, "S B"],
        answers: Int[Tensor, "S B M"],
        answered: Int[Tensor, "S B"],
        *,
        is_full: bool,
    ) -> Items:
        """Return the prompts of records with these answers."""
        prompts = self.tokens, self.starts[records], self.asked[records]
        return self._joined(prompts, answers, answered, is_full=is_full)

    def _joined(
        self,
        prompts: tuple[Int[Tensor, "N"], Int[Tensor, "S B"], Int[Tensor, "S B"]],
        answers: Int[Tensor, "S B M"],
        answered: Int[Tensor, "S B"],
        *,
        is_full: bool,
    ) -> Items:
        """Return prompts with these answers.

        Prompts are spans of tokens: where each starts, and its length.
        """
        all_tokens, starts, asked = prompts
        behind, count = self._behind(answers, answered)
        read = asked + count
        length = self._padded(int(read.max()), is_full=is_full)
        tokens = spans(all_tokens, starts, asked, length)
        place = torch.arange(behind.shape[-1])
        is_read = place < count.unsqueeze(-1)
        written = asked.unsqueeze(-1) + place
        tokens.scatter_add_(-1, torch.where(is_read, written, 0), torch.where(is_read, behind, 0))
        place = torch.arange(answers.shape[-1])
        counted = place < answered.unsqueeze(-1)
        rows = asked.unsqueeze(-1) - 1 + torch.where(counted, place, 0)
        first, last = (0, length - 1) if is_full else (int(rows.min()), int(rows.max()))
        return Items(
            tokens=tokens,
            targets=torch.where(counted, answers, 0),
            counted=None if not is_full and bool(counted.all()) else counted,
            answer_rows=rows - first,
            first=first,
            length=last + 1 - first,
            read=None if self.behind is None else read,
        )

    def _behind(
        self, answers: Int[Tensor, "S B M"], answered: Int[Tensor, "S B"]
    ) -> tuple[Int[Tensor, "S B M2"], Int[Tensor, "S B"]]:
        """Return what the model reads behind prompts, and its numbers of tokens.

        A model that continues a text reads all of the answer but its last token.
        """
        if self.behind is None:
            return answers, answered - 1
        every = self.behind.expand(*answered.shape, -1)
        return every, torch.full_like(answered, len(self.behind))


@dataclass(frozen=True)
class OwnChoices:
    """The choices of records that have their own.

    Attributes:
        tokens: the tokens of all choices, one after the other.
        starts: the place of the first token of each record's choices.
        lengths: tokens of each record's choices.
    """

    tokens: Int[Tensor, "N"]
    starts: Int[Tensor, "W K"]
    lengths: Int[Tensor, "W K"]

    def words(
        self, records: Int[Tensor, "S B"], place: int, most: int | None = None
    ) -> tuple[Int[Tensor, "S B M"], Int[Tensor, "S B"]]:
        """Return the choice at a place of some records, and its numbers of tokens.

        It is padded to `most` tokens, by default to the longest.
        """
        starts, lengths = self.starts[records, place], self.lengths[records, place]
        return spans(self.tokens, starts, lengths, most or int(lengths.max())), lengths

    def tokens_of(self, record: int, place: int) -> tuple[int, ...]:
        """Return the tokens of one choice of a record."""
        start, length = int(self.starts[record, place]), int(self.lengths[record, place])
        return tuple(self.tokens[start : start + length].tolist())


def texts_of(task: TextTask) -> Texts:
    """Return the records of a task, from a cache.

    Raises:
        InvalidSpec: items do not fit, or have no tokens of their own.
        BadDataset: the content is not that of the dataset, or was not given.
    """
    return _texts(task)  # pyright: ignore[reportArgumentType] - frozen, and so hashable


@lru_cache(maxsize=4)  # the job's own task, the base's, and two that are scored
def _texts(task: TextTask) -> Texts:
    corpus = read_corpus(task)
    numbers = torch.arange(len(corpus.asked))
    order = mixed(numbers).argsort()
    lengths, splits = _tensor(corpus.lengths), _tensor(corpus.splits)
    return Texts(
        tokens=_as_stored(corpus.tokens),
        starts=lengths.cumsum(0) - lengths,
        asked=_tensor(corpus.asked),
        read=lengths - 1,
        labels=_tensor(corpus.labels) if corpus.labels else None,
        choices=_choices(corpus),
        own=_own_choices(corpus),
        requests=_requests(corpus),
        empty=torch.tensor(corpus.empty) if corpus.empty else None,
        behind=torch.tensor(corpus.behind) if corpus.behind else None,
        groups=_tensor(corpus.groups) if corpus.groups else None,
        answer_sizes={unit: _tensor(sizes) for unit, sizes in corpus.answer_sizes.items()},
        others=other_answers(corpus),
        of_split={split: order[splits[order] == place] for place, split in enumerate(EVERY_SPLIT)},
        # Behind its prompt, an encoder also reads a mask for the last token of an answer.
        limit=task.sequence_length() + bool(corpus.behind),
        most_answered=task.target_length(),
        end=corpus.end,
        targets=corpus.targets,
        stops=frozenset(corpus.stops),
    )


def _as_stored(numbers: "array[int]") -> Int[Tensor, "N"]:
    """Return the numbers without a copy: there can be a billion tokens."""
    dtypes = {"i": torch.int32, "b": torch.int8}
    return torch.frombuffer(numbers, dtype=dtypes[numbers.typecode])


def _tensor(numbers: "array[int]") -> Int[Tensor, "N"]:
    return _as_stored(numbers).to(torch.int64)


def _choices(corpus: Corpus) -> tuple[Tensor, Tensor] | None:
    if not corpus.choices:
        return None
    longest = max(map(len, corpus.choices))
    words = [[*word, *[0] * (longest - len(word))] for word in corpus.choices]
    return torch.tensor(words), torch.tensor([len(word) for word in corpus.choices])


def _own_choices(corpus: Corpus) -> OwnChoices | None:
    if not corpus.own:
        return None
    lengths = _tensor(corpus.own_lengths)
    starts = lengths.cumsum(0) - lengths
    shape = len(corpus.lengths), -1
    return OwnChoices(_as_stored(corpus.own), starts.view(shape), lengths.view(shape))


def _requests(corpus: Corpus) -> ItemRequests | None:
    if (read := corpus.requests) is None:
        return None
    counts = _tensor(read.counts)
    answered = _tensor(read.answered)
    return ItemRequests(
        prompts=_as_stored(read.prompts),
        starts=_tensor(read.starts),
        asked=_tensor(read.asked),
        answers=_as_stored(read.answers),
        answer_starts=answered.cumsum(0) - answered,
        answered=answered,
        places=_tensor(read.places),
        sizes=_tensor(read.sizes),
        counts=counts,
        first=counts.cumsum(0) - counts,
    )
