"""The demonstrations of each seed, from the training items of a task."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, zip_longest
from typing import TypeVar

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import as_digit_task, make_items
from adaptlab.engine.items.texts import Texts, texts_of
from adaptlab.engine.kernels.counter import constant, random_bits, stream
from adaptlab.engine.models.context import Context
from adaptlab.engine.models.nearest import NearestContext, Pool
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Int
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.demonstrations import POOL, Demonstrations
from adaptlab.plugins.task import DigitTask, Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.text.encoding import begun, separating

ITEMS_PER_DEMONSTRATION = 16
"""Generated training items per demonstration that are looked at."""

T = TypeVar("T")


@dataclass(frozen=True)
class Demonstration:
    """The tokens of a demonstration; `label` are the places of its answer."""

    tokens: tuple[int, ...]
    label: range

    def __len__(self) -> int:
        return len(self.tokens)

    def behind_others(self, begun: int) -> "Demonstration":
        """Return it without the `begun` tokens with which a text begins."""
        label = range(self.label.start - begun, self.label.stop - begun)
        return Demonstration(self.tokens[begun:], label)


def demonstrations(plan: Plan, chosen_for: Plan | None = None) -> Context | NearestContext | None:
    """Return the demonstrations of every seed, one row per seed.

    None if the method has none. Those that are the nearest to each item are chosen later. Records
    are chosen as for the base model of `chosen_for`, by default the plan's own, and written with
    the tokens of the plan's.
    """
    if not isinstance(plan.method, Demonstrations):
        return None
    chooser = (chosen_for or plan).task
    if plan.method.is_chosen_by_item():
        return _nearest(plan.method, plan.task, chooser, plan.spec.seeds).on(plan.device)  # pyright: ignore[reportArgumentType] - frozen, and so hashable
    context = _context(plan.method, plan.task, chooser, plan.spec.seeds)  # pyright: ignore[reportArgumentType] - frozen, and so hashable
    return context.on(plan.device)


@lru_cache(maxsize=4)
def _context(method: Demonstrations, task: Task, chooser: Task, seeds: tuple[int, ...]) -> Context:
    return written_context([of_seed(method, task, chooser, seed) for seed in seeds], _begun(task))


def written_context(rows: Sequence[Sequence[Demonstration]], begun: int) -> Context:
    """Return the demonstrations of every row, one after the other.

    Their first tokens, as many as `begun`, begin a text.
    """
    lengths = [sum(map(len, row)) for row in rows]
    longest = max(lengths)
    tokens = [[*_tokens(row), *[0] * (longest - sum(map(len, row)))] for row in rows]
    labels = [[*_owners(row), *[-1] * (longest - sum(map(len, row)))] for row in rows]
    return Context(
        torch.tensor(tokens),
        torch.tensor(lengths),
        shortest=min(lengths),
        labels=torch.tensor(labels),
        begun=begun,
    )


@lru_cache(maxsize=4)
def _nearest(
    method: Demonstrations, task: Task, chooser: Task, seeds: tuple[int, ...]
) -> NearestContext:
    if isinstance(task, TextTask):
        assert isinstance(chooser, TextTask)
        questions, rows = _records_of_pools(method, task, chooser, seeds)
    else:
        questions, rows = _items_of_pools(method, as_digit_task(task), seeds)
    start = _begun(task)
    _check_enough(method, min(len(set(row)) for row in rows))
    written = [[each.tokens[start:] for each in row] for row in rows]
    longest = max(len(tokens) for row in written for tokens in row)
    padded = [[[*tokens, *[0] * (longest - len(tokens))] for tokens in row] for row in written]
    lengths = [[len(tokens) for tokens in row] for row in written]
    allowed = [[each not in row[:place] for place, each in enumerate(row)] for row in rows]
    assert isinstance(method.demonstrations, int)
    places = torch.arange(method.demonstrations)
    return NearestContext(
        Pool(questions, torch.tensor(padded), torch.tensor(lengths), torch.tensor(allowed)),
        order=torch.stack([_bits("order", seed, places).argsort() for seed in seeds]),
        begin=rows[0][0].tokens[:start],
    )


def _items_of_pools(
    method: Demonstrations, task: DigitTask, seeds: Sequence[int]
) -> tuple[Items, list[list[Demonstration]]]:
    """Return generated items of seeds, as questions and as demonstrations."""
    items = make_items(task, "train", torch.tensor(seeds), 0, POOL)
    return items, [_with_answers(task, items, row) for row in range(len(seeds))]


def _records_of_pools(
    method: Demonstrations, task: TextTask, chooser: TextTask, seeds: Sequence[int]
) -> tuple[Items, list[list[Demonstration]]]:
    """Return training records of seeds, as questions and as demonstrations."""
    records = torch.stack([_short_records(method, chooser, seed)[:POOL] for seed in seeds])
    _check_enough(method, records.shape[1])
    separator = separating(task.source().tokeniser, method.separator)
    texts, ends = texts_of(task), _ends(task)
    rows = [
        [_written(texts, record, ends, separator) for record in row] for row in records.tolist()
    ]
    return texts.trained(records), rows


def _check_enough(method: Demonstrations, count: int) -> None:
    """Raise `InvalidSpec` if fewer items can be demonstrated than are wanted."""
    assert isinstance(method.demonstrations, int)
    if count >= method.demonstrations:
        return
    detail = (
        f"Only {count} training items have at most {method.longest} tokens. Raise `longest`, or "
        "lower `demonstrations`."
    )
    raise InvalidSpec(Problem("/method/longest", "too_few_items", detail))


def _tokens(row: Sequence[Demonstration]) -> Iterator[int]:
    return chain.from_iterable(each.tokens for each in row)


def _owners(row: Sequence[Demonstration]) -> Iterator[int]:
    """Yield the demonstration to whose label each token belongs, or −1."""
    for place, each in enumerate(row):
        yield from (place if at in each.label else -1 for at in range(len(each)))


def _begun(task: Task) -> int:
    """Return the tokens that begin every text of a task."""
    tokeniser = task.tokeniser()
    return 0 if tokeniser is None else begun(tokeniser)


def of_seed(method: Demonstrations, task: Task, chooser: Task, seed: int) -> list[Demonstration]:
    """Return the demonstrations of a seed, in order."""
    if isinstance(task, TextTask):
        assert isinstance(chooser, TextTask)
        chosen = _of_records(method, task, chooser, seed)
    else:
        chosen = _generated(method, as_digit_task(task), seed)
    _check_enough(method, len(chosen))
    order: list[int] = _bits("order", seed, torch.arange(len(chosen))).argsort().tolist()
    first, *others = (chosen[place] for place in order)
    return [first, *(other.behind_others(_begun(task)) for other in others)]


def _chosen(method: Demonstrations, labelled: Iterable[tuple[T, int]]) -> list[T]:
    """Return the demonstrations among examples in random order, with labels."""
    assert isinstance(method.demonstrations, int)
    if method.choice == "random":
        return [example for example, _ in islice(labelled, method.demonstrations)]
    by_label = defaultdict[int, list[T]](list)
    for example, label in labelled:
        by_label[label].append(example)
    turns = zip_longest(*by_label.values(), fillvalue=None)
    chosen = (example for turn in turns for example in turn if example is not None)
    return list(islice(chosen, method.demonstrations))


def _generated(method: Demonstrations, task: DigitTask, seed: int) -> list[Demonstration]:
    """Return different training items of a seed with their answers."""
    assert isinstance(method.demonstrations, int)
    count = ITEMS_PER_DEMONSTRATION * method.demonstrations
    items = make_items(task, "train", torch.tensor([seed]), 0, count)
    labels: list[int] = items.targets[0, :, 0].tolist()
    different = dict(zip(_with_answers(task, items, 0), labels, strict=True))
    return _chosen(method, different.items())


def _with_answers(task: DigitTask, items: Items, row: int) -> list[Demonstration]:
    """Return items of a seed with their answers."""
    asked, answers = items.tokens[row, :, : task.input_length()], items.targets[row]
    end = task.demonstration_end()
    assert end is not None
    whole = torch.cat([asked, answers, torch.full_like(answers[:, :1], end)], -1)
    label = range(task.input_length(), task.input_length() + task.target_length())
    return [Demonstration(tuple(tokens), label) for tokens in whole.tolist()]


def _of_records(
    method: Demonstrations, task: TextTask, chooser: TextTask, seed: int
) -> list[Demonstration]:
    """Return training records of a seed with their answers, as tokens.

    They are chosen as the tokens of `chooser` allow.
    """
    separator = separating(task.source().tokeniser, method.separator)
    texts, ends = texts_of(task), _ends(task)
    return [
        _written(texts, record, ends, separator)
        for record in _chosen_records(method, chooser, seed)
    ]


def _ends(task: TextTask) -> int:
    """Return the tokens that end an answer: one or none."""
    return int(task.ends and task.source().tokeniser.end is not None)


def _chosen_records(method: Demonstrations, task: TextTask, seed: int) -> list[int]:
    """Return the numbers of the training records of a seed."""
    texts, records = texts_of(task), _short_records(method, task, seed)
    labels = torch.zeros_like(records) if texts.labels is None else texts.labels[records]
    return _chosen(method, zip(records.tolist(), labels.tolist(), strict=True))


def _short_records(method: Demonstrations, task: TextTask, seed: int) -> Int[Tensor, "W"]:
    """Return the short enough training records, in an order of the seed."""
    texts, separator = texts_of(task), separating(task.source().tokeniser, method.separator)
    ends = _ends(task)
    records = texts.of_split["train"]
    records = records[_bits("records", seed, records).argsort()]
    lengths = texts.read[records] + 1 - ends + len(separator)
    assert isinstance(method.longest, int)
    return records[lengths <= method.longest]


def _written(texts: Texts, record: int, ends: int, separator: Sequence[int]) -> Demonstration:
    """Return a prompt and its answer, without the end token."""
    first, count = int(texts.starts[record]), int(texts.read[record]) + 1 - ends
    tokens: list[int] = texts.tokens[first : first + count].tolist()
    return Demonstration((*tokens, *separator), range(int(texts.asked[record]), count))


def _bits(purpose: str, seed: int, numbers: Tensor) -> Tensor:
    cpu = torch.device("cpu")
    return random_bits(
        constant(stream(f"demonstrations/{purpose}"), cpu), constant(seed, cpu), numbers
    )
