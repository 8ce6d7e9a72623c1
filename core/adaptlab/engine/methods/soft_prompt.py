"""Soft prompt: virtual tokens before the embedded input."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("soft_prompt")
def attach(method: SoftPrompt, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the virtual tokens before the input."""
    return Attachments(prompt=tensors["embed.prompt"])
