"""Full fine-tuning: the trained tensors take the place of the base's."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.full_finetuning import FullFinetuning
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("full_finetuning")
def attach(method: FullFinetuning, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Replace every base tensor by its trained copy."""
    return Attachments(weights=tensors)
