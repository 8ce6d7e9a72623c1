"""Training of norms only."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("layernorm_tuning")
class LayerNormTuning(Method):
    """Train a copy of the scale and shift of every norm."""

    title: ClassVar[str] = "LayerNorm tuning"
    place: ClassVar[int] = 6
    summary: ClassVar[str] = "Only the scales and shifts of the norms are trained."
    formula: ClassVar[str] = "γ ← γ + Δγ, β ← β + Δβ"
    reference: ClassVar[str] = "Zhao et al. (ICLR 2024)"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    default_learning_rate: ClassVar[float] = 5e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (3e-4, 3e-2)

    name: Literal["layernorm_tuning"] = "layernorm_tuning"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return shape.copies("norm_scale", "norm_shift")
