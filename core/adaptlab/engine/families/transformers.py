"""The forward pass of published decoders, by the library `transformers`."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.dropout import TrainingStep
from adaptlab.engine.models.key_cache import Begun
from adaptlab.engine.models.library_model import library_model
from adaptlab.engine.plugins import (
    ENGINE_BEGINNINGS,
    ENGINE_FAMILIES,
    ENGINE_TOKEN_STATES,
    PatternRecorder,
)
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
    """Return logits at the given rows, without dropout.

    A model is adapted as it is used.
    """
    groups = [len(tensor) for tensor in weights.values()]
    if not attachments.changes_classes_only():  # whose states serve all trials of a seed
        groups += [attachments.replicates, *map(len, attachments.weights.values())]
    tokens = grouped.lifted(tokens, max(groups))
    return library_model(family).logits(weights, tokens, attachments, rows, recorder)


@ENGINE_BEGINNINGS.register("transformers")
def begin(
    family: Transformers,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    tokens: Int[Tensor, "A B T"],
    attachments: Attachments,
    rows: slice,
    lengths: Int[Tensor, "A B"],
    room: int,
) -> Begun | None:
    """Read tokens, and keep what attention reads; see `plugins.Beginning`."""
    groups = (len(t) for t in (*weights.values(), *attachments.weights.values()))
    replicates = max(*groups, attachments.replicates)
    tokens, lengths = (grouped.lifted(each, replicates) for each in (tokens, lengths))
    return library_model(family).begun(weights, tokens, attachments, rows, lengths, room)


@ENGINE_TOKEN_STATES.register("transformers")
def token_states(
    family: Transformers,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    embeddings: Float[Tensor, "G P C"],
) -> dict[str, Float[Tensor, "G P _"]]:
    """Return what attention reads of virtual tokens.

    See `plugins.TokenStates`.
    """
    no_content = torch.zeros(len(embeddings), 1, 0, dtype=torch.int64, device=embeddings.device)
    states: dict[str, Tensor] = {}
    attached = Attachments(prompt=embeddings, replicates=len(embeddings))
    library_model(family).logits(weights, no_content, attached, slice(None), None, states)
    return states
