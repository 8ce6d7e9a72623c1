"""LoRA, rank-stabilised LoRA and DoRA from PEFT's form.

PEFT has patterns of ranks and alphas by module, adaptlab overrides by site. A site of a fused
module gets the update's rows of B with all of A, or with its own part of A where the update is
block diagonal with blocks of one rank, as `to_peft` writes it.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Literal, TypeVar

import numpy as np
from pydantic import Field, PositiveInt

from adaptlab.errors import BadAdapter
from adaptlab.exchange.modules import ConfiguredModel, Module, SitePart, name_ends
from adaptlab.exchange.peft_members import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    TARGETS_ADVICE,
    TargetedMembers,
    refuse_saved_modules,
)
from adaptlab.exchange.peft_methods.lora import MAGNITUDE, A, B
from adaptlab.exchange.peft_tensors import AdaptedModule, adapted_modules
from adaptlab.exchange.plugins import PEFT_TYPES, AttachedAdapter, BaseTensors, Numbers
from adaptlab.exchange.site_patterns import site_patterns
from adaptlab.methods.lora import MOST_OVERRIDES, Lora, SitesOverride
from adaptlab.wording import shortened

N = TypeVar("N", int, float)
_Size = tuple[int, float]
"""The rank and the alpha of a site."""

HIGHEST_ALPHA = 1e4
MOST_PATTERNS = 64
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.]+")
_CONVERT = (
    "Convert it to a plain LoRA in PEFT, with save_pretrained(…, "
    "path_initial_model_for_weight_conversion=…)."
)


class LoraMembers(TargetedMembers):
    """The members of LoRA that are read."""

    ignored = frozenset(
        {"fan_in_fan_out", "eva_config", "lora_dropout", "megatron_core", "qalora_group_size"}
    )
    advice = TARGETS_ADVICE | {"init_lora_weights": _CONVERT}

    r: PositiveInt
    lora_alpha: float
    bias: Literal["none"] = "none"
    init_lora_weights: bool | Literal["gaussian", "eva", "orthogonal"] = True
    """Other initial values come with a changed base model."""
    rank_pattern: dict[str, PositiveInt] = Field(default_factory=dict[str, PositiveInt])
    alpha_pattern: dict[str, float] = Field(default_factory=dict[str, float])
    use_rslora: bool = False
    use_dora: bool = False

    def rank_of(self, module: str) -> int:
        """Return the rank of a module."""
        return _first_match(self.rank_pattern, module, self.r)

    def alpha_of(self, module: str) -> float:
        """Return the alpha of a module."""
        return _first_match(self.alpha_pattern, module, self.lora_alpha)


def _first_match(patterns: Mapping[str, N], module: str, default: N) -> N:
    """Return the value of the first pattern that is an end of a module's name."""
    ends = {end for end in name_ends(module) if end in patterns}
    if len(ends) < 2:
        return patterns[ends.pop()] if ends else default
    return next(value for pattern, value in patterns.items() if pattern in ends)


