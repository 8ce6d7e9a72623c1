"""LoRA: low-rank updates of selected weight matrices."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, Self

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import METHODS, LearningRates
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape
from adaptlab.plugins.sited_method import QUERIES_AND_VALUES, SitedMethod, Sites
from adaptlab.values import AUTO, Auto, Value

MOST_OVERRIDES = 64


class SitesOverride(Value):
    """Another rank or alpha at some of the chosen sites.

    None is the value of the other sites.
    """

    sites: Sites
    rank: int | None = None
    alpha: float | None = Field(default=None, gt=0, le=1e4)


@METHODS.register("lora")
class Lora(SitedMethod):
    """Add (alpha / rank) · B A x to the output of every selected linear site.

    A is initialised from U(-1/√inputs, 1/√inputs) and B with zeros. `sites` are dotted parts of
    names, such as `q`, `attn.v`, `mlp` or `blocks.0.mlp.up`. With `scaling: rank_stabilised` the
    factor s is alpha / √rank (Kalajdzievski 2023). With `dora` the norm m of every row of W + s B A
    is learned separately: y = m / ‖W + s B A‖ · (W + s B A) x (Liu et al., ICML 2024).

    With `initialisation: pissa`, s B A starts as the first `rank` singular triplets of W (Meng,
    Wang, Zhang, NeurIPS 2024), with `olora` as s times the first columns of Q and rows of R of
    W = Q R (Büyükakyüz 2024). That start is subtracted, so an untrained model is the base. Each
    site stores its update as a plain LoRA of twice the rank.

    Under Adam, alpha times c is `tuning.initial_scales` times √c with the learning rate times √c,
    but for clipping and decay. So a grid of rates and initial scales is one of rates and alphas,
    and LoRA+ (alpha times the ratio of rates) and rsLoRA (alpha times √rank) are points of it.

    `overrides` give some of the sites another rank or alpha; the first whose sites match decides. A
    budget determines `rank`, that of all other sites.
    """

    title: ClassVar[str] = "LoRA"
    place: ClassVar[int] = 0
    summary: ClassVar[str] = "A low-rank matrix is added to each selected weight matrix."
    formula: ClassVar[str] = "y = W x + (alpha / rank) · B A x"
    reference: ClassVar[str] = "Hu et al. (ICLR 2022)"
    size_knob: ClassVar[str | None] = "rank"
    default_learning_rate: ClassVar[float] = 2e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-3, (3e-4, 1e-1))

    name: Literal["lora"] = "lora"
    rank: int | Auto = Field(default=AUTO)
    """inner dimension of the update; auto: from the budget"""
    alpha: float = Field(default=1.0, gt=0, le=1e4)
    """scales the update; divided by the rank"""
    sites: Sites = QUERIES_AND_VALUES
    """parts of the names of matrices to adapt, such as q, v or mlp"""
    scaling: Literal["standard", "rank_stabilised"] = "standard"
    """alpha / rank, or alpha / √rank (rank-stabilised)"""
    dora: bool = False
    """learn the length of each row of the weights separately"""
    initialisation: Literal["standard", "pissa", "olora"] = Field(
        default="standard",
        exclude_if=lambda start: start == "standard",  # older jobs keep their digests
    )
    """first values of A and B: random and 0, or parts of a decomposition of the weights"""
    overrides: tuple[SitesOverride, ...] = Field(
        default=(),
        max_length=MOST_OVERRIDES,
        exclude_if=lambda overrides: not overrides,  # older jobs keep their digests
    )
    """another rank or alpha at some of the sites, one per line, as JSON"""

    def rank_at(self, site: Site) -> int:
        """Return the rank of the update of a chosen site."""
        override = self._override_at(site)
        rank = self.rank if override is None or override.rank is None else override.rank
        assert isinstance(rank, int)
        return rank

    def alpha_at(self, site: Site) -> float:
        """Return the alpha of a chosen site."""
        override = self._override_at(site)
        return self.alpha if override is None or override.alpha is None else override.alpha

    def scale_at(self, site: Site) -> float:
        """Return the factor s of the update of a chosen site."""
        rank = self.rank_at(site)
        return self.alpha_at(site) / (rank if self.scaling == "standard" else rank**0.5)

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        tensors: dict[str, TensorShape] = {}
        for site in self.chosen_sites(shape):
            for part, tensor in self._started(site, shape).items():
                tensors[f"{site.name}.{part}"] = tensor
            if self.dora:
                weight = f"{site.name}.weight"
                norms = Initialiser("base_row_norms", source=shape.tied.get(weight, weight))
                magnitude = TensorShape((site.outputs,), norms, decays=False)
                tensors[f"{site.name}.magnitude"] = magnitude
        return tensors

    def _started(self, site: Site, shape: ModelShape) -> dict[str, TensorShape]:
        """Return A and B of a site with their first values."""
        rank, weight = self.rank_at(site), f"{site.name}.weight"
        source = shape.tied.get(weight, weight)
        if self.initialisation == "pissa":
            scale = self.scale_at(site)
            rows = Initialiser("singular_rows", scale, source)
            columns = Initialiser("singular_columns", scale, source)
        elif self.initialisation == "olora":
            rows = Initialiser("triangular_rows", source=source)
            columns = Initialiser("orthonormal_columns", source=source)
        else:
            rows, columns = Initialiser("kaiming_uniform", 1.0), Initialiser("zeros")
        return {
            "a": TensorShape((rank, site.inputs), rows),
            "b": TensorShape((site.outputs, rank), columns),
        }

    @property
    def starts_from_weights(self) -> bool:
        """True if A and B start as parts of a decomposition of the weights."""
        return self.initialisation != "standard"

    def companions(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the A and B that are subtracted."""
        sites = self.chosen_sites(shape) if self.starts_from_weights else ()
        return {
            f"{site.name}.start.{part}": tensor
            for site in sites
            for part, tensor in self._started(site, shape).items()
        }

    def kept(self) -> Self:
        """Return a plain LoRA of the update and of the subtracted start."""
        if not self.starts_from_weights:
            return self
        doubled = tuple(
            one.model_copy(update={"rank": None if one.rank is None else 2 * one.rank})
            for one in self.overrides
        )
        assert isinstance(self.rank, int)
        changes = {"rank": 2 * self.rank, "initialisation": "standard", "overrides": doubled}
        return self.model_copy(update=changes)

    def reads_weights(self) -> bool:
        return self.starts_from_weights

    def _rates_on(self, shape: ModelShape) -> LearningRates:
        """Return lower rates for a start from the weights of a large base.

        Published optima there are 3 to 18 times lower; on small models they are those of LoRA.
        """
        rates = super()._rates_on(shape)
        if not self.starts_from_weights or rates != self.large_base_rates:
            return rates
        low, high = rates.limits
        return LearningRates(rates.default / 4, (low / 10, high))

    def largest_size(self, shape: ModelShape) -> int:
        return _highest_rank(site for site in self.chosen_sites(shape) if self._is_sized(site))

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        problems = super().problems(shape) or tuple(self._override_problems(shape))
        if self.dora and self.starts_from_weights:
            detail = (
                "DoRA learns row lengths of the weights, from which this start is subtracted. Use "
                "`initialisation: standard`, or leave `dora` out."
            )
            start = Problem("/method/initialisation", "given_with_dora", detail, ("standard",))
            problems = (*problems, start)
        limit = self.largest_size(shape)
        if problems or not isinstance(self.rank, int) or 1 <= self.rank <= limit:
            return problems
        return (_rank_problem("/method/rank", self.rank, limit, "at the chosen sites"),)

    def _override_problems(self, shape: ModelShape) -> Iterator[Problem]:
        """Yield overrides without a site or an effect.

        Also yield those with ranks that their sites cannot have.
        """
        chosen = self.chosen_sites(shape)
        for index, override in enumerate(self.overrides):
            at = f"/method/overrides/{index}"
            sites = [site for site in chosen if self._override_at(site) is override]
            if override.rank is None and override.alpha is None:
                detail = "The override sets neither a rank nor an alpha. Set one, or leave it out."
                yield Problem(at, "nothing_overridden", detail)
            elif not sites:
                detail = (
                    f"No chosen site is left for the override of {', '.join(override.sites)}. "
                    "Overrides apply to sites that `sites` chooses, and the first that matches "
                    "decides."
                )
                yield Problem(
                    f"{at}/sites", "unknown_site", detail, tuple(site.name for site in chosen)
                )
            elif override.rank is not None:
                limit = _highest_rank(sites)
                if not 1 <= override.rank <= limit:
                    yield _rank_problem(f"{at}/rank", override.rank, limit, "at these sites")
        if not any(self._is_sized(site) for site in chosen):
            detail = (
                "Every chosen site has a rank from an override, so `rank` has no effect. Leave out "
                "the override of some sites."
            )
            yield Problem("/method/overrides", "nothing_left", detail)

    def _override_at(self, site: Site) -> SitesOverride | None:
        matching = (one for one in self.overrides if any(map(site.matches, one.sites)))
        return next(matching, None)

    def _is_sized(self, site: Site) -> bool:
        """Return True if the site has the rank that a budget determines."""
        override = self._override_at(site)
        return override is None or override.rank is None

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        subtracted = self.companions(shape).values()
        return sum(2 * tensor.size for tensor in (*self.tensors(shape).values(), *subtracted))


def _highest_rank(sites: Iterable[Site]) -> int:
    return min((min(site.inputs, site.outputs) for site in sites), default=1)


def _rank_problem(pointer: str, rank: int, limit: int, where: str) -> Problem:
    return Problem(
        pointer=pointer,
        code="rank_out_of_range",
        detail=f"The rank {rank} is outside 1 to {limit} {where}.",
        nearest=(min(max(rank, 1), limit),),
    )
