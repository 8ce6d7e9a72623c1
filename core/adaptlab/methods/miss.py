"""MiSS: one block, repeated along the inputs of a matrix."""

from math import isqrt
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto


@METHODS.register("miss")
class Miss(SizedAtSites):
    """Add one block D of `rank` columns, repeated to the matrix's width.

    So y = W x + D s, where s sums x over its blocks of `rank` features; D starts at zero. That is
    LoRA whose A is a frozen row of identities. With `bat`, the square blocks W_ij of W change by
    W_ij D_i + D_i instead; rows and columns beyond the last whole block stay as they are.
    """

    title: ClassVar[str] = "MiSS"
    summary: ClassVar[str] = "One narrow block is added all along each selected weight matrix."
    formula: ClassVar[str] = "y = (W + [D D … D]) x"
    reference: ClassVar[str] = "Kang and Yin (2024)"
    size_knob: ClassVar[str | None] = "rank"
    default_learning_rate: ClassVar[float] = 2e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-4, 1e-1)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(4e-4, (3e-5, 1e-2))

    name: Literal["miss"] = "miss"
    rank: int | Auto = Field(default=AUTO)
    """width of the block; auto: from the budget"""
    bat: bool = False
    """change blocks by products with them too, which W then takes part in"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def reads_weights(self) -> bool:
        return self.bat

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        assert isinstance(self.rank, int)
        rank, zeros = self.rank, Initialiser("zeros")
        shape = (site.outputs // rank, rank, rank) if self.bat else (rank, site.outputs)
        return {"block": TensorShape(shape, zeros)}

    def largest_at(self, site: Site) -> int:
        # Up to here more rank is more parameters, although fewer blocks are whole.
        squares = isqrt(min(site.inputs, site.outputs)) - 1
        return max(1, squares) if self.bat else site.inputs
