"""VeRA: learned scales of frozen random matrices."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto

HIGHEST_RANK = 4096
"""Each rank takes time at every site and hardly adds parameters."""


@METHODS.register("vera")
class Vera(SizedAtSites):
    """Scale a frozen random update: d scales its ranks, b its outputs.

    All chosen sites share A [rank, inputs] and B [outputs, rank], drawn once from
    `projection_seed` and cut to each site's size; they are neither trained nor counted. b starts at
    zero, d at `scale`. `sites` are as in LoRA.
    """

    title: ClassVar[str] = "VeRA"
    summary: ClassVar[str] = "Only scales of frozen random low-rank matrices are learned."
    formula: ClassVar[str] = "y = W x + b ⊙ B (d ⊙ A x)"
    reference: ClassVar[str] = "Kopiczko et al. (ICLR 2024)"
    size_knob: ClassVar[str | None] = "rank"
    default_learning_rate: ClassVar[float] = 0.1
    learning_rate_range: ClassVar[tuple[float, float]] = (5e-3, 3.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(3e-2, (2e-3, 0.6))

    name: Literal["vera"] = "vera"
    rank: int | Auto = Field(default=AUTO)
    """inner dimension of the random matrices; auto: from the budget"""
    scale: float = Field(default=0.1, gt=0, le=100)
    """initial scale of every rank"""
    projection_seed: int = Field(default=0, ge=0, lt=2**31)
    """determines the random matrices, which all seeds share"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        assert isinstance(self.rank, int)
        of_ranks = Initialiser("constant", self.scale)
        return {
            "b": TensorShape((site.outputs,), Initialiser("zeros"), decays=False),
            "d": TensorShape((self.rank,), of_ranks, decays=False),
        }

    def largest_at(self, site: Site) -> int:
        return HIGHEST_RANK

    def flops_at(self, site: Site) -> int:
        assert isinstance(self.rank, int)
        return 2 * self.rank * (site.inputs + site.outputs)
