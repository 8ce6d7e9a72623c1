"""A learned shift of what attention gathers, of a learned strength at every position."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape


@METHODS.register("attention_bias")
class AttentionBias(Method):
    """Replace what each head gathers, t, by α μ + (1 - α) t, with α and μ learned directly.

    μ is free for every head, and α = sigmoid(a) for every head and position. A prefix of one
    position gives the same formula with α its attention and μ = W_V s. Neither contains the other:
    α cannot depend on the content here, as a prefix's does, and a longer prefix mixes several
    vectors; but μ need not be in the image of W_V. So its failure says nothing about a prefix.
    """

    title: ClassVar[str] = "Attention bias"
    summary: ClassVar[str] = "Every head's output is pulled towards a learned vector."
    formula: ClassVar[str] = "tᵢ ← αᵢ μ + (1 - αᵢ) tᵢ"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), equation 7, in part"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    default_learning_rate: ClassVar[float] = 2e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1.0)
    restriction: ClassVar[str] = (
        "it adds one vector per head, of a strength that cannot depend on the content"
    )

    name: Literal["attention_bias"] = "attention_bias"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        tensors: dict[str, TensorShape] = {}
        for site in shape.layer_sites("attention_mix"):
            tensors[f"{site.name}.shift"] = TensorShape((site.inputs,), Initialiser("normal", 0.02))
            # sigmoid(0) would throw half of the content away before training has begun
            strength = Initialiser("constant", -3.0)
            tensors[f"{site.name}.strength"] = TensorShape((shape.heads, shape.context), strength)
        return tensors

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return 3 * shape.width * shape.layers
