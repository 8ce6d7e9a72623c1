"""The forward pass of Llama and related models."""

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.decoder import Decoder, decoding, swiglu_hidden
from adaptlab.families.llama import Llama


@decoding("llama")
def decoder(family: Llama) -> Decoder:
    """Describe Llama as a decoder."""
    return Decoder(
        layers=family.layers,
        heads=family.heads,
        key_value_heads=family.key_value_heads,
        norm=lambda x, scale, _: grouped.rms_norm(x, scale, family.norm_epsilon),
        hidden=swiglu_hidden,
        frequencies=family.rotary_frequencies(),
    )
