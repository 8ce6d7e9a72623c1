"""Learned positions between question and answer, in every layer's attention."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.method import METHODS, AttentionClaim, Method
from adaptlab.methods.prefix_tuning import LARGEST_PREFIX, length_problems
from adaptlab.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.values import AUTO, Auto


@METHODS.register("suffix_tuning")
class SuffixTuning(Method):
    """Learn rows that every layer's attention finds after the question and before the answer.

    They pass through the layer's own norm, W_K and W_V, as the rows of a prefix do, and are free
    in every layer. Question positions do not see them; the positions that the answer is read from
    do, the last of the question included, because it produces the first answer token. Content
    keeps its positions. At those positions the identities of prefix-tuning hold.
    """

    title: ClassVar[str] = "Suffix-tuning"
    summary: ClassVar[str] = "Only the answer attends to learned positions, in every layer."
    formula: ClassVar[str] = "tᵢ = αᵢ W_V s + (1 - αᵢ) tᵢ(base) for answer positions i only"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 3 and equation 7"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    size_knob: ClassVar[str | None] = "length"
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-1)

    name: Literal["suffix_tuning"] = "suffix_tuning"
    length: int | Auto = Field(default=AUTO)
    initial_scale: float = Field(default=1.0, gt=0, le=100)

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        start = Initialiser("normal", self.initial_scale)
        sites = shape.layer_sites("attention_input")
        return {site.name: TensorShape((self.length, site.inputs), start) for site in sites}

    def largest_size(self, shape: ModelShape) -> int:
        return LARGEST_PREFIX

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        return length_problems(self.length, self.largest_size(shape))

    def extra_context_tokens(self) -> int:
        assert isinstance(self.length, int)
        return self.length

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return 4 * self.extra_context_tokens() * shape.width * shape.layers
