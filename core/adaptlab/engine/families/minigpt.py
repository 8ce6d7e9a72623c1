"""The forward pass of miniGPT."""

from adaptlab.engine.models.decoder import Decoder, LayerNorm, decoding, gelu_hidden
from adaptlab.families.minigpt import MiniGPT


@decoding("minigpt")
def decoder(family: MiniGPT) -> Decoder:
    """Describe miniGPT as a decoder."""
    return Decoder(
        layers=family.layers,
        heads=family.heads,
        key_value_heads=family.heads,
        norm=LayerNorm(),
        hidden=gelu_hidden,
        attention_norm=family.attention_norm,
        attention=family.attention,
        pads=family.pad_positions,
        dropout=family.dropout,
    )
