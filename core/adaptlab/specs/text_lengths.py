"""Typical lengths of the texts of a task, for estimates of time."""

import math
from collections.abc import Callable, Mapping

from adaptlab.plugins.task import Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.text.template import Template
from adaptlab.text.tokeniser import BYTES_VOCABULARY

BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 per token of a published tokeniser; English texts have about as many."""
PADDED = 1.3
"""Width of a batch per mean length: items are sorted by length within some steps.

Measured with sentences of 24 tokens in the median: batches of 8 were 33 tokens wide on average.
"""

MeanBytes = Callable[[str], Mapping[str, float] | None]
"""Returns the mean bytes of the fields of a dataset by its digest, None if they are unknown."""


def unknown(_: str) -> None:
    """Return None: nothing is known about the lengths of any dataset."""


def typical_length(task: Task, vocabulary: int, mean_bytes: MeanBytes = unknown) -> int:
    """Return the tokens of an item of a typical batch, with its padding.

    Never above the task's limit, which is the result for other tasks and unknown datasets.

    Args:
        task: the task, with its dataset looked up.
        vocabulary: the tokens of the model. If it has no more than there are bytes, the model
            reads bytes.
        mean_bytes: the lengths of the fields of datasets.
    """
    longest = task.sequence_length()
    if not isinstance(task, TextTask):
        return longest
    means = mean_bytes(task.reference_to_records().digest)
    used = (task.template(), *task.choices().values())
    if means is None or not {field for text in used for field in text.fields} <= means.keys():
        return longest
    per_token = 1 if vocabulary <= BYTES_VOCABULARY else BYTES_PER_TOKEN
    tokens = PADDED * (_bytes(task.template(), means) + _answer(task, means)) / per_token
    return min(longest, max(math.ceil(tokens), task.target_length() + 1))


def _bytes(template: Template, means: Mapping[str, float]) -> float:
    """Return the mean bytes of a rendered template."""
    return sum(means[p.text] if p.is_field else len(p.text.encode()) for p in template.pieces)


def _answer(task: TextTask, means: Mapping[str, float]) -> float:
    """Return the mean bytes of an answer beside its prompt; a class has none."""
    if task.classes() is not None:
        return 0.0
    if words := [_bytes(word, means) for word in task.choices().values()]:
        return sum(words) / len(words)
    if task.conversations() is not None:
        return 0.0  # the answer is in the same field as the prompt
    return means.get(task.answer_field()[1], 0.0)
