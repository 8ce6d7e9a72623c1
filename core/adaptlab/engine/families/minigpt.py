"""The forward pass of miniGPT."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.decoder import Decoder, decode, gelu_hidden
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.plugins import ENGINE_FAMILIES, PatternRecorder
from adaptlab.families.minigpt import MiniGPT


@ENGINE_FAMILIES.register("minigpt")
def forward(
    family: MiniGPT,
    weights: Mapping[str, Tensor],
    tokens: Tensor,
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None = None,
    training: TrainingStep | None = None,
) -> Tensor:
    """Logits [R, B, rows, V] for tokens [R, B, T]."""
    decoder = Decoder(
        layers=family.layers,
        heads=family.heads,
        key_value_heads=family.heads,
        norm=grouped.layer_norm,
        hidden=gelu_hidden,
        attention_norm=family.attention_norm,
        attention=family.attention,
        pads=family.pad_positions,
        dropout=family.dropout,
    )
    return decode(decoder, weights, tokens, attachments, rows, recorder, training)
