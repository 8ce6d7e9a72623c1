"""BitFit: training of bias vectors only."""

from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("bitfit")
class BitFit(Method):
    """Train a copy of every bias vector, including those of norms."""

    title: ClassVar[str] = "BitFit"
    place: ClassVar[int] = 5
    summary: ClassVar[str] = "Only the bias vectors that the base model has are trained."
    formula: ClassVar[str] = "b ← b + Δb for every b"
    reference: ClassVar[str] = "Ben Zaken, Goldberg, Ravfogel (ACL 2022)"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    default_learning_rate: ClassVar[float] = 5e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (3e-4, 3e-2)
    nearest_in_peft: ClassVar[str] = "ia3"

    name: Literal["bitfit"] = "bitfit"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return shape.copies("bias", "norm_shift")

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        if self.tensors(shape):
            return ()
        return (
            Problem(
                pointer="/method/name",
                code="no_biases",
                detail=(
                    f"This {shape.family} has no biases for bitfit to train. Use "
                    "layernorm_tuning, which trains the scales of its norms."
                ),
                nearest=("layernorm_tuning",),
            ),
        )