@dataclass(frozen=True, slots=True)
class _Update:
    """The update B A of one module, with its alpha.

    `active` are the sites whose outputs it changes. `norms` are DoRA's learned row norms.
    """

    module: Module
    alpha: float
    a: Numbers = field(repr=False)
    b: Numbers = field(repr=False)
    norms: "Numbers | None" = field(repr=False)
    active: tuple[SitePart, ...]

    @property
    def rank(self) -> int:
        return len(self.a)

    def ranks(self) -> set[int]:
        """Return the ranks that its sites can have."""
        most = len(self.module.parts)
        wanted = {self.rank // n for n in range(1, most + 1) if self.rank % n == 0}
        return {rank for rank in wanted if rank and self.blocks(rank) is not None}

    def blocks(self, rank: int) -> tuple[tuple[SitePart, slice], ...] | None:
        """Return each adapted site with its rows of A.

        Each site has `rank` rows. None if that is impossible.
        """
        if rank == self.rank:
            whole = slice(0, rank)
            return tuple((part, whole) for part in self.active or self.module.parts)
        count, rest = divmod(self.rank, rank)
        for parts in combinations(self.module.parts, 0 if rest else count):
            blocks = tuple((p, slice(i * rank, (i + 1) * rank)) for i, p in enumerate(parts))
            if parts and {*self.active} <= {*parts} and all(self._is_alone(*b) for b in blocks):
                return blocks
        return None

    def _is_alone(self, part: SitePart, columns: slice) -> bool:
        """Return True if the part's rows of B are zero outside its columns."""
        rows = self.b[part.rows]
        return not (rows[:, : columns.start].any() or rows[:, columns.stop :].any())


@PEFT_TYPES.register("LORA")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the updates by site.

    Raises:
        BadAdapter: a member changes what is computed, or the sites need too many patterns.
    """
    members = LoraMembers.read(config)
    refuse_saved_modules(members)
    _check_patterns(members)
    kinds = (A, B, MAGNITUDE) if members.use_dora else (A, B)
    adapted = adapted_modules(model, tensors, kinds, members.targets())
    updates = [_update(members, module, base) for module in adapted]
    ranks = _ranks(updates)
    root = 0.5 if members.use_rslora else 1.0
    written: dict[str, Numbers] = {}
    sizes: dict[str, _Size] = {}
    for update, rank in zip(updates, ranks, strict=True):
        alpha = _undone(update.alpha, (update.rank / rank) ** root)
        for part, columns in update.blocks(rank) or ():
            site = part.site.name
            sizes[site] = rank, alpha
            written[f"{site}.a"] = update.a[columns]
            written[f"{site}.b"] = update.b[part.rows, columns]
            if update.norms is not None:
                written[f"{site}.magnitude"] = update.norms[part.rows]
    return AttachedAdapter(_method(members, model, sizes), written)


def _check_patterns(members: LoraMembers) -> None:
    for name in (*members.rank_pattern, *members.alpha_pattern):
        if not PLAIN_NAME.fullmatch(name):
            raise BadAdapter(
                f"{ADAPTER_CONFIG} has the pattern {shortened(name, 60)!r} in rank_pattern or "
                "alpha_pattern. List the ends of the modules' names there, without symbols of "
                "regular expressions."
            )


def _update(members: LoraMembers, adapted: AdaptedModule, base: BaseTensors) -> _Update:
    module = adapted.module
    inputs, outputs = module.parts[0].site.inputs, module.outputs
    rank, alpha = members.rank_of(module.name), members.alpha_of(module.name)
    if not 0 < alpha <= HIGHEST_ALPHA:
        raise BadAdapter(
            f"{ADAPTER_CONFIG} has the alpha {alpha:g} for {module.name}. It must be above 0 and "
            f"at most {HIGHEST_ALPHA:g}. Scale B instead."
        )
    a = adapted.tensor(A, (None, inputs))
    if len(a) != rank:
        raise BadAdapter(
            f"{ADAPTER_CONFIG} has the rank {rank} for {module.name}, and {ADAPTER_WEIGHTS} has "
            f"{len(a)}. Correct r or rank_pattern."
        )
    b = adapted.tensor(B, (outputs, rank))
    norms = adapted.tensor(MAGNITUDE, (outputs,)) if members.use_dora else None
    active = tuple(_active_parts(module, b, norms, base))
    return _Update(module, alpha, a, b, norms, active)


def _active_parts(
    module: Module, b: Numbers, norms: "Numbers | None", base: BaseTensors
) -> Iterator[SitePart]:
    """Yield the sites whose outputs the update of a fused module changes.

    If the module has only one site, yield that one.
    """
    for part in module.parts:
        if len(module.parts) == 1 or b[part.rows].any():
            yield part
        elif norms is not None:
            own = np.linalg.norm(base(f"{part.site.name}.weight"), axis=1)
            if not np.allclose(norms[part.rows], own, rtol=1e-6, atol=0):
                yield part


def _ranks(updates: list[_Update]) -> list[int]:
    """Return the rank of the sites of each update.

    It is the smallest that all sites can have, otherwise the smallest of each update.
    """
    possible = [update.ranks() for update in updates]
    if common := set[int].intersection(*possible):
        return [min(common)] * len(updates)
    return [min(ranks) for ranks in possible]


def _method(members: LoraMembers, model: ConfiguredModel, sizes: Mapping[str, _Size]) -> Lora:
    """Return the method with the most common rank and alpha.

    Other sites have overrides.
    """
    by_size: dict[_Size, list[str]] = {}
    for site, size in sizes.items():
        by_size.setdefault(_already(by_size, size), []).append(site)
    (usual, _), *others = sorted(by_size.items(), key=lambda item: -len(item[1]))
    if len(others) > MOST_OVERRIDES:
        raise BadAdapter(
            f"The modules of {ADAPTER_WEIGHTS} have {len(by_size)} pairs of a rank and an alpha. "
            f"adaptlab's LoRA has at most {MOST_OVERRIDES + 1}. Scale B to fewer values of alpha."
        )
    return Lora(
        rank=usual[0],
        alpha=usual[1],
        sites=_patterns(model, sizes),
        scaling="rank_stabilised" if members.use_rslora else "standard",
        dora=members.use_dora,
        overrides=tuple(
            SitesOverride(
                sites=_patterns(model, sites),
                rank=None if rank == usual[0] else rank,
                alpha=None if alpha == usual[1] else alpha,
            )
            for (rank, alpha), sites in others
        ),
    )


def _already(sizes: Iterable[_Size], size: _Size) -> _Size:
    """Return a size that is equal but for rounding, if there is one."""
    rank, alpha = size
    equal = (s for s in sizes if s[0] == rank and math.isclose(s[1], alpha, rel_tol=1e-9))
    return next(equal, size)


def _patterns(model: ConfiguredModel, sites: Collection[str]) -> tuple[str, ...]:
    patterns = tuple(islice(site_patterns(model.shape, sites), MOST_PATTERNS + 1))
    if len(patterns) > MOST_PATTERNS:
        raise BadAdapter(
            f"The modules of {ADAPTER_WEIGHTS} need more than {MOST_PATTERNS} patterns of sites, "
            "which is the limit. Adapt the same modules in every layer."
        )
    return patterns


def _undone(product: float, factor: float) -> float:
    """Return the number whose product with `factor` is `product`.

    Of several such numbers, it is the one with the fewest digits.
    """
    quotient = product / factor
    short = (float(f"{quotient:.{digits}g}") for digits in range(1, 17))
    return next((number for number in short if number * factor == product), quotient)
