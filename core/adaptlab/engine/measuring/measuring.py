"""Statistics by item of a task's metric beside the share of right items."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from adaptlab.engine.items.item_texts import expected_tokens, item_texts, without_end
from adaptlab.engine.items.task_items import scored_items
from adaptlab.engine.measuring.drift import undrifted
from adaptlab.engine.measuring.evaluate import Judged
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.task import Task
from adaptlab.runs.events import LARGEST_LOSS, Split

if TYPE_CHECKING:
    from numpy.typing import NDArray


def statistics_of(task: Task, split: Split, metric: Metric, found: Judged) -> "NDArray[np.float64]":
    """Return the statistics of judged items, [replicate, item, column].

    `found` has losses if the metric needs likelihoods, and decoded answers if it needs answers.
    """
    match metric.needs:
        case "labels":
            assert found.given is not None
            assert found.expected is not None
            given = found.given.cpu()
            pairs = torch.stack((found.expected.cpu().expand_as(given), given), -1)
            return pairs.double().numpy()
        case "likelihood":
            return likelihoods(found)
        case "base":
            return undrifted(task, split, found)
        case "answers":
            return _of_answers(task, split, metric, found)


def likelihoods(found: Judged) -> "NDArray[np.float64]":
    """Return losses and counted tokens.

    A loss that is not finite becomes the largest one, so the mean is beyond every limit.
    """
    assert found.losses is not None
    assert found.counted is not None
    losses = torch.nan_to_num(found.losses, nan=LARGEST_LOSS).clamp(max=LARGEST_LOSS)
    return torch.stack((losses, found.counted.expand_as(losses)), -1).cpu().numpy()


def _of_answers(task: Task, split: Split, metric: Metric, found: Judged) -> "NDArray[np.float64]":
    """Return what a metric says of decoded answers."""
    texts, (replicates, samples) = item_texts(task, split), found.right.shape
    measured = np.zeros((replicates, samples, metric.columns))
    for places, items in scored_items(task, split, samples, samples, torch.device("cpu")):
        for column, place in enumerate(places.tolist()):
            expected = texts.written(without_end(expected_tokens(items, column), texts.end))
            for row, answers in enumerate(found.told):
                measured[row, place] = metric.of_answer(texts.written(answers[place]), expected)
    return measured
