"""The change of relative attention by training, on the same content."""

from collections.abc import Iterable

from torch import Tensor

from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.theory.attention import largest_deviation, learned_mass
from adaptlab.theory.equations import Deviation, deviation
from adaptlab.theory.observation import FrozenBase, observe
from adaptlab.theory.prefix_effect import prefix_effects


def moved(
    base: FrozenBase, parts: Iterable[Tensor], attached: Attachments
) -> tuple[Deviation, ...]:
    """Return every layer's worst deviation from both equations.

    Inputs [1, B, T] come in parts. Deeper layers get the same input with and without their
    attachments. With virtual tokens and suffixes there is no such input, so only the first layer is
    measured.
    """
    is_elsewhere = (
        attached.prompt is not None or attached.late_prompt is not None or bool(attached.suffixes)
    )
    measure = _first_layer if is_elsewhere else _all_layers
    worst: tuple[Deviation, ...] = ()
    for tokens in parts:
        deviations = measure(base, tokens, attached)
        pairs = zip(worst, deviations, strict=True)
        worst = tuple(a.worst(b) for a, b in pairs) if worst else deviations
    return worst


def _all_layers(base: FrozenBase, tokens: Tensor, attached: Attachments) -> tuple[Deviation, ...]:
    return tuple(deviation(effect) for effect in prefix_effects(base, tokens, attached))


def _first_layer(base: FrozenBase, tokens: Tensor, attached: Attachments) -> tuple[Deviation, ...]:
    """Measure equation 6 only; equation 7 adds nothing for virtual tokens."""
    before = observe(base, tokens, NOTHING_ATTACHED)[0]
    after = observe(base, tokens, attached)[0]
    taken = learned_mass(after.pattern, before.relative.shape[-1])
    scaled = before.relative * (1 - taken.unsqueeze(-1))
    missed = max(
        float(largest_deviation(after.pattern[..., after.learned :], scaled)),
        float(largest_deviation(after.relative, before.relative)),
    )
    return (Deviation(missed, 0.0, float(taken.min()), float(taken.max())),)
