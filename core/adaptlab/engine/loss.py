"""The loss that training minimises."""

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.model import Model
from adaptlab.engine.tensors import Float


def mean_losses(
    model: Model, items: Items, replicates: int, at: TrainingStep | None
) -> Float[Tensor, "{replicates}"]:
    """Return each replicate's mean cross-entropy over counted tokens."""
    plan = model.plan
    logits = model.for_training().answers(items, at)
    logits, targets = (lifted(part, replicates) for part in (logits.to(plan.dtype), items.targets))
    losses = functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
    losses = losses.view(replicates, -1)
    if items.counted is None:
        return losses.mean(1)
    counted = lifted(items.counted, replicates).flatten(1)
    return torch.where(counted, losses, 0).sum(1) / counted.sum(1)
