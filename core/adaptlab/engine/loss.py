"""What training makes small."""

from torch import Tensor
from torch.nn import functional

from adaptlab.engine.digits import Items, target_rows
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.grouped import lifted
from adaptlab.engine.model import Model


def mean_losses(model: Model, items: Items, replicates: int, at: TrainingStep | None) -> Tensor:
    """The mean cross-entropy over answer tokens for every replicate of the model, [R]."""
    plan = model.plan
    logits = model.for_training().logits(items.tokens, target_rows(plan.task), training=at)
    logits, targets = (lifted(part, replicates) for part in (logits.to(plan.dtype), items.targets))
    found = functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
    return found.view(replicates, -1).mean(1)
