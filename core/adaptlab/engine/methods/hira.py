"""HiRA: the product with W ∘ (B A), added to that with W."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, ProductHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.hira import Hira
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("hira")
def attach(method: Hira, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the product with the changed shares at every chosen site."""
    names = (site.name for site in method.chosen_sites(shape))
    return Attachments(products={n: _shared(tensors[f"{n}.a"], tensors[f"{n}.b"]) for n in names})


def _shared(a: Tensor, b: Tensor) -> ProductHook:
    """Return the hook of A [R, r, I] and B [R, O, r]."""

    def changed(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        change = grouped.lifted(weight, len(a)) * (b @ a)  # R, O, I
        return y + grouped.linear(x, change, None)

    return changed
