"""Whether what was trained moves relative attention, on the same content with and without it."""

from collections.abc import Iterable

from torch import Tensor

from adaptlab.engine.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.theory.attention import largest_deviation, learned_mass
from adaptlab.theory.equations import Deviation, deviation
from adaptlab.theory.observation import FrozenBase, observe
from adaptlab.theory.prefix_effect import prefix_effects


def moved(
    base: FrozenBase, parts: Iterable[Tensor], attached: Attachments
) -> tuple[Deviation, ...]:
    """How far an adaptation takes every layer from both equations, over inputs [1, B, T] in parts.

    Deeper layers get the same input with and without what is attached to them. Virtual tokens and
    suffixes leave no such input, so that of these there is the first layer alone.
    """
    stands_elsewhere = (
        attached.prompt is not None or attached.late_prompt is not None or bool(attached.suffixes)
    )
    measure = _first_layer if stands_elsewhere else _all_layers
    worst: tuple[Deviation, ...] = ()
    for tokens in parts:
        found = measure(base, tokens, attached)
        both = zip(worst, found, strict=True)
        worst = tuple(a.worst(b) for a, b in both) if worst else found
    return worst


def _all_layers(base: FrozenBase, tokens: Tensor, attached: Attachments) -> tuple[Deviation, ...]:
    return tuple(deviation(effect) for effect in prefix_effects(base, tokens, attached))


def _first_layer(base: FrozenBase, tokens: Tensor, attached: Attachments) -> tuple[Deviation, ...]:
    """Equation 6 alone: of equation 7, the first layer under virtual tokens says nothing new."""
    before = observe(base, tokens, NOTHING_ATTACHED)[0]
    after = observe(base, tokens, attached)[0]
    taken = learned_mass(after.pattern, before.relative.shape[-1])
    scaled = before.relative * (1 - taken.unsqueeze(-1))
    missed = max(
        float(largest_deviation(after.pattern[..., after.learned :], scaled)),
        float(largest_deviation(after.relative, before.relative)),
    )
    return (Deviation(missed, 0.0, float(taken.min()), float(taken.max())),)
