"""Prefix-tuning: learned rows, or learned keys and values, in every layer's attention."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.shapes import ModelShape


@ENGINE_METHODS.register("prefix_tuning")
def attach(method: PrefixTuning, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the prefix before the content of every layer's attention."""
    if method.side == "input":
        return Attachments(attention_inputs=tensors)
    sites = shape.layer_sites("attention_keys_values")
    return Attachments(
        keys_values={
            site.name: (tensors[f"{site.name}.keys"], tensors[f"{site.name}.values"])
            for site in sites
        }
    )
