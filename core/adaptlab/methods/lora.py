"""LoRA: low-rank updates of selected weight matrices."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import METHODS, AttentionClaim, LearningRates, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape
from adaptlab.values import AUTO, Auto


@METHODS.register("lora")
class Lora(Method):
    """Add (alpha / rank) · B A x to the output of every selected linear site.

    A is initialised from U(-1/√inputs, 1/√inputs) and B with zeros. `sites` are dotted parts of
    names, such as `q`, `attn.v`, `mlp` or `blocks.0.mlp.up`. With `scaling: rank_stabilised` the
    factor s is alpha / √rank (Kalajdzievski 2023). With `dora` the norm m of every row of W + s B A
    is learned separately: y = m / ‖W + s B A‖ · (W + s B A) x (Liu et al., ICML 2024).
    """

    title: ClassVar[str] = "LoRA"
    summary: ClassVar[str] = "A low-rank matrix is added to each selected weight matrix."
    formula: ClassVar[str] = "y = W x + (alpha / rank) · B A x"
    reference: ClassVar[str] = "Hu et al. (ICLR 2022)"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    size_knob: ClassVar[str | None] = "rank"
    default_learning_rate: ClassVar[float] = 2e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-3, (3e-4, 1e-1))

    name: Literal["lora"] = "lora"
    rank: int | Auto = Field(default=AUTO)
    alpha: float = Field(default=1.0, gt=0, le=1e4)
    sites: tuple[str, ...] = Field(default=("q", "v"), min_length=1, max_length=64)
    scaling: Literal["standard", "rank_stabilised"] = "standard"
    dora: bool = False

    def scale(self) -> float:
        """Return the factor s of the update."""
        assert isinstance(self.rank, int)
        return self.alpha / (self.rank if self.scaling == "standard" else self.rank**0.5)

    def chosen_sites(self, shape: ModelShape) -> tuple[Site, ...]:
        """Return the linear sites that match a pattern, in forward order."""
        chosen = {site.name for pattern in self.sites for site in shape.matching_sites(pattern)}
        return tuple(site for site in shape.linear_sites if site.name in chosen)

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.rank, int)
        tensors: dict[str, TensorShape] = {}
        for site in self.chosen_sites(shape):
            uniform = Initialiser("kaiming_uniform", 1.0)
            tensors[f"{site.name}.a"] = TensorShape((self.rank, site.inputs), uniform)
            tensors[f"{site.name}.b"] = TensorShape((site.outputs, self.rank), Initialiser("zeros"))
            if self.dora:
                weight = f"{site.name}.weight"
                norms = Initialiser("base_row_norms", source=shape.tied.get(weight, weight))
                magnitude = TensorShape((site.outputs,), norms, decays=False)
                tensors[f"{site.name}.magnitude"] = magnitude
        return tensors

    def largest_size(self, shape: ModelShape) -> int:
        return min((min(s.inputs, s.outputs) for s in self.chosen_sites(shape)), default=1)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        names = tuple(site.name for site in shape.linear_sites)
        unmatched = tuple(
            Problem(
                pointer=f"/method/sites/{index}",
                code="unknown_site",
                detail=f"No linear site of this {shape.family} matches {pattern!r}.",
                allowed=names,
            )
            for index, pattern in enumerate(self.sites)
            if not shape.matching_sites(pattern)
        )
        limit = self.largest_size(shape)
        if unmatched or not isinstance(self.rank, int) or 1 <= self.rank <= limit:
            return unmatched
        return (
            Problem(
                pointer="/method/rank",
                code="rank_out_of_range",
                detail=f"The rank {self.rank} is outside 1 to {limit} at the chosen sites.",
                nearest=(min(max(self.rank, 1), limit),),
            ),
        )

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return sum(2 * tensor.size for tensor in self.tensors(shape).values())
