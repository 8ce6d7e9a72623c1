"""Cross-entropy of few classes, which torch computes slowly on a CPU."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from adaptlab.engine.kernels.compiled import kernels_for
from adaptlab.engine.tensors import Float, Int

MOST_CLASSES = 512
"""As in `kernels.c`: those of one row fit in its memory."""


def cross_entropy(logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return the cross-entropy of every target.

    Raises:
        IndexError: a target is not among the classes.
    """
    usual = logits.shape[1] <= MOST_CLASSES and len(targets) and targets.dtype == torch.int64
    if not usual or kernels_for(logits) is None:
        return functional.cross_entropy(logits, targets, reduction="none")
    losses: Tensor = _Losses.apply(logits, targets)  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return losses


class _Losses(torch.autograd.Function):
    """Cross-entropy by compiled kernels, one pass forward and one backward."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:  # torch has no type for it
        logits, targets, kernels = logits.contiguous(), targets.contiguous(), kernels_for(logits)
        assert kernels is not None
        least, most = targets.aminmax()
        if least < 0 or most >= logits.shape[1]:
            raise IndexError(f"Targets must be from 0 to {logits.shape[1] - 1}.")
        losses, sums = kernels.losses(logits, targets)
        ctx.save_for_backward(logits, targets, sums)
        ctx.kernels = kernels
        return losses

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, None]:
        logits, targets, sums = ctx.saved_tensors
        incoming = grad_outputs[0].contiguous()
        gradient: Tensor = ctx.kernels.losses_backward(logits, targets, sums, incoming)
        return gradient, None
