"""LayerNorm tuning: trained scales and shifts replace the base's."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.layernorm_tuning import LayerNormTuning
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("layernorm_tuning")
def attach(
    method: LayerNormTuning, shape: ModelShape, tensors: Mapping[str, Tensor]
) -> Attachments:
    """Replace every scale and shift by its trained copy."""
    return Attachments(weights=tensors)
