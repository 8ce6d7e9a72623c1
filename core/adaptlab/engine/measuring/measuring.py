"""Statistics by item of a task's metric beside the share of right items."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from adaptlab.engine.items.item_texts import expected_tokens, item_texts, without_end
from adaptlab.engine.items.task_items import scored_items
from adaptlab.engine.items.texts import sizes_of_answers
from adaptlab.engine.measuring.drift import undrifted
from adaptlab.engine.measuring.evaluate import Judged
from adaptlab.metrics.near_ties import TOLERANCE
from adaptlab.plugins.answer_decoding import AnswerDecoding
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.task import Task
from adaptlab.plugins.text_task import TextTask
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
        case "likelihood_of_text":
            assert isinstance(task, TextTask)
            measured = likelihoods(found)
            sizes = sizes_of_answers(task, split, measured.shape[1], metric.text_unit)
            measured[..., 1] = sizes.numpy()
            return measured
        case "base":
            return undrifted(task, split, likelihoods(found))
        case "answers":
            return _of_answers(task, split, metric, found)
        case "choices":
            assert found.ahead is not None
            return (found.ahead < TOLERANCE).double().numpy()[..., None]
        case "endings":
            return _of_endings(task, split, found)


def likelihoods(found: Judged) -> "NDArray[np.float64]":
    """Return losses and counted tokens.

    A loss that is not finite becomes the largest one, so the mean is beyond every limit.
    """
    assert found.losses is not None
    assert found.counted is not None
    losses = torch.nan_to_num(found.losses, nan=LARGEST_LOSS).clamp(max=LARGEST_LOSS)
    return torch.stack((losses, found.counted.expand_as(losses)), -1).cpu().numpy()


def _of_answers(task: Task, split: Split, metric: Metric, found: Judged) -> "NDArray[np.float64]":
    """Return what a metric says of answers, once for the samples of an item."""
    texts, (replicates, samples) = item_texts(task, split), found.right.shape
    measured, rule = np.zeros((replicates, samples, metric.columns)), task.answer_decoding()
    for places, items in scored_items(task, split, samples, samples, torch.device("cpu")):
        for column, place in enumerate(places.tolist()):
            first = texts.written(without_end(expected_tokens(items, column), texts.end))
            right = first, *texts.others(place)
            for row, answers in enumerate(found.told):
                given = [task.without_stop(texts.written(tokens)) for tokens in answers[place]]
                each = np.array([metric.of_references(answer, right) for answer in given])
                measured[row, place] = _of_samples(metric, rule, each)
    return measured


def _of_samples(
    metric: Metric, rule: AnswerDecoding, each: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Return an item's statistics from those of its samples, [sample, column]."""
    if rule.kept == "mean":
        return each.mean(0)
    values = metric.scaled(np.array([metric.value(one[None]) for one in each]))
    return np.array(rule.weights()) @ each[np.argsort(-values, kind="stable")]


def _of_endings(task: Task, split: Split, found: Judged) -> "NDArray[np.float64]":
    """Return the share of each item's answers that end at the limit of tokens."""
    texts = item_texts(task, split)
    has_stops = bool(task.answer_decoding().stop) or task.answer_judge() is not None

    def is_cut(tokens: list[int], room: int) -> bool:
        if texts.end is None and not has_stops:
            return False  # all answers have this length
        if len(tokens) < room or texts.is_stopped(tokens):
            return False
        return task.without_stop(text := texts.written(tokens)) == text

    room: list[int] = texts.room(torch.arange(found.right.shape[1])).tolist()
    shares = [
        [sum(is_cut(one, most) for one in answers) / len(answers) for answers, most in row]
        for row in (zip(told, room, strict=True) for told in found.told)
    ]
    return np.array(shares)[..., None]
