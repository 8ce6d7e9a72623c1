"""Equations 6 and 7 of the paper, and an update that breaks 6."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.theory.attention import largest_deviation
from adaptlab.theory.check import Check, Detail
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.prefix_effect import PrefixEffect, prefix_effects

ROUNDING = 1e-12
"""Tolerance of an identity in float64, relative to the largest number in it."""

BROKEN = 1e-6
"""The least by which an update of queries must move attention: a million times the rounding."""

NO_DETAILS: Mapping[str, Detail] = MappingProxyType({})


@dataclass(frozen=True)
class Deviation:
    """A layer's deviation from both equations, and its prefix mass."""

    sixth: float
    seventh: float
    least_taken: float
    most_taken: float

    def worst(self, other: "Deviation") -> "Deviation":
        """Return the worse of two observations of the layer."""
        return Deviation(
            sixth=max(self.sixth, other.sixth),
            seventh=max(self.seventh, other.seventh),
            least_taken=min(self.least_taken, other.least_taken),
            most_taken=max(self.most_taken, other.most_taken),
        )


def equations_6_and_7(
    base: FrozenBase, tokens: Tensor, attached: Attachments, tolerance: float = ROUNDING
) -> tuple[Check, ...]:
    """Check both equations in the first and in deeper layers.

    Equation 6: A^pt_ij = A_ij (1 - α_i) for content keys j. Equation 7: t^pt_i = α_i W_V s +
    (1 - α_i) t_i, and Σ_m A^pt_im W_V s_m in place of α_i W_V s for more than one learned row
    (Petrov, Torr, Bibi, ICLR 2024, section 4). Deeper layers get the same input in both runs.
    The deviation of equation 7 is relative to the largest attention output.
    """
    return equations_of(prefix_effects(base, tokens, attached), tolerance)


def equations_of(effects: Sequence[PrefixEffect], tolerance: float = ROUNDING) -> tuple[Check, ...]:
    """Check both equations for a prefix's effects on all layers."""
    return equations_from([deviation(effect) for effect in effects], tolerance)


def equations_from(
    layers: Sequence[Deviation],
    tolerance: float = ROUNDING,
    details: Mapping[str, Detail] = NO_DETAILS,
) -> tuple[Check, ...]:
    """Report both equations from the deviations of all layers, with details."""
    return (
        *_checks("first-layer", "in the first layer", layers[:1], tolerance, details),
        *_checks("deeper-layers", "in every deeper layer", layers[1:], tolerance, details),
    )


def queries_break_equation_6(
    base: FrozenBase, tokens: Tensor, updated: Attachments, size: float = BROKEN
) -> Check:
    """Check that `updated` queries move relative attention in every layer.

    This is the negative counterpart of equation 6. The measured value is the largest deviation in
    the layer that moves least, which must reach `size`.
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
    """Return a layer's deviation from each equation, given a prefix's effect."""
    before, after, taken = effect.before, effect.after, effect.taken
    content = after.pattern[..., after.learned :]
    scaled = largest_deviation(content, before.relative * (1 - taken))
    # If the prefix takes everything, only the softmax over content shows a deviation.
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
    deviations: Sequence[Deviation],
    tolerance: float,
    details: Mapping[str, Detail],
) -> tuple[Check, ...]:
    """Return the two checks over some layers, none for no layers."""
    if not deviations:
        return ()
    least, most = min(d.least_taken for d in deviations), max(d.most_taken for d in deviations)
    return (
        Check.at_most(
            f"equation-6.{name}",
            f"Equation 6: a prefix leaves relative attention over content unchanged {where}.",
            max(d.sixth for d in deviations),
            tolerance,
            layers=len(deviations),
            least_taken=least,
            most_taken=most,
            **details,
        ),
        Check.at_most(
            f"equation-7.{name}",
            f"Equation 7: attention gives α_i W_V s + (1 - α_i) t_i {where}.",
            max(d.seventh for d in deviations),
            tolerance,
            layers=len(deviations),
            least_taken=least,
            most_taken=most,
            **details,
        ),
    )
