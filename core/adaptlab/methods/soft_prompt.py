"""Learned virtual tokens in front of the input."""

from typing import ClassVar, Literal

from adaptlab.learned_positions import LearnedPositions
from adaptlab.method import METHODS, Method
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.shapes import Initialiser, ModelShape, TensorShape


@METHODS.register("soft_prompt")
class SoftPrompt(LearnedPositions):
    """Learn the embeddings of `length` virtual tokens before the content.

    They run through all layers like tokens; content keeps its positions.
    """

    title: ClassVar[str] = "Soft prompt"
    summary: ClassVar[str] = "Virtual tokens with learned embeddings stand before the input."
    formula: ClassVar[str] = "x = [s₁ … s_n ; E(x₁) … ]"
    reference: ClassVar[str] = "Lester, Al-Rfou, Constant (EMNLP 2021)"

    name: Literal["soft_prompt"] = "soft_prompt"

    def equivalent_on(self, shape: ModelShape) -> Method:
        """The rows of a prefix, where one layer alone reads them."""
        if not self.is_read_by_one_layer(shape):
            return self
        return PrefixTuning(length=self.length, initial_scale=self.initial_scale)

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        rows = (self.length, shape.width)
        return {"embed.prompt": TensorShape(rows, Initialiser("normal", self.initial_scale))}
