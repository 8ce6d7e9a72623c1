"""Learned virtual tokens in front of the input."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.method import METHODS, AttentionClaim, Method
from adaptlab.methods.prefix_tuning import LARGEST_PREFIX, length_problems
from adaptlab.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.values import AUTO, Auto


@METHODS.register("soft_prompt")
class SoftPrompt(Method):
    """Learn the embeddings of `length` virtual tokens before the content.

    They run through all layers like tokens; content keeps its positions.
    """

    title: ClassVar[str] = "Soft prompt"
    summary: ClassVar[str] = "Virtual tokens with learned embeddings stand before the input."
    formula: ClassVar[str] = "x = [s₁ … s_n ; E(x₁) … ]"
    reference: ClassVar[str] = "Lester, Al-Rfou, Constant (EMNLP 2021)"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    size_knob: ClassVar[str | None] = "length"
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-1)

    name: Literal["soft_prompt"] = "soft_prompt"
    length: int | Auto = Field(default=AUTO)
    initial_scale: float = Field(default=1.0, gt=0, le=100)

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        rows = (self.length, shape.width)
        return {"embed.prompt": TensorShape(rows, Initialiser("normal", self.initial_scale))}

    def largest_size(self, shape: ModelShape) -> int:
        return LARGEST_PREFIX

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        return length_problems(self.length, self.largest_size(shape))

    def extra_context_tokens(self) -> int:
        assert isinstance(self.length, int)
        return self.length

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return 4 * self.extra_context_tokens() * shape.width * shape.layers
