"""LoRA: (alpha / rank) · B A x beside each chosen matrix product."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.lora import Lora
from adaptlab.shapes import ModelShape


@ENGINE_METHODS.register("lora")
def attach(method: Lora, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the low-rank update to the output of every chosen site."""
    assert isinstance(method.rank, int)
    scale = method.alpha / method.rank
    return Attachments(
        outputs={
            site.name: _update(tensors[f"{site.name}.a"], tensors[f"{site.name}.b"], scale)
            for site in method.chosen_sites(shape)
        }
    )


def _update(a: Tensor, b: Tensor, scale: float) -> OutputHook:
    def updated(x: Tensor, y: Tensor) -> Tensor:
        return y + scale * grouped.linear(grouped.linear(x, a, None), b, None)

    return updated
