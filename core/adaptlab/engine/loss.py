"""What training makes small."""

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.digits import target_rows
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.grouped import lifted
from adaptlab.engine.items import Items
from adaptlab.engine.model import Model


def mean_losses(model: Model, items: Items, replicates: int, at: TrainingStep | None) -> Tensor:
    """The mean cross-entropy over counted answer tokens for every replicate of the model, [R]."""
    plan = model.plan
    logits = model.for_training().logits(items.tokens, target_rows(plan.task), training=at)
    logits, targets = (lifted(part, replicates) for part in (logits.to(plan.dtype), items.targets))
    found = functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
    found = found.view(replicates, -1)
    if items.counted is None:
        return found.mean(1)
    counted = lifted(items.counted, replicates).flatten(1)
    return torch.where(counted, found, 0).sum(1) / counted.sum(1)
