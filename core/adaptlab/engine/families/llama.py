"""The forward pass of Llama and related models."""

import math

from adaptlab.engine import grouped
from adaptlab.engine.decoder import Decoder, decoding, swiglu_hidden
from adaptlab.families.llama import Llama, Llama3Scaling


@decoding("llama")
def decoder(family: Llama) -> Decoder:
    """Describe Llama as a decoder."""
    return Decoder(
        layers=family.layers,
        heads=family.heads,
        key_value_heads=family.key_value_heads,
        norm=lambda x, scale, _: grouped.rms_norm(x, scale, family.norm_epsilon),
        hidden=swiglu_hidden,
        frequencies=rotary_frequencies(family),
    )


def rotary_frequencies(family: Llama) -> tuple[float, ...]:
    """Return radians per position for each pair of features of a head.

    They are base^(-2i/D), then scaled.
    """
    size, scaling = family.head_size, family.rotary_scaling
    assert isinstance(size, int)
    plain = tuple(family.rotary_base ** (-pair / size) for pair in range(0, size, 2))
    if scaling is None:
        return plain
    if isinstance(scaling, Llama3Scaling):
        return tuple(_llama3(frequency, scaling) for frequency in plain)
    return tuple(frequency / scaling.factor for frequency in plain)


def _llama3(frequency: float, scaling: Llama3Scaling) -> float:
    """Scale a frequency down if its period exceeds the original context.

    Between `low` and `high` turns within that context, it is interpolated (Llama 3.1).
    """
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    turns = scaling.original_context * frequency / (2 * math.pi)  # within the original context
    if turns > high:
        return frequency
    if turns < low:
        return frequency / scaling.factor
    kept = (turns - low) / (high - low)
    return (1 - kept) * frequency / scaling.factor + kept * frequency
