"""Pinned fine-tuning: trained copies of all that first attention ignores."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.pinned_finetuning import PinnedFinetuning
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("pinned_finetuning")
def attach(
    method: PinnedFinetuning, shape: ModelShape, tensors: Mapping[str, Tensor]
) -> Attachments:
    """Replace every free base tensor by its trained copy."""
    return Attachments(weights=tensors)
