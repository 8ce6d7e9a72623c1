"""The values of a metric that need no skill."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray

from adaptlab.engine.items.item_texts import expected_tokens, item_texts, without_end
from adaptlab.engine.items.task_items import scored_items
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import Task
from adaptlab.runs.events import MetricFloor
from adaptlab.statistics.scores import best_floor

CANDIDATES = 32
"""Training answers that are tried as the constant one, the most common first."""
TRIED_ON = 64
"""Test items on which they are tried; the best is then scored on all."""
READ = 512
"""Training items that are read."""
GUESSES = 20

Array = NDArray[np.float64]


def unskilled(task: Task, metric: Metric, statistics: Array) -> MetricFloor | None:
    """Return the best value without reading the questions, or by copying them.

    None without training answers. `statistics` are those of one replicate on the test items,
    [item, column].
    """
    match metric.needs:
        case "labels":
            return _of_labels(metric, statistics[:, 0])
        case "likelihood":
            value = _of_counts(task, metric, len(statistics))
        case "likelihood_of_text":
            value = _of_counts(task, metric, len(statistics), statistics[:, 1])
        case "answers":
            return _of_answers(task, metric, len(statistics))
        case "endings" | "choices" | "base":
            value = None
    return None if value is None else MetricFloor(value=value, kind="constant_answer")


def _of_labels(metric: Metric, right: Array) -> MetricFloor | None:
    """Return the floor of always one label, or of guessing evenly."""
    labels = np.unique(right)

    def value(given: Array) -> float:
        return metric.value(np.stack((right, given), 1))

    draw = np.random.default_rng(0)
    guesses = [value(draw.choice(labels, right.size)) for _ in range(GUESSES)]
    guessed = MetricFloor(value=math.fsum(guesses) / GUESSES, kind="guessing")
    constant = (value(np.full(right.size, label)) for label in labels)
    always = [MetricFloor(value=one, kind="constant_answer") for one in constant]
    return best_floor(metric, [*always, guessed])


def _of_answers(task: Task, metric: Metric, items: int) -> MetricFloor | None:
    """Return the better of one answer to all items, and of their prompts."""
    texts, right = item_texts(task, "test"), _right_answers(task, items)
    known = Counter(_answers(task, "train", READ))
    if not known:
        return None
    tried = ["", *(answer for answer, _ in known.most_common(CANDIDATES))]

    def value(given: Iterable[str], among: Sequence[Sequence[str]]) -> float:
        pairs = zip(given, among, strict=False)
        return metric.value(np.array([metric.of_references(*pair) for pair in pairs]))

    best = max(tried, key=lambda answer: value(repeat(answer), right[:TRIED_ON]))
    cut = task.answer_decoding().cut
    prompts = [cut(texts.copied(place)) for place in range(len(right))]
    constant = MetricFloor(value=value(repeat(best), right), kind="constant_answer")
    copied = MetricFloor(value=value(prompts, right), kind="copied_prompt")
    return best_floor(metric, [constant, copied])


def _of_counts(task: Task, metric: Metric, items: int, sizes: Array | None = None) -> float | None:
    """Return the value of predicting tokens by their share in training.

    Every token counts once more than it occurs, as does one that stands for all others. `sizes` are
    those of the test items' answers if they are not counted in tokens.
    """
    known = Counter(token for answer in _tokens(task, "train", READ) for token in answer)
    if not known:
        return None
    total = known.total() + len(known) + 1
    answers = _tokens(task, "test", items)
    losses = [
        -math.fsum(math.log((known[token] + 1) / total) for token in answer) for answer in answers
    ]
    sizes = np.array([*map(len, answers)], np.float64) if sizes is None else sizes
    return metric.value(np.stack((np.array(losses), sizes), axis=1))


def _right_answers(task: Task, items: int) -> list[tuple[str, ...]]:
    texts = item_texts(task, "test")
    firsts = enumerate(_answers(task, "test", items))
    return [(first, *texts.others(place)) for place, first in firsts]


def _answers(task: Task, split: Split, items: int) -> list[str]:
    texts = item_texts(task, split)
    return [texts.written(without_end(one, texts.end)) for one in _tokens(task, split, items)]


def _tokens(task: Task, split: Split, items: int) -> list[list[int]]:
    """Return the right answers to the first items of a split."""
    available = task.available(split)
    number = items if available is None else min(items, available)
    if number == 0:
        return []
    ((places, every),) = scored_items(task, split, number, number, torch.device("cpu"))
    # Texts come sorted by length.
    return [expected_tokens(every, column) for column in places.argsort().tolist()]
