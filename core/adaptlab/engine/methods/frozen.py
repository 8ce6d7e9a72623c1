"""Frozen: nothing is attached."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.frozen import Frozen
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("frozen")
def attach(method: Frozen, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Attach nothing."""
    return NOTHING_ATTACHED
