"""Drift of adapted models from their base on the tokens of texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from adaptlab.engine.items.item_texts import expected_tokens, item_texts
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import scored_items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.measuring.evaluate import scored_parts
from adaptlab.engine.models.model import Model
from adaptlab.engine.tensors import Float
from adaptlab.metrics.kl_from_base import LARGEST_DIVERGENCE
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray


@torch.no_grad()
def kl_from_base(
    model: Model, bases: Model, rows: Sequence[int], task: Task, samples: int
) -> "NDArray[np.float64]":
    """Return KL(base || adapted) of every test item, summed over its tokens.

    Args:
        model: the adapted models.
        bases: the base models alone, as `bases_alone` returns them.
        rows: the place of the base of every row of `model`.
        task: the task whose answers are the texts.
        samples: the number of items.

    Returns nats by [replicate, item]; what is not finite becomes the largest divergence per token.
    """
    replicates = len(rows)
    found = torch.zeros(replicates, samples, dtype=torch.float64)
    for places, items in scored_parts(model, task, "test", samples, 2 * replicates):
        adapted = lifted(model.answers(items, task=task), replicates)
        alone = lifted(bases.answers(items, task=task, attached=False), max(rows) + 1)
        for row, base in enumerate(rows):
            found[row, places] = _divergences(alone[base], adapted[row], items).cpu()
    return found.numpy()


def _divergences(
    base: Float[Tensor, "B M V"], adapted: Float[Tensor, "B M V"], items: Items
) -> Float[Tensor, "B"]:
    """Return the divergence of each item over its counted tokens."""
    before, after = base.float().log_softmax(-1), adapted.float().log_softmax(-1)
    by_token = (before.exp() * (before - after)).sum(-1).double()
    by_token = torch.nan_to_num(by_token, nan=LARGEST_DIVERGENCE, posinf=LARGEST_DIVERGENCE)
    if items.counted is not None:
        by_token = torch.where(items.counted[0], by_token, 0.0)
    return by_token.clamp(min=0.0, max=LARGEST_DIVERGENCE).sum(-1)


def undrifted(
    task: Task, split: Split, likelihoods: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Return the statistics of `KlFromBase` of a model that is its own base.

    They are a divergence of 0, nats, tokens and bytes, by [replicate, item, column]. `likelihoods`
    are nats and tokens.
    """
    nothing = np.zeros_like(likelihoods[..., :1])
    size = nothing + text_bytes(task, split, likelihoods.shape[1])[:, None]
    return np.concatenate((nothing, likelihoods, size), axis=-1)


def text_bytes(task: Task, split: Split, samples: int) -> "NDArray[np.float64]":
    """Return the bytes of each answer as text, in UTF-8, [item]."""
    texts, sizes = item_texts(task, split), np.zeros(samples)
    for places, items in scored_items(task, split, samples, samples, torch.device("cpu")):
        for column, place in enumerate(places.tolist()):
            sizes[place] = len(texts.written(expected_tokens(items, column)).encode())
    return sizes
