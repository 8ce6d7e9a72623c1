"""Attention of a query to label words, as a score of the model's answer.

Source: Wang et al. (EMNLP 2023), section 2.3. There the labels are the same in all inputs, and AUC
is over all of them. Labels of episodes differ, so AUC is within an episode, averaged over episodes.
"""

import torch
from torch import Tensor

from adaptlab.engine.attachments import NOTHING_ATTACHED
from adaptlab.engine.capture import Recorder
from adaptlab.engine.items import Items
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.observation import FrozenBase

AT_ONCE = 128
"""Items of one pass."""


@torch.no_grad()
def label_auc(base: FrozenBase, task: Episodes, items: Items) -> Tensor:
    """Return the AUC of every layer and episode, [L, B].

    It is the share of other labels in the episode that have less attention than the model's answer;
    equal attention counts half. It is ½ if the answer is no label of the episode.
    """
    parts = [
        _of_tokens(base, task, items.tokens[:, first : first + AT_ONCE])
        for first in range(0, items.tokens.shape[1], AT_ONCE)
    ]
    return torch.cat(parts, 1)


def _of_tokens(base: FrozenBase, task: Episodes, tokens: Tensor) -> Tensor:
    recorder = Recorder()
    forward = ENGINE_FAMILIES.get(base.family.name)
    logits = forward(base.family, base.weights, tokens, NOTHING_ATTACHED, slice(None), recorder)
    answer = task.first_label + logits[0, :, -1, task.first_label : task.separator].argmax(-1)
    places = list(task.also_trained())
    shown = tokens[0][:, places]  # B, D
    length = tokens.shape[-1]
    patterns = [pattern[0, :, :, -1, -length:].sum(1) for pattern in recorder.patterns]
    to_labels = torch.stack(patterns)[..., places]  # L, B, D
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
