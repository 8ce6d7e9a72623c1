"""HiRA: a Hadamard product of the weights and a low-rank matrix."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto


@METHODS.register("hira")
class Hira(SizedAtSites):
    """Change every weight by a learned share of itself, which has low rank.

    A is initialised from U(-1/√inputs, 1/√inputs) and B with zeros. The change W ∘ (B A) can have
    full rank. Where W is 0 it stays 0. `sites` are as in LoRA.
    """

    title: ClassVar[str] = "HiRA"
    summary: ClassVar[str] = "Each weight is changed by a share of itself; shares have low rank."
    formula: ClassVar[str] = "y = (W + W ∘ (B A)) x"
    reference: ClassVar[str] = "Huang et al. (ICLR 2025)"
    size_knob: ClassVar[str | None] = "rank"
    default_learning_rate: ClassVar[float] = 0.1
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-2, 3.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-2, (3e-3, 1.0))

    name: Literal["hira"] = "hira"
    rank: int | Auto = Field(default=AUTO)
    """inner dimension of the shares; auto: from the budget"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def reads_weights(self) -> bool:
        return True

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        assert isinstance(self.rank, int)
        uniform = Initialiser("kaiming_uniform", 1.0)
        return {
            "a": TensorShape((self.rank, site.inputs), uniform),
            "b": TensorShape((site.outputs, self.rank), Initialiser("zeros")),
        }

    def largest_at(self, site: Site) -> int:
        return min(site.inputs, site.outputs)

    def flops_at(self, site: Site) -> int:
        return 2 * site.inputs * site.outputs
