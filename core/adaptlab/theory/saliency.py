"""Saliency of attention weights.

Source: Wang et al. (EMNLP 2023), section 2.1, with the normalisation of their plotted curves.
"""

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.plugins.learned_positions import EMBEDDING
from adaptlab.theory.asking import Asked
from adaptlab.theory.observation import FrozenBase

FLOWS = ("into_labels", "from_labels", "others", "query_from_others")


def saliencies(base: FrozenBase, shown: Asked, part: slice = slice(None)) -> Tensor:
    """Return |Σ_heads A ∂loss/∂A| of every layer and item, [L, B, T, T].

    The loss is the cross-entropy over the logits of labels.
    """
    weights = {**base.weights, EMBEDDING: base.weights[EMBEDDING].clone().requires_grad_()}
    forward, recorder = ENGINE_FAMILIES.get(base.family.name), LayerRecorder()
    tokens = shown.tokens[part].unsqueeze(0)
    with torch.enable_grad():
        logits = forward(base.family, weights, tokens, NOTHING_ATTACHED, slice(None), recorder)
        rows = torch.arange(tokens.shape[1])
        labels = logits[0, rows, shown.ends[part]][:, shown.words]
        loss = functional.cross_entropy(labels, shown.right[part], reduction="sum")
        slopes = torch.autograd.grad(loss, recorder.patterns)
    length = tokens.shape[-1]
    pairs = zip(recorder.patterns, slopes, strict=True)
    return torch.stack([(a * s)[0].sum(1).abs().detach()[..., -length:] for a, s in pairs])


def flows(base: FrozenBase, shown: Asked) -> Tensor:
    """Return the `FLOWS` in every layer and item, [L, B, 4].

    They are means over pairs of tokens, divided by the sum of the first three. The last is a part
    of the third: from all tokens but labels to the query's end.
    """
    parts = [_means(shown, part, saliencies(base, shown, part)) for part in shown.parts(base)]
    means = torch.cat(parts, 1)
    tiny = torch.finfo(means.dtype).tiny  # all are 0 where the loss is 0
    return means / means[..., :3].sum(-1, keepdim=True).clamp(min=tiny)


def _means(shown: Asked, part: slice, saliency: Tensor) -> Tensor:
    """Return the means [L, B, 4] of saliency over the kinds of pairs.

    Pairs with padding behind an item's end are none of them.
    """
    length, ends = saliency.shape[-1], shown.ends[part]
    place = torch.arange(length)
    is_label = torch.zeros(len(ends), length, dtype=torch.bool)
    is_label.scatter_(1, shown.places["labels"][part], value=True)
    is_end = place == ends.unsqueeze(1)
    before = (place.unsqueeze(1) > place) & (place <= ends.unsqueeze(1)).unsqueeze(2)
    into = before & is_label.unsqueeze(2)
    of_end = before & is_end.unsqueeze(2)
    out_of = of_end & is_label.unsqueeze(1)
    kinds = (into, out_of, before & ~into & ~out_of, of_end & ~out_of)
    return torch.stack([(saliency * kind).sum((-1, -2)) / kind.sum((-1, -2)) for kind in kinds], -1)
