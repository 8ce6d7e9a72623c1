"""Learned positions between question and answer, in every layer's attention."""

from typing import ClassVar, Literal

from adaptlab.learned_positions import LearnedPositions
from adaptlab.method import METHODS
from adaptlab.shapes import Initialiser, ModelShape, TensorShape


@METHODS.register("suffix_tuning")
class SuffixTuning(LearnedPositions):
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

    name: Literal["suffix_tuning"] = "suffix_tuning"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        start = Initialiser("normal", self.initial_scale)
        sites = shape.layer_sites("attention_input")
        return {site.name: TensorShape((self.length, site.inputs), start) for site in sites}
