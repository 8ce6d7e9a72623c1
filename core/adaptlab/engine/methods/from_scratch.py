"""From scratch: newly trained tensors replace all of the base's."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.from_scratch import FromScratch
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("from_scratch")
def attach(method: FromScratch, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Replace every base tensor by a trained one."""
    return Attachments(weights=tensors)
