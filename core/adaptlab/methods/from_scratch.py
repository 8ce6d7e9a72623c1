"""The base model's shape trained from nothing: whether the task needs a base at all."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("from_scratch")
class FromScratch(Method):
    """Train all weights of a model of the base's shape from a fresh initialisation.

    Weights start as in pretraining: by the family's own initialisers, for every seed its own
    values. Of the base only the shape is used. A failure of the methods that adapt the base, where
    this succeeds, is theirs and not the model's.
    """

    title: ClassVar[str] = "From scratch"
    summary: ClassVar[str] = "A fresh model of the base's shape; nothing of the base's is used."
    formula: ClassVar[str] = "W ← W₀ + ΔW for every W, with W₀ drawn as before pretraining"
    reference: ClassVar[str] = "a control beside Petrov, Torr, Bibi (ICLR 2024), section 5.2"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    default_learning_rate: ClassVar[float] = 3e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-4, 1e-2)
    default_weight_decay: ClassVar[float] = 0.1
    is_reference: ClassVar[bool] = True
    starts_from_base: ClassVar[bool] = False

    name: Literal["from_scratch"] = "from_scratch"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return dict(shape.tensors)
