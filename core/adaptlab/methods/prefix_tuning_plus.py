"""Prefix-Tuning+: learned keys and values outside of the softmax."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import METHODS, AttentionClaim, LearningRates, Method, MethodGroup
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.values import AUTO, Auto


@METHODS.register("prefix_tuning_plus")
class PrefixTuningPlus(Method):
    """Add Σⱼ (φ(q)·pⱼ) uⱼ of learned rows pⱼ, uⱼ to what each head gathers.

    The weights φ(q)·pⱼ are no shares of attention: they can be negative, take nothing from the
    content and need not add up to 1. φ(q) = elu(q / D^¼) + 1 for heads of size D. So the sum is
    φ(q)M with M of rank `rows`, which the paper learns as a whole. uⱼ starts at 0.

    The attention pattern of its own layer does not change at all, not even by a common factor: the
    addition is a function of each position's query, like that of an adapter. Where a position
    reads can only change in later layers.
    """

    title: ClassVar[str] = "Prefix-Tuning+"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 5
    summary: ClassVar[str] = "Each head adds learned vectors, weighted by its query alone."
    formula: ClassVar[str] = "t ← t + φ(q) Pᵀ U"
    reference: ClassVar[str] = "Wang et al. (ICLR 2026); the low rank is adaptlab's"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    restriction: ClassVar[str] = (
        "in every layer it can only add a map of the position's own query to what attention gathers"
    )
    size_knob: ClassVar[str | None] = "rows"
    default_learning_rate: ClassVar[float] = 2e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-3, (1e-4, 0.3))
    nearest_in_peft: ClassVar[str] = "prefix_tuning with `side: key_value`"

    name: Literal["prefix_tuning_plus"] = "prefix_tuning_plus"
    rows: int | Auto = Field(default=AUTO)
    """learned rows of each head; auto: from the budget"""

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.rows, int)
        tensors: dict[str, TensorShape] = {}
        for site in shape.layer_sites("attention_queries"):
            rows = (shape.heads, self.rows, site.inputs // shape.heads)
            tensors[f"{site.name}.keys"] = TensorShape(rows, Initialiser("kaiming_uniform"))
            tensors[f"{site.name}.values"] = TensorShape(rows, Initialiser("zeros"))
        return tensors

    def largest_size(self, shape: ModelShape) -> int:
        sites = shape.layer_sites("attention_queries")
        return min((site.inputs // shape.heads for site in sites), default=1)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        limit, sites = self.largest_size(shape), shape.layer_sites("attention_queries")
        if not isinstance(self.rows, int) or not sites or 1 <= self.rows <= limit:
            return ()
        detail = f"The number of rows {self.rows} is outside 1 to {limit}, the size of a head."
        nearest = (min(max(self.rows, 1), limit),)
        return (Problem("/method/rows", "size_out_of_range", detail, nearest=nearest),)

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return sum(2 * tensor.size for tensor in self.tensors(shape).values())
