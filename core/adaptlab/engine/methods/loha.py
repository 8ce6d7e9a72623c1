"""LoHa, computed as LoRA of the squared rank.

(B₁ A₁) ∘ (B₂ A₂) is the sum over i and j of the products of the columns b₁ᵢ ∘ b₂ⱼ with the rows a₁ᵢ
∘ a₂ⱼ.
"""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.loha import Loha
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("loha")
def attach(method: Loha, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the product of the two updates to every chosen site."""
    assert isinstance(method.rank, int)
    scale = method.alpha / method.rank
    names = (site.name for site in method.chosen_sites(shape))
    return Attachments(outputs={name: _updated(name, tensors, scale) for name in names})


def _updated(name: str, tensors: Mapping[str, Tensor], scale: float) -> OutputHook:
    """Return the hook of A₁ and A₂ [R, r, I], B₁ and B₂ [R, O, r]."""
    a1, b1, a2, b2 = (tensors[f"{name}.{part}"] for part in ("a1", "b1", "a2", "b2"))

    def updated(x: Tensor, y: Tensor) -> Tensor:
        rows = (a1.unsqueeze(2) * a2.unsqueeze(1)).flatten(1, 2)  # R, r², I
        columns = (b1.unsqueeze(3) * b2.unsqueeze(2)).flatten(2)  # R, O, r²
        return y + grouped.linear(scale * grouped.linear(x, rows, None), columns, None)

    return updated
