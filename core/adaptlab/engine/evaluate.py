"""Exact-match scores on fresh items.

Greedy generation answers an item rightly exactly when, fed the right answer so far, the model
ranks the right token first at every answer position: one forward pass scores all of them.
"""

import torch
from torch import Tensor

from adaptlab.engine.digits import make_items, target_rows
from adaptlab.engine.grouped import lifted
from adaptlab.engine.model import Model
from adaptlab.results import Split
from adaptlab.task import DigitTask

TOKENS_AT_ONCE = 2**16
ITEM_SEED = 0
"""Held-out items are the same for all replicates and jobs, so that outcomes pair."""


@torch.no_grad()
def outcomes(model: Model, task: DigitTask, split: Split, samples: int, replicates: int) -> Tensor:
    """Which of the first `samples` items of a split are right, as bool [R, samples]."""
    at_once = max(1, TOKENS_AT_ONCE // (replicates * task.sequence_length()))
    rows = target_rows(task)
    seeds = torch.tensor([ITEM_SEED], device=model.plan.device)
    parts: list[Tensor] = []
    for first in range(0, samples, at_once):
        items = make_items(task, split, seeds, first, min(at_once, samples - first))
        answers = model.logits(items.tokens, rows).argmax(-1)  # R, B, M
        parts.append(lifted((answers == items.targets).all(-1), replicates))
    return torch.cat(parts, 1)
