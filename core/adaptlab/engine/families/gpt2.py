"""The forward pass of GPT-2."""

from adaptlab.engine.models.decoder import Decoder, LayerNorm, decoding, gelu_hidden
from adaptlab.families.gpt2 import GPT2


@decoding("gpt2")
def decoder(family: GPT2) -> Decoder:
    """Describe GPT-2 as a decoder."""
    return Decoder(
        layers=family.layers,
        heads=family.heads,
        key_value_heads=family.heads,
        norm=LayerNorm(family.norm_epsilon),
        hidden=gelu_hidden,
    )
