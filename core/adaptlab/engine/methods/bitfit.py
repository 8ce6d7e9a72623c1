"""BitFit: trained biases take the place of the base's."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.bitfit import BitFit
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("bitfit")
def attach(method: BitFit, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Replace every bias by its trained copy."""
    return Attachments(weights=tensors)
