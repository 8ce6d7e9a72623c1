"""The demonstrations of each seed, from the training items of a task."""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice, zip_longest
from typing import TypeVar

import torch
from torch import Tensor

from adaptlab.engine.context import Context
from adaptlab.engine.counter import constant, random_bits, stream
from adaptlab.engine.making import as_digit_task, make_items
from adaptlab.engine.plan import Plan
from adaptlab.engine.texts import Texts, texts_of
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.demonstrations import Demonstrations
from adaptlab.plugins.task import DigitTask, Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.text.encoding import begun, separating

ITEMS_PER_DEMONSTRATION = 16
"""Generated training items per demonstration that are looked at."""

T = TypeVar("T")


def demonstrations(plan: Plan, chosen_for: Plan | None = None) -> Context | None:
    """Return the demonstrations of every seed, one row per seed.

    None if the method has none. Records are chosen as for the base model of `chosen_for`, by
    default the plan's own, and written with the tokens of the plan's.
    """
    if not isinstance(plan.method, Demonstrations):
        return None
    chooser = (chosen_for or plan).task
    context = _context(plan.method, plan.task, chooser, plan.spec.seeds)  # pyright: ignore[reportArgumentType] - frozen, and so hashable
    tokens, lengths = context.tokens.to(plan.device), context.lengths.to(plan.device)
    return Context(tokens, lengths, context.begun)


@lru_cache(maxsize=4)
def _context(method: Demonstrations, task: Task, chooser: Task, seeds: tuple[int, ...]) -> Context:
    rows = [_of_seed(method, task, chooser, seed) for seed in seeds]
    longest = max(map(len, rows))
    padded = [[*row, *[0] * (longest - len(row))] for row in rows]
    skipped = begun(task.source().tokeniser) if isinstance(task, TextTask) else 0
    return Context(torch.tensor(padded), torch.tensor([len(row) for row in rows]), skipped)


def _of_seed(method: Demonstrations, task: Task, chooser: Task, seed: int) -> list[int]:
    """Return the tokens of all demonstrations of a seed."""
    if isinstance(task, TextTask):
        assert isinstance(chooser, TextTask)
        chosen = _of_records(method, task, chooser, seed)
    else:
        chosen = _generated(method, as_digit_task(task), seed)
    if len(chosen) < method.demonstrations:
        detail = (
            f"Only {len(chosen)} training items have at most {method.longest} tokens. Raise "
            "`longest`, or lower `demonstrations`."
        )
        raise InvalidSpec(Problem("/method/longest", "too_few_items", detail))
    order: list[int] = _bits("order", seed, torch.arange(len(chosen))).argsort().tolist()
    start = begun(task.source().tokeniser) if isinstance(task, TextTask) else 0
    rest = [token for place in order for token in chosen[place][start:]]
    return [*chosen[0][:start], *rest]


def _chosen(method: Demonstrations, labelled: Iterable[tuple[T, int]]) -> list[T]:
    """Return the demonstrations among examples in random order, with labels."""
    if method.choice == "random":
        return [example for example, _ in islice(labelled, method.demonstrations)]
    by_label = defaultdict[int, list[T]](list)
    for example, label in labelled:
        by_label[label].append(example)
    turns = zip_longest(*by_label.values(), fillvalue=None)
    chosen = (example for turn in turns for example in turn if example is not None)
    return list(islice(chosen, method.demonstrations))


def _generated(method: Demonstrations, task: DigitTask, seed: int) -> list[tuple[int, ...]]:
    """Return different training items of a seed with their answers."""
    count = ITEMS_PER_DEMONSTRATION * method.demonstrations
    items = make_items(task, "train", torch.tensor([seed]), 0, count)
    asked, answers = items.tokens[0, :, : task.input_length()], items.targets[0]
    end = task.demonstration_end()
    assert end is not None
    rows = torch.cat([asked, answers, torch.full_like(answers[:, :1], end)], -1)
    labelled = zip(map(tuple, rows.tolist()), answers[:, 0].tolist(), strict=True)
    return _chosen(method, dict(labelled).items())


def _of_records(
    method: Demonstrations, task: TextTask, chooser: TextTask, seed: int
) -> list[tuple[int, ...]]:
    """Return training records of a seed with their answers, as tokens.

    They are chosen as the tokens of `chooser` allow.
    """
    separator = separating(task.source().tokeniser, method.separator)
    written = texts_of(task), _ends(task)
    return [
        (*_written(written[0], record, written[1]), *separator)
        for record in _chosen_records(method, chooser, seed)
    ]


def _ends(task: TextTask) -> int:
    """Return the tokens that end an answer: one or none."""
    return int(task.ends and task.source().tokeniser.end is not None)


def _chosen_records(method: Demonstrations, task: TextTask, seed: int) -> list[int]:
    """Return the numbers of the training records of a seed."""
    texts, separator = texts_of(task), separating(task.source().tokeniser, method.separator)
    ends = _ends(task)
    records = texts.of_split["train"]
    records = records[_bits("records", seed, records).argsort()]
    lengths = texts.read[records] + 1 - ends + len(separator)
    assert isinstance(method.longest, int)
    records = records[lengths <= method.longest]
    labels = torch.zeros_like(records) if texts.labels is None else texts.labels[records]
    return _chosen(method, zip(records.tolist(), labels.tolist(), strict=True))


def _written(texts: Texts, record: int, ends: int) -> list[int]:
    """Return the tokens of a prompt and its answer, without the end token."""
    first = int(texts.starts[record])
    tokens: list[int] = texts.tokens[first : first + int(texts.read[record]) + 1 - ends].tolist()
    return tokens


def _bits(purpose: str, seed: int, numbers: Tensor) -> Tensor:
    cpu = torch.device("cpu")
    return random_bits(
        constant(stream(f"demonstrations/{purpose}"), cpu), constant(seed, cpu), numbers
    )
