"""The forward pass of published decoders, by the library `transformers`."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.library_model import library_model
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_TOKEN_STATES, PatternRecorder
from adaptlab.engine.tensors import Float, Int
from adaptlab.families.transformers import Transformers


@ENGINE_FAMILIES.register("transformers")
def forward(
    family: Transformers,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    tokens: Int[Tensor, "A B T"],
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None = None,
    training: TrainingStep | None = None,
) -> Float[Tensor, "R B Q V"]:
    """Return logits at the given rows. There is no dropout: a model is adapted as it is used."""
    adapted = {**weights, **attachments.weights}
    adapted.setdefault("unembed.weight", adapted["embed.weight"])  # a tied head
    groups = (len(tensor) for tensor in adapted.values())
    replicates = max((len(tokens), attachments.replicates, *groups))
    model, tokens = library_model(family), grouped.lifted(tokens, replicates)
    return model.logits(adapted, tokens, attachments, rows, recorder)


@ENGINE_TOKEN_STATES.register("transformers")
def token_states(
    family: Transformers,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    embeddings: Float[Tensor, "G P C"],
) -> dict[str, Float[Tensor, "G P _"]]:
    """Return what attention reads of virtual tokens; see `plugins.TokenStates`."""
    no_content = torch.zeros(len(embeddings), 1, 0, dtype=torch.int64, device=embeddings.device)
    whole = {"unembed.weight": weights["embed.weight"], **weights}
    states: dict[str, Tensor] = {}
    attached = Attachments(prompt=embeddings, replicates=len(embeddings))
    library_model(family).logits(whole, no_content, attached, slice(None), None, states)
    return states
