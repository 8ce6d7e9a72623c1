"""The fluency of prompts: how well the base predicts their tokens."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.passes import of_seeds
from adaptlab.plugins.family import Family
from adaptlab.plugins.learned_positions import EMBEDDING
from adaptlab.plugins.shapes import HEAD_SITE
from adaptlab.specs.model_shapes import family_shape

HEAD = f"{HEAD_SITE}.weight"


def log_perplexities(
    family: Family,
    base: Mapping[str, Float[Tensor, "1 ..."]],
    rows: Float[Tensor, "R P C"],
    tokens: Int[Tensor, "R P"],
) -> Float[Tensor, "R"]:
    """Return the mean loss of a prompt's tokens after the first, in nats.

    The prompts are read as a text, by a model that predicts the next token. `rows` are the
    embeddings of `tokens` as blocks read them. Gradients reach a row as an input, and where the
    head is the embedding, as the weights of its own token too, as in the code of FluentPrompt.
    """
    table = base[EMBEDDING]
    own = rows[..., : table.shape[-1]] / family_shape(family).embedding_scale
    states: list[Tensor] = []

    def remembered(inputs: Tensor, logits: Tensor) -> Tensor:
        states.append(inputs)
        return logits

    attached = Attachments(
        weights={EMBEDDING: own, HEAD: base.get(HEAD, table)},
        outputs={HEAD_SITE: remembered},
        replicates=len(rows),
    )
    places = torch.arange(rows.shape[1], device=rows.device).expand(len(rows), 1, -1)
    forward = ENGINE_FAMILIES.get(family.name)
    logits = forward(family, base, places, attached, slice(None), None, None)
    losses = next_losses(logits[:, 0], tokens)
    if HEAD not in base and own.requires_grad:
        moved = own[:, 1:] - own[:, 1:].detach()  # zero, with the gradient of the token's weights
        losses = losses - (states[-1][:, 0, :-1] * moved).sum(-1)
    return losses.mean(1)


def next_losses(
    logits: Float[Tensor, "R P V"], tokens: Int[Tensor, "R P"]
) -> Float[Tensor, "R P2"]:
    """Return the losses of all tokens but the first under these logits."""
    targets = tokens[:, 1:]
    losses = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), targets.flatten(), reduction="none"
    )
    return losses.view_as(targets)


def fluency_gradient(
    plan: Plan,
    base: Mapping[str, Float[Tensor, "G ..."]],
    rows: Float[Tensor, "R P C"],
    tokens: Int[Tensor, "R P"],
    base_of: tuple[int, ...],
) -> Float[Tensor, "R P C"]:
    """Return the gradient of each prompt's log-perplexity at its rows.

    `base_of` is the base of each replicate. A prompt of one token has no perplexity: zeros.
    """
    if rows.shape[1] == 1:
        return torch.zeros_like(rows)
    gradient = torch.empty_like(rows)
    for group in dict.fromkeys(base_of):
        here = [place for place, base_place in enumerate(base_of) if base_place == group]
        weights = {name: of_seeds(tensor, [group]) for name, tensor in base.items()}
        with torch.enable_grad():
            at = rows[here].detach().requires_grad_()
            total = log_perplexities(plan.family, weights, at, tokens[here]).sum()
            (gradient[here],) = torch.autograd.grad(total, at)
    return gradient
