"""A learned vector and a learned strength in every attention head."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method, MethodGroup
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape


@METHODS.register("attention_bias")
class AttentionBias(Method):
    """Replace the output t of each head by α μ + (1 - α) t.

    α and μ are learned directly.

    Every head has its own μ, and every head and position its own α = sigmoid(a). A prefix of one
    position has the same formula, with its attention as α and with μ = W_V s. Neither method
    includes the other. Here α cannot depend on the content, and a longer prefix mixes several
    vectors; but μ can be outside the image of W_V. So a failure is no evidence about prefixes.
    """

    title: ClassVar[str] = "Attention bias"
    group: ClassVar[MethodGroup] = "controls"
    place: ClassVar[int] = 3
    summary: ClassVar[str] = "The output of every head is mixed with a learned vector."
    formula: ClassVar[str] = "tᵢ ← αᵢ μ + (1 - αᵢ) tᵢ"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), equation 7, in part"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    default_learning_rate: ClassVar[float] = 2e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 10.0)
    restriction: ClassVar[str] = (
        "it adds one vector per head, of a strength that cannot depend on the content"
    )
    nearest_in_peft: ClassVar[str] = "lora with `sites: [q, k]`"

    name: Literal["attention_bias"] = "attention_bias"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        tensors: dict[str, TensorShape] = {}
        for site in shape.layer_sites("attention_mix"):
            tensors[f"{site.name}.shift"] = TensorShape((site.inputs,), Initialiser("normal", 0.02))
            # sigmoid(0) would replace half of every head's output before the first step.
            strength = Initialiser("constant", -3.0)
            tensors[f"{site.name}.strength"] = TensorShape((shape.heads, shape.context), strength)
        return tensors

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return 3 * shape.width * shape.layers
