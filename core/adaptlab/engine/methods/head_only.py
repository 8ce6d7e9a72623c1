"""Head only: a trained head takes the place of the base's."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.head_only import HeadOnly
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("head_only")
def attach(method: HeadOnly, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Replace the head by its trained copy."""
    return Attachments(weights=tensors)
