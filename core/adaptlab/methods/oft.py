"""OFT: rotations of the inputs of weight matrices."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto


@METHODS.register("oft")
class Oft(SizedAtSites):
    """Rotate blocks of `block` input features before each chosen matrix.

    A block's rotation is the Cayley transform (1 − Q)(1 + Q)⁻¹ of a skew-symmetric Q, exactly,
    which starts at zero. W keeps its singular values. Features beyond the last whole block are not
    turned. `sites` are as in LoRA.
    """

    title: ClassVar[str] = "OFT"
    summary: ClassVar[str] = "The inputs of each selected weight matrix are rotated in blocks."
    formula: ClassVar[str] = "y = W diag(C₁, …, Cₙ)ᵀ x, C = (1 − Q)(1 + Q)⁻¹"
    reference: ClassVar[str] = "Qiu et al. (NeurIPS 2023)"
    size_knob: ClassVar[str | None] = "block"
    first_size: ClassVar[int] = 2
    default_learning_rate: ClassVar[float] = 5e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (3e-4, 0.3)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(1.2e-3, (1e-4, 3e-2))

    name: Literal["oft"] = "oft"
    block: int | Auto = Field(default=AUTO)
    """features that are rotated together, at least 2; auto: from the budget"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        assert isinstance(self.block, int)
        angles = self.block * (self.block - 1) // 2
        return {"skew": TensorShape((site.inputs // self.block, angles), Initialiser("zeros"))}

    def largest_at(self, site: Site) -> int:
        # Up to here a larger block has more parameters, although fewer blocks are whole.
        size = self.first_size
        while size + 1 < 2 * (site.inputs // size):
            size += 1
        return size

    def flops_at(self, site: Site) -> int:
        assert isinstance(self.block, int)
        return 2 * site.inputs * self.block
