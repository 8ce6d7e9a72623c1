"""Full fine-tuning: training of every weight."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, LearningRates, Method
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("full_finetuning")
class FullFinetuning(Method):
    """Train a copy of all base weights."""

    title: ClassVar[str] = "Full fine-tuning"
    place: ClassVar[int] = 1
    summary: ClassVar[str] = "Every weight of the base model is trained; nothing is added."
    formula: ClassVar[str] = "W ← W + ΔW for every W"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.1"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    default_learning_rate: ClassVar[float] = 2e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-5, 1e-2)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-5, (3e-6, 1e-3))
    default_weight_decay: ClassVar[float] = 0.1
    is_reference: ClassVar[bool] = True

    name: Literal["full_finetuning"] = "full_finetuning"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return shape.copies("weight", "bias", "norm_scale", "norm_shift")
