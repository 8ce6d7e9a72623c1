"""Statistics by item of a task's metric beside the share of right items."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from adaptlab.engine.answering import Decoding
from adaptlab.engine.evaluate import Judged, scored_parts
from adaptlab.engine.item_texts import expected_tokens, item_texts, without_end
from adaptlab.engine.model import Model
from adaptlab.measurements.results import LARGEST_LOSS, Split
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray


def statistics_of(
    model: Model, task: Task, split: Split, metric: Metric, found: Judged, *, attached: bool = True
) -> "NDArray[np.float64]":
    """Return the statistics of judged items, [replicate, item, column].

    `found` has losses if the metric needs likelihoods. Without `attached`, the base model answered
    alone.
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
        case "answers":
            return _of_answers(model, task, split, metric, found.right, attached=attached)


def likelihoods(found: Judged) -> "NDArray[np.float64]":
    """Return losses and counted tokens.

    A loss that is not finite becomes the largest one, so the mean is beyond every limit.
    """
    assert found.losses is not None
    assert found.counted is not None
    losses = torch.nan_to_num(found.losses, nan=LARGEST_LOSS).clamp(max=LARGEST_LOSS)
    return torch.stack((losses, found.counted.expand_as(losses)), -1).cpu().numpy()


@torch.no_grad()
def _of_answers(
    model: Model, task: Task, split: Split, metric: Metric, right: Tensor, *, attached: bool
) -> "NDArray[np.float64]":
    """Return what a metric says of decoded answers.

    Only items that some replicate gets wrong are decoded: the answers that are exactly right are
    known.
    """
    texts, right = item_texts(task, split), right.cpu()
    replicates, samples = right.shape
    found = np.zeros((replicates, samples, metric.columns))
    decoding = Decoding(model, task, texts, attached=attached)
    for places, items in scored_parts(model, task, split, samples, replicates):
        given = decoding.tokens(places, items, right[:, places])
        for column, place in enumerate(places.tolist()):
            expected = texts.written(without_end(expected_tokens(items, column), texts.end))
            for row, answers in enumerate(given):
                found[row, place] = metric.of_answer(texts.written(answers[column]), expected)
    return found
