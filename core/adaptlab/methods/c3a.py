"""C3A: block-circulant changes of weight matrices."""

from itertools import pairwise, takewhile
from math import prod
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto


@METHODS.register("c3a")
class C3a(SizedAtSites):
    """Add circulant blocks: each row of a block is the one above, moved on.

    Along the shorter side of a matrix are `parts` blocks, which start at zero. Rows and columns
    beyond the last whole block stay as they are. The change can have full rank. `sites` are as in
    LoRA.
    """

    title: ClassVar[str] = "C3A"
    summary: ClassVar[str] = "Each block of a selected matrix is changed by one circular kernel."
    formula: ClassVar[str] = "y = (W + C / inputs) x, C_ij = circ(k_ij)"
    reference: ClassVar[str] = "Chen et al. (ACL 2025)"
    size_knob: ClassVar[str | None] = "parts"
    default_learning_rate: ClassVar[float] = 0.4
    learning_rate_range: ClassVar[tuple[float, float]] = (2e-2, 10.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(0.1, (6e-3, 2.0))

    name: Literal["c3a"] = "c3a"
    parts: int | Auto = Field(default=AUTO)
    """blocks along the shorter side of a matrix; auto: from the budget"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def block_at(self, site: Site) -> int:
        """Return the rows of a site's blocks."""
        assert isinstance(self.parts, int)
        return max(1, min(site.inputs, site.outputs) // self.parts)

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        return {"kernel": TensorShape(_kernels(site, self.block_at(site)), Initialiser("zeros"))}

    def largest_at(self, site: Site) -> int:
        # Up to here more parts are more parameters, although fewer rows may be in whole blocks.
        shorter = min(site.inputs, site.outputs)
        counts = [prod(_kernels(site, shorter // parts)) for parts in range(1, shorter + 1)]
        grows = takewhile(lambda pair: pair[0] <= pair[1], pairwise(counts))
        return 1 + sum(1 for _ in grows)

    def flops_at(self, site: Site) -> int:
        return 2 * site.inputs * site.outputs


def _kernels(site: Site, block: int) -> tuple[int, int, int]:
    """Return the shape of the kernels of a site's blocks."""
    return site.outputs // block, site.inputs // block, block
