"""Anchor re-weighting: learned factors on attention to label words."""

from typing import ClassVar, Literal

from adaptlab.errors import Problem
from adaptlab.plugins.demonstrations import Demonstrations
from adaptlab.plugins.method import BITS_PER_SCALAR, METHODS, AttentionClaim
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape


@METHODS.register("anchor_reweighting")
class AnchorReweighting(Demonstrations):
    """Scale the attention from the answer to the labels of demonstrations.

    Demonstrations come before questions as with `in_context`, in training too. In every layer and
    head, what the positions that predict an answer attend to the label of demonstration i is
    multiplied by exp(βᵢ), after the softmax and without normalising again. The β start at 0, so
    training begins with in-context learning. A label of several tokens has one β for all of them.

    Nothing else changes, and items of other tasks are answered as by the base alone.
    """

    title: ClassVar[str] = "Anchor re-weighting"
    place: ClassVar[int] = 8
    summary: ClassVar[str] = "Attention to the labels of demonstrations is scaled."
    formula: ClassVar[str] = "A(q, pᵢ) ← exp(βᵢ) A(q, pᵢ), in every layer and head"
    reference: ClassVar[str] = "Wang et al. (EMNLP 2023)"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    trains: ClassVar[bool] = True
    carries: ClassVar[bool] = False
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1.0)
    restriction: ClassVar[str] = (
        "it only scales the attention from answers to the labels of a few demonstrations, which "
        "the base must already use"
    )

    name: Literal["anchor_reweighting"] = "anchor_reweighting"

    def scales_at(self, site: Site) -> str:
        """Return the name of a layer's scales."""
        return f"{site.name}.label_scales"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return a scale per head and demonstration in every layer."""
        assert isinstance(self.demonstrations, int)
        start = Initialiser("zeros")
        return {
            self.scales_at(site): TensorShape((shape.heads, self.demonstrations), start)
            for site in shape.layer_sites("attention_mix")
        }

    def stored_bits(self, shape: ModelShape) -> int:
        """Return the bits of the scales and of the demonstrations."""
        return BITS_PER_SCALAR * self.trained_scalars(shape) + super().stored_bits(shape)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problem of demonstrations that differ by question."""
        if not self.is_chosen_by_item():
            return ()
        detail = (
            "A scale belongs to one demonstration, so all questions have the same ones. Use "
            "balanced or random."
        )
        allowed = ("balanced", "random")
        return (Problem("/method/choice", "demonstrations_differ", detail, allowed=allowed),)
