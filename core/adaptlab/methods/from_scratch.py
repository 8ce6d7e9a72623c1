"""Control: a new model of the base's shape, trained from scratch."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method, MethodGroup
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("from_scratch")
class FromScratch(Method):
    """Train all weights of a new model of the base's shape.

    Weights are initialised as in pretraining, with other values for every seed. Only the shape of
    the base is used. If this succeeds and a method that adapts the base fails, the cause is the
    method and not the model.
    """

    title: ClassVar[str] = "From scratch"
    group: ClassVar[MethodGroup] = "controls"
    place: ClassVar[int] = 1
    phrase: ClassVar[str | None] = "training from scratch"
    summary: ClassVar[str] = "A new model of the base's shape, trained without its weights."
    formula: ClassVar[str] = "W ← W₀ + ΔW for every W, with W₀ drawn as in pretraining"
    reference: ClassVar[str] = "control for Petrov, Torr, Bibi (ICLR 2024), section 5.2"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    default_learning_rate: ClassVar[float] = 3e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-4, 1e-2)
    default_weight_decay: ClassVar[float] = 0.1
    is_reference: ClassVar[bool] = True
    starts_from_base: ClassVar[bool] = False

    name: Literal["from_scratch"] = "from_scratch"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return dict(shape.tensors)
