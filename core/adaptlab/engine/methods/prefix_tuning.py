"""Prefix-tuning: learned rows, or keys and values, in every attention."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_FOLDS, ENGINE_METHODS
from adaptlab.methods.prefix_tuning import MLP, PrefixTuning
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("prefix_tuning")
def attach(method: PrefixTuning, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Put the prefix before the content of every layer's attention."""
    tensors = fold(method, shape, tensors)
    if method.side == "input":
        return Attachments(attention_inputs=tensors)
    sites = shape.layer_sites("attention_keys_values")
    return Attachments(
        keys_values={
            site.name: (tensors[f"{site.name}.keys"], tensors[f"{site.name}.values"])
            for site in sites
        }
    )


@ENGINE_FOLDS.register("prefix_tuning")
def fold(
    method: PrefixTuning, shape: ModelShape, tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the prefix, from the reparameterisation if there is one."""
    if method.reparameterisation is None:
        return dict(tensors)
    rows, down, below, up, above = (
        tensors[f"{MLP}.{name}"]
        for name in ("embedding", "down.weight", "down.bias", "up.weight", "up.bias")
    )
    prefix = grouped.linear(grouped.linear(rows, down, below).tanh(), up, above)  # R, P, all widths
    shapes = method.prefix(shape)
    parts = prefix.split([tensor.shape[1] for tensor in shapes.values()], -1)
    return {name: part.contiguous() for name, part in zip(shapes, parts, strict=True)}
