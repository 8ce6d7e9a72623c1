"""Baseline: the base model without adaptation."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method, MethodGroup
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("frozen")
class Frozen(Method):
    """Train nothing and add nothing."""

    title: ClassVar[str] = "Frozen base"
    group: ClassVar[MethodGroup] = "controls"
    place: ClassVar[int] = 0
    phrase: ClassVar[str | None] = "the frozen base"
    summary: ClassVar[str] = "The base model without any adaptation, as the baseline."
    formula: ClassVar[str] = "ΔW = 0"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), tables 1 to 3, first rows"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    default_learning_rate: ClassVar[float] = 1e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-3)
    is_reference: ClassVar[bool] = True
    carries: ClassVar[bool] = True

    name: Literal["frozen"] = "frozen"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return {}

    def trained(self, shape: ModelShape) -> dict[str, TensorShape]:
        return {}
