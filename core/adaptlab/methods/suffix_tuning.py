"""Learned positions between question and answer, in every layer or at the input alone."""

from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.learned_positions import VirtualTokens
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape

VIRTUAL_TOKENS = "embed.suffix"


@METHODS.register("suffix_tuning")
class SuffixTuning(VirtualTokens):
    """Learn rows that attention finds after the question and before the answer.

    With `scope: per_layer` they pass through the layer's own norm, W_K and W_V, as the rows of a
    prefix do, and are free in every layer; at the positions that see them the identities of
    prefix-tuning hold. With `scope: input_only` they are virtual tokens, as those of a soft prompt
    are: learned once, and passed through all layers, in which they see the question. Those alone
    can start as embeddings of tokens, with `initialisation: vocabulary`.

    Question positions do not see them; the positions that the answer is read from do, the last of
    the question included, because it produces the first answer token. Content keeps its positions.
    """

    title: ClassVar[str] = "Suffix-tuning"
    summary: ClassVar[str] = "Only the answer attends to learned positions, which follow the input."
    formula: ClassVar[str] = "tᵢ = αᵢ W_V s + (1 - αᵢ) tᵢ(base) for answer positions i only"
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 3 and equation 7"

    name: Literal["suffix_tuning"] = "suffix_tuning"
    scope: Literal["per_layer", "input_only"] = "per_layer"

    def equivalent_on(self, shape: ModelShape) -> Method:
        """The rows of the layer, where one layer alone reads them and both start at random."""
        if not self.is_read_by_one_layer(shape) or self.initialisation == "vocabulary":
            return self
        return self.model_copy(update={"scope": "per_layer"})

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        if self.scope == "input_only":
            return {VIRTUAL_TOKENS: self.virtual_tokens(shape)}
        start = Initialiser("normal", self.initial_scale)
        sites = shape.layer_sites("attention_input")
        return {site.name: TensorShape((self.length, site.inputs), start) for site in sites}

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Also rows of layers that are to start as tokens, whose embeddings are at the input."""
        faults = super().problems(shape)
        if self.scope == "input_only" or self.initialisation == "normal":
            return faults
        misplaced = Problem(
            pointer="/method/initialisation",
            code="no_virtual_tokens",
            detail=(
                "Only virtual tokens can start as embeddings of tokens, and with `scope: "
                "per_layer` there are none; use `scope: input_only` or `initialisation: normal`."
            ),
            allowed=("normal",),
        )
        return (*faults, misplaced)
