"""Attention of a query to label words, as a score of the model's answer.

Source: Wang et al. (EMNLP 2023), section 2.3. There the labels are the same in all inputs, and AUC
is over all of them. Labels of episodes differ, so AUC is within an item, averaged over items.
"""

import torch
from torch import Tensor

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.theory.asking import Asked
from adaptlab.theory.observation import FrozenBase


@torch.no_grad()
def label_auc(base: FrozenBase, shown: Asked) -> Tensor:
    """Return the AUC of every layer and item, [L, B].

    It is the share of other labels in the item that have less attention than the model's answer;
    equal attention counts half. It is ½ if the answer is no label of the item.
    """
    return torch.cat([_of_part(base, shown, part) for part in shown.parts(base)], 1)


def _of_part(base: FrozenBase, asked: Asked, part: slice) -> Tensor:
    recorder, tokens, ends = LayerRecorder(), asked.tokens[part].unsqueeze(0), asked.ends[part]
    forward = ENGINE_FAMILIES.get(base.family.name)
    logits = forward(base.family, base.weights, tokens, NOTHING_ATTACHED, slice(None), recorder)
    rows = torch.arange(len(ends))
    answer = asked.words[logits[0, rows, ends][:, asked.words].argmax(-1)]
    places = asked.places["labels"][part]
    shown = tokens[0].gather(1, places)  # B, D
    length = tokens.shape[-1]
    patterns = [pattern[0, rows, :, ends, -length:].sum(1) for pattern in recorder.patterns]
    to_labels = torch.stack(patterns).gather(-1, places.expand(len(patterns), -1, -1))  # L, B, D
    same = shown.unsqueeze(2) == shown.unsqueeze(1)  # B, D, D
    score = (to_labels.unsqueeze(2) * same).sum(-1)  # of the label at each place
    is_answer = shown == answer.unsqueeze(1)
    own = (score * is_answer).sum(-1) / is_answer.sum(-1).clamp(min=1)
    lead = own.unsqueeze(-1) - score
    wins = (lead > 0).double() + (lead == 0).double() / 2
    others = ~is_answer
    auc = (wins * others).sum(-1) / others.sum(-1).clamp(min=1)
    return torch.where(is_answer.any(-1), auc, torch.full_like(auc, 0.5))


def cumulative_share(auc: Tensor) -> Tensor:
    """Return each layer's share of Σ (AUC − ½), cumulated, of means [..., L].

    It is 0 where the sum is not above 0, since there is nothing to share.
    """
    beyond = auc - 0.5
    whole = beyond.sum(-1, keepdim=True)
    return torch.where(whole > 0, beyond.cumsum(-1) / whole, torch.zeros_like(beyond))
