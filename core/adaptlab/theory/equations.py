"""Equations 6 and 7 of the paper, on any base model, and an update that breaks equation 6."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.theory.attention import largest_deviation
from adaptlab.theory.check import Check, Detail
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.prefix_effect import PrefixEffect, prefix_effects

ROUNDING = 1e-12
"""What float64 leaves of an identity, relative to the largest number in it."""

BROKEN = 1e-6
"""The least by which an update of queries must move attention: a million times the rounding."""

NO_DETAILS: Mapping[str, Detail] = MappingProxyType({})


@dataclass(frozen=True)
class Deviation:
    """How far one layer is from each equation, and the least and most that the prefix takes."""

    sixth: float
    seventh: float
    least_taken: float
    most_taken: float

    def worst(self, other: "Deviation") -> "Deviation":
        """How far the layer is in the worse of two observations."""
        return Deviation(
            sixth=max(self.sixth, other.sixth),
            seventh=max(self.seventh, other.seventh),
            least_taken=min(self.least_taken, other.least_taken),
            most_taken=max(self.most_taken, other.most_taken),
        )


def equations_6_and_7(
    base: FrozenBase, tokens: Tensor, attached: Attachments, tolerance: float = ROUNDING
) -> tuple[Check, ...]:
    """Both equations in the first layer and in the deeper ones, for tokens [R, B, T].

    Equation 6: A^pt_ij = A_ij (1 - α_i) for content keys j. Equation 7: t^pt_i = α_i W_V s +
    (1 - α_i) t_i, and Σ_m A^pt_im W_V s_m in place of α_i W_V s for more than one learned row
    (Petrov, Torr, Bibi, ICLR 2024, section 4). Deeper layers get the same input in both runs.
    The deviation of equation 7 is relative to the largest value gathered.
    """
    return equations_of(prefix_effects(base, tokens, attached), tolerance)


def equations_of(effects: Sequence[PrefixEffect], tolerance: float = ROUNDING) -> tuple[Check, ...]:
    """Both equations for the effects of a prefix on all layers, first layer first."""
    return equations_from([deviation(effect) for effect in effects], tolerance)


def equations_from(
    layers: Sequence[Deviation],
    tolerance: float = ROUNDING,
    details: Mapping[str, Detail] = NO_DETAILS,
) -> tuple[Check, ...]:
    """Both equations from how far every layer is from them, with further details."""
    return (
        *_checks("first-layer", "in the first layer", layers[:1], tolerance, details),
        *_checks("deeper-layers", "in every deeper layer", layers[1:], tolerance, details),
    )


def queries_break_equation_6(
    base: FrozenBase, tokens: Tensor, updated: Attachments, size: float = BROKEN
) -> Check:
    """The negative of equation 6: with queries `updated`, relative attention moves in every layer.

    Measured is the largest deviation of the layer that moves least; `size` is the least that
    counts.
    """
    moved = [deviation(effect).sixth for effect in prefix_effects(base, tokens, updated)]
    return Check.at_least(
        "equation-6.queries-updated",
        "Equation 6 does not hold for LoRA on queries: it moves relative attention in every layer.",
        min(moved),
        size,
        moved_by_layer=tuple(moved),
    )


def deviation(effect: PrefixEffect) -> Deviation:
    """How far a layer is from each equation, given what a prefix does to it."""
    before, after, taken = effect.before, effect.after, effect.taken
    content = after.pattern[..., after.learned :]
    scaled = largest_deviation(content, before.relative * (1 - taken))
    # Where the prefix takes everything, only the softmax over content can tell.
    relative = largest_deviation(after.relative, before.relative)
    missed = largest_deviation(effect.addition, effect.expected_addition)
    return Deviation(
        sixth=max(float(scaled), float(relative)),
        seventh=float(missed / after.gathered.abs().max()),
        least_taken=float(taken.min()),
        most_taken=float(taken.max()),
    )


def _checks(
    name: str,
    where: str,
    each: Sequence[Deviation],
    tolerance: float,
    details: Mapping[str, Detail],
) -> tuple[Check, ...]:
    """The two checks over some layers; none over none."""
    if not each:
        return ()
    least, most = min(d.least_taken for d in each), max(d.most_taken for d in each)
    return (
        Check.at_most(
            f"equation-6.{name}",
            f"Equation 6: a prefix leaves relative attention over content unchanged {where}.",
            max(d.sixth for d in each),
            tolerance,
            layers=len(each),
            least_taken=least,
            most_taken=most,
            **details,
        ),
        Check.at_most(
            f"equation-7.{name}",
            f"Equation 7: attention gives α_i W_V s + (1 - α_i) t_i {where}.",
            max(d.seventh for d in each),
            tolerance,
            layers=len(each),
            least_taken=least,
            most_taken=most,
            **details,
        ),
    )
