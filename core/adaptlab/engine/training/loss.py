"""The loss that training minimises."""

from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.models.dropout import TrainingStep
from adaptlab.engine.models.model import Model
from adaptlab.engine.tensors import Float


def mean_losses(
    model: Model, items: Items, replicates: int, at: TrainingStep | None
) -> Float[Tensor, "{replicates}"]:
    """Return each replicate's mean cross-entropy over counted tokens."""
    plan = model.plan
    logits = model.for_training().answers(items, at).to(plan.dtype)
    losses = items.token_losses(lifted(logits, replicates)).flatten(1)
    if items.counted is None:
        return losses.mean(1)
    return losses.sum(1) / lifted(items.counted, replicates).flatten(1).sum(1)
