"""Suffix-tuning: learned positions between question and answer."""

from typing import ClassVar, Literal

from adaptlab.plugins.learned_positions import VirtualTokens
from adaptlab.plugins.method import METHODS, Method, MethodGroup
from adaptlab.plugins.shapes import ModelShape, TensorShape

VIRTUAL_TOKENS = "embed.suffix"


@METHODS.register("suffix_tuning")
class SuffixTuning(VirtualTokens):
    """Learn positions after the question and before the answer.

    With `scope: per_layer` every layer has its own rows, which pass through its norm, W_K and W_V
    like those of a prefix. At the positions that attend to them, the identities of prefix-tuning
    hold. With `scope: input_only` they are virtual tokens, as in a soft prompt: learned once, they
    pass through all layers and attend to the question.

    Positions of the question do not attend to them. Positions that predict the answer do, including
    the last of the question, which predicts the first token. The content keeps its positions.
    """

    title: ClassVar[str] = "Suffix-tuning"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 3
    summary: ClassVar[str] = "Only the answer attends to learned positions, which follow the input."
    formula: ClassVar[str] = "tᵢ = αᵢ W_V s + (1 - αᵢ) tᵢ(base) for answer positions i only"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 3 and equation 7"
    nearest_in_peft: ClassVar[str] = "prefix_tuning with `side: key_value`"

    name: Literal["suffix_tuning"] = "suffix_tuning"
    scope: Literal["per_layer", "input_only"] = "per_layer"
    """layers with learned positions: every layer, or the input only"""

    def follows_question(self) -> bool:
        return True

    def equivalent_on(self, shape: ModelShape) -> Method:
        """Return the `per_layer` form if it is equivalent on this model."""
        if not self.is_read_by_one_layer(shape):
            return self
        return self.model_copy(update={"scope": "per_layer"})

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        if self.scope == "input_only":
            return {VIRTUAL_TOKENS: self.virtual_tokens(shape)}
        return {
            site.name: TensorShape((self.length, site.inputs), self.layer_start(shape, site.name))
            for site in shape.layer_sites("attention_input")
        }
