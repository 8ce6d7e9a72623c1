"""Answers of a base while some tokens attend to nothing but themselves.

Source: Wang et al. (EMNLP 2023), section 2.2. Their code lets the whole weight of an isolated token
fall on itself; so its attention output is its own value.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments, MixHook, OutputHook
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.theory.asking import Asked
from adaptlab.theory.observation import FrozenBase


class _Unrecorded:
    """A recorder that keeps nothing; with it every item has a pass of its own."""

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Forget the patterns."""


def answers(
    base: FrozenBase, shown: Asked, places: Tensor | None = None, layers: Collection[int] = ()
) -> Tensor:
    """Return the place of the likeliest label [B] of every item; see `scores`."""
    return scores(base, shown, places, layers).argmax(-1)


@torch.no_grad()
def scores(
    base: FrozenBase, shown: Asked, places: Tensor | None = None, layers: Collection[int] = ()
) -> Tensor:
    """Return the logits [B, K] of all labels as the answer to every item.

    Tokens at `places` [B, D] are isolated in these layers.
    """
    chosen: list[Tensor] = []
    for part in shown.parts(base):
        own = None if places is None else places[part]
        attached = Attachments() if own is None else isolating(base, own, layers)
        forward = ENGINE_FAMILIES.get(base.family.name)
        tokens = shown.tokens[part].unsqueeze(0)
        logits = forward(base.family, base.weights, tokens, attached, slice(None), _Unrecorded())
        rows = torch.arange(tokens.shape[1])
        chosen.append(logits[0, rows, shown.ends[part]][:, shown.words])
    return torch.cat(chosen)


def isolating(base: FrozenBase, places: Tensor, layers: Collection[int]) -> Attachments:
    """Return hooks by which tokens at `places` [B, D] read only themselves."""
    heads = base.family.shape().heads
    values: dict[int, Tensor] = {}

    def hear(layer: int) -> OutputHook:
        def keep(x: Tensor, y: Tensor) -> Tensor:
            values[layer] = y
            return y

        return keep

    def isolate(layer: int) -> MixHook:
        def replaced(gathered: Tensor, rows: slice | Tensor) -> Tensor:
            assert isinstance(rows, slice), "whole texts are read"
            size = gathered.shape[-1] // heads
            own = values[layer].unflatten(-1, (-1, size))
            own = own.repeat_interleave(heads // own.shape[-2], -2).flatten(-2)[:, :, rows]
            index = places.expand(len(gathered), *places.shape).unsqueeze(-1)
            index = index.expand(*index.shape[:-1], gathered.shape[-1])
            return gathered.scatter(2, index, own.gather(2, index))

        return replaced

    return Attachments(
        outputs={f"blocks.{layer}.attn.v": hear(layer) for layer in layers},
        mixes={f"blocks.{layer}.attn.mix": isolate(layer) for layer in layers},
    )
