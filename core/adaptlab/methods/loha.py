"""LoHa: a Hadamard product of two low-rank matrices."""

from math import isqrt
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto


@METHODS.register("loha")
class Loha(SizedAtSites):
    """Add (alpha / rank) · (B₁ A₁) ∘ (B₂ A₂), which has up to rank² ranks.

    A₂ is initialised with zeros, the others as in PEFT, by He et al. (2015). `sites` are as in
    LoRA.
    """

    title: ClassVar[str] = "LoHa"
    summary: ClassVar[str] = "The elementwise product of two low-rank matrices is added."
    formula: ClassVar[str] = "y = W x + (alpha / rank) · ((B₁ A₁) ∘ (B₂ A₂)) x"
    reference: ClassVar[str] = "Hyeon-Woo et al. (ICLR 2022)"
    size_knob: ClassVar[str | None] = "rank"
    default_learning_rate: ClassVar[float] = 0.1
    learning_rate_range: ClassVar[tuple[float, float]] = (5e-3, 3.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(2.5e-2, (1.5e-3, 0.5))

    name: Literal["loha"] = "loha"
    rank: int | Auto = Field(default=AUTO)
    """inner dimension of both matrices; auto: from the budget"""
    alpha: float = Field(default=1.0, gt=0, le=1e4)
    """scales the update; divided by the rank"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        assert isinstance(self.rank, int)
        uniform, zeros = Initialiser("kaiming_uniform", 1.0), Initialiser("zeros")
        rows, columns = (self.rank, site.inputs), (site.outputs, self.rank)
        return {
            "a1": TensorShape(rows, uniform),
            "b1": TensorShape(columns, uniform),
            "a2": TensorShape(rows, zeros),
            "b2": TensorShape(columns, uniform),
        }

    def largest_at(self, site: Site) -> int:
        return max(1, isqrt(min(site.inputs, site.outputs)))

    def flops_at(self, site: Site) -> int:
        assert isinstance(self.rank, int)
        return 2 * self.rank**2 * (site.inputs + site.outputs)
