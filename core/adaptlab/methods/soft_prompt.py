"""Soft prompt: learned virtual tokens before the input."""

from typing import ClassVar, Literal

from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.plugins.learned_positions import VirtualTokens
from adaptlab.plugins.method import METHODS, Method, MethodGroup
from adaptlab.plugins.shapes import ModelShape, TensorShape


@METHODS.register("soft_prompt")
class SoftPrompt(VirtualTokens):
    """Learn the embeddings of `length` virtual tokens before the content.

    They pass through all layers like tokens. Positions of the content do not change. With
    `initialisation: vocabulary` they start as embeddings of tokens.
    """

    title: ClassVar[str] = "Soft prompt"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 1
    summary: ClassVar[str] = "Virtual tokens with learned embeddings precede the input."
    formula: ClassVar[str] = "x = [s₁ … s_n ; E(x₁) … ]"
    reference: ClassVar[str] = "Lester, Al-Rfou, Constant (EMNLP 2021)"

    name: Literal["soft_prompt"] = "soft_prompt"

    def equivalent_on(self, shape: ModelShape) -> Method:
        """Return a prefix if one layer reads the rows."""
        if not self.is_read_by_one_layer(shape):
            return self
        return PrefixTuning(
            length=self.length,
            initial_scale=self.initial_scale,
            initialisation=self.initialisation,
        )

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return {"embed.prompt": self.virtual_tokens(shape)}
