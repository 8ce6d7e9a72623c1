"""Saliency of attention weights.

Source: Wang et al. (EMNLP 2023), section 2.1, with the normalisation of their plotted curves.
"""

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.attachments import NOTHING_ATTACHED
from adaptlab.engine.capture import Recorder
from adaptlab.engine.items import Items
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.plugins.learned_positions import EMBEDDING
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.observation import FrozenBase

AT_ONCE = 128
"""Items of one pass."""
FLOWS = ("into_labels", "from_labels", "others", "query_from_others")


def saliencies(base: FrozenBase, task: Episodes, items: Items) -> Tensor:
    """Return |Σ_heads A ∂loss/∂A| of every layer and item, [L, B, T, T].

    The loss is the cross-entropy over the logits of labels.
    """
    weights = {**base.weights, EMBEDDING: base.weights[EMBEDDING].clone().requires_grad_()}
    forward, recorder = ENGINE_FAMILIES.get(base.family.name), Recorder()
    tokens = items.tokens
    with torch.enable_grad():
        logits = forward(base.family, weights, tokens, NOTHING_ATTACHED, slice(None), recorder)
        labels = logits[0, :, -1, task.first_label : task.separator]
        right = items.targets[0, :, 0] - task.first_label
        loss = functional.cross_entropy(labels, right, reduction="sum")
        slopes = torch.autograd.grad(loss, recorder.patterns)
    length = tokens.shape[-1]
    pairs = zip(recorder.patterns, slopes, strict=True)
    return torch.stack([(a * s)[0].sum(1).abs().detach()[..., -length:] for a, s in pairs])


def flows(base: FrozenBase, task: Episodes, items: Items) -> Tensor:
    """Return the `FLOWS` in every layer and item, [L, B, 4].

    They are means over pairs of tokens, divided by the sum of the first three. The last is a part
    of the third: from all tokens but labels to the query's end.
    """
    count = items.tokens.shape[1]
    parts = [
        _means(task, saliencies(base, task, items.part(slice(first, first + AT_ONCE))))
        for first in range(0, count, AT_ONCE)
    ]
    means = torch.cat(parts, 1)
    tiny = torch.finfo(means.dtype).tiny  # all are 0 where the loss is 0
    return means / means[..., :3].sum(-1, keepdim=True).clamp(min=tiny)


def _means(task: Episodes, saliency: Tensor) -> Tensor:
    """Return the means [L, B, 4] of saliency over the kinds of pairs."""
    length = saliency.shape[-1]
    labels = torch.zeros(length, dtype=torch.bool)
    labels[list(task.also_trained())] = True
    before = torch.ones(length, length, dtype=torch.bool).tril(-1)
    into = before & labels.unsqueeze(1)
    out_of = torch.zeros_like(before)
    out_of[-1] = labels
    beside = torch.zeros_like(before)
    beside[-1, :-1] = ~labels[:-1]
    kinds = (into, out_of, before & ~into & ~out_of, beside)
    return torch.stack([saliency[..., kind].mean(-1) for kind in kinds], -1)
