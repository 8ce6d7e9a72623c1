"""SHiRA: sparse changes of weight matrices at drawn places."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, Sites, SizedAtSites
from adaptlab.values import AUTO, Auto


@METHODS.register("shira")
class Shira(SizedAtSites):
    """Change `entries` weights of every chosen matrix, at places drawn once.

    The changes start at zero. Places depend on `mask_seed` and the site alone, so all seeds of a
    run share them; another `mask_seed` is another method. `sites` are as in LoRA.
    """

    title: ClassVar[str] = "SHiRA"
    summary: ClassVar[str] = "A few weights at random places of each selected matrix change."
    formula: ClassVar[str] = "y = (W + S) x, S sparse"
    reference: ClassVar[str] = "Bhardwaj et al. (NeurIPS 2024)"
    size_knob: ClassVar[str | None] = "entries"
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (5e-4, 0.5)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(2.5e-3, (1.5e-4, 5e-2))

    name: Literal["shira"] = "shira"
    entries: int | Auto = Field(default=AUTO)
    """changed weights of each matrix; auto: from the budget"""
    mask_seed: int = Field(default=0, ge=0, lt=2**31)
    """determines the places"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""

    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        assert isinstance(self.entries, int)
        return {"values": TensorShape((self.entries,), Initialiser("zeros"))}

    def largest_at(self, site: Site) -> int:
        return site.inputs * site.outputs

    def flops_at(self, site: Site) -> int:
        return 2 * site.inputs * site.outputs
