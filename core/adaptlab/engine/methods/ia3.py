"""IA3: learned scales at keys, values and the MLP's second matrix."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments, InputHook, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.ia3 import IA3
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("ia3")
def attach(method: IA3, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Scale the outputs of k and v, and the input of the MLP's second matrix."""
    outputs: dict[str, OutputHook] = {}
    inputs: dict[str, InputHook] = {}
    for name, scale in tensors.items():
        site = name.removesuffix(".scale")
        wide = scale[:, None, None]  # R, 1, 1, features
        if site.endswith(".mlp.down"):
            inputs[site] = lambda x, wide=wide: x * wide
        else:
            outputs[site] = lambda x, y, wide=wide: y * (wide if y.dim() == 4 else wide[:, 0])
    return Attachments(outputs=outputs, inputs=inputs)
