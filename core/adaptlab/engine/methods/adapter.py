"""Bottleneck adapters: a small network added to the output of a sublayer."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.adapter import Adapter
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("adapter")
def attach(method: Adapter, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the bottleneck network to the output of every chosen sublayer."""
    return Attachments(
        outputs={
            site.name: _bottleneck(method, f"{site.name}.adapter", tensors)
            for site in method.chosen_sites(shape)
        }
    )


def _bottleneck(method: Adapter, name: str, tensors: Mapping[str, Tensor]) -> OutputHook:
    def adapted(x: Tensor, y: Tensor) -> Tensor:
        source = y if method.placement == "serial" else x
        hidden = grouped.linear(
            source, tensors[f"{name}.down.weight"], tensors[f"{name}.down.bias"]
        )
        hidden = functional.gelu(hidden, approximate="tanh")
        up = grouped.linear(hidden, tensors[f"{name}.up.weight"], tensors[f"{name}.up.bias"])
        return y + up

    return adapted
