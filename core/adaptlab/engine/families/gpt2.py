"""The forward pass of GPT-2."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.decoder import Decoder, decode, gelu_hidden
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.plugins import ENGINE_FAMILIES, PatternRecorder
from adaptlab.families.gpt2 import GPT2


@ENGINE_FAMILIES.register("gpt2")
def forward(
    family: GPT2,
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
        norm=partial(grouped.layer_norm, epsilon=family.norm_epsilon),
        hidden=gelu_hidden,
    )
    return decode(decoder, weights, tokens, attachments, rows, recorder, training)
