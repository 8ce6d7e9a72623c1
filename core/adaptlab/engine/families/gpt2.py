"""The forward pass of GPT-2."""

from functools import partial

from adaptlab.engine import grouped
from adaptlab.engine.decoder import Decoder, decoding, gelu_hidden
from adaptlab.families.gpt2 import GPT2


@decoding("gpt2")
def decoder(family: GPT2) -> Decoder:
    """Describe GPT-2 as a decoder."""
    return Decoder(
        layers=family.layers,
        heads=family.heads,
        key_value_heads=family.heads,
        norm=partial(grouped.layer_norm, epsilon=family.norm_epsilon),
        hidden=gelu_hidden,
    )
