"""Answers to a query that reads only some states of its demonstrations.

Source: Wang et al. (EMNLP 2023), section 4.2. Unlike their code, every draw of random words begins
with none: their mask was never reset, so the random baseline kept more words from draw to draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments, MixHook, OutputHook
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.theory.asking import Asked, random_places
from adaptlab.theory.observation import FrozenBase

WORDS = 5
"""Likeliest tokens that word loyalty compares."""


@dataclass
class _Latest:
    """A recorder that keeps the pattern [1, B, H, T, T] of the latest layer."""

    pattern: Tensor | None = None

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Keep the pattern of a layer in place of the one before."""
        self.pattern = pattern


def kept_places(shown: Asked) -> Mapping[str, Tensor]:
    """Return the places [B, K] of kept tokens by kind."""
    labels, breaks = shown.places["labels"], shown.places["after"]
    formatting = torch.cat([shown.places["separators"], breaks], 1)
    return {
        "anchors": torch.cat([labels, formatting], 1).sort(1).values,
        "formatting": formatting.sort(1).values,
        "labels": labels,
        "breaks": breaks,
    }


def random_words(shown: Asked, seed: int, draw: int) -> Tensor:
    """Return the formatting and as many random words as labels, [B, K]."""
    count = shown.demonstrations
    chosen = random_places("compression/random", shown.text, shown.count, count, seed, draw)
    return torch.cat([kept_places(shown)["formatting"], chosen], 1).sort(1).values


@torch.no_grad()
def logits(base: FrozenBase, shown: Asked, kept: Tensor | None = None) -> Tensor:
    """Return the logits [B, V] of the answers.

    With `kept` [B, K], queries read only the states of these tokens of the demonstrations.
    """
    parts: list[Tensor] = []
    for part in shown.parts(base):
        recorder = _Latest()
        attached = NOTHING_ATTACHED
        if kept is not None:
            attached = _compressing(base, shown.query, kept[part], recorder)
        tokens = shown.tokens[part].unsqueeze(0)
        parts.append(_last(base, tokens, shown.ends[part], attached, recorder))
    return torch.cat(parts)


@torch.no_grad()
def text_logits(base: FrozenBase, shown: Asked, kept: Tensor) -> Tensor:
    """Return the logits [B, V] of answers after a text of the kept tokens."""
    query = torch.arange(shown.query, shown.tokens.shape[1]).expand(len(kept), -1)
    tokens = shown.tokens.gather(1, torch.cat([kept, query], 1)).unsqueeze(0)
    ends = shown.ends - shown.query + kept.shape[1]
    return torch.cat(
        [
            _last(base, tokens[:, part], ends[part], NOTHING_ATTACHED, _Latest())
            for part in shown.parts(base)
        ]
    )


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Return Jaccard's index [B] of likeliest tokens of logits [B, V].

    There are `WORDS` on either side.
    """
    ours, theirs = first.topk(WORDS, -1).indices, second.topk(WORDS, -1).indices
    shared = (ours.unsqueeze(-1) == theirs.unsqueeze(-2)).sum((-1, -2)).double()
    return shared / (2 * WORDS - shared)


def _last(
    base: FrozenBase, tokens: Tensor, ends: Tensor, attached: Attachments, recorder: _Latest
) -> Tensor:
    forward = ENGINE_FAMILIES.get(base.family.name)
    given = forward(base.family, base.weights, tokens, attached, slice(None), recorder)
    return given[0, torch.arange(len(ends)), ends]


def _compressing(base: FrozenBase, query: int, kept: Tensor, recorder: _Latest) -> Attachments:
    """Return hooks by which queries, from `query` on, read tokens at `kept`.

    Of the demonstrations, they read nothing else; `kept` is [B, K].
    """
    shape = base.family.shape()
    values: dict[int, Tensor] = {}

    def hear(layer: int) -> OutputHook:
        def keep(x: Tensor, y: Tensor) -> Tensor:
            values[layer] = y
            return y

        return keep

    def compress(layer: int) -> MixHook:
        def replaced(gathered: Tensor, rows: slice | Tensor) -> Tensor:
            assert isinstance(rows, slice), "whole texts are read"
            pattern = recorder.pattern
            assert pattern is not None
            assert rows.indices(pattern.shape[-1]) == (0, pattern.shape[-1], 1)
            is_read = torch.zeros(len(kept), pattern.shape[-1], dtype=torch.bool)
            is_read.scatter_(1, kept, value=True)[:, query:] = True
            read = pattern[..., query:, :] * is_read[:, None, None, :]  # 1, B, H, Q, T
            weights = read / read.sum(-1, keepdim=True)
            own = values[layer].unflatten(-1, (-1, gathered.shape[-1] // shape.heads))
            own = own.repeat_interleave(shape.heads // own.shape[-2], -2)  # 1, B, T, H, D
            heads = torch.einsum("abhqt,abthd->abqhd", weights, own).flatten(-2)
            return torch.cat([gathered[:, :, :query], heads], 2)

        return replaced

    layers = range(shape.layers)
    return Attachments(
        outputs={f"blocks.{layer}.attn.v": hear(layer) for layer in layers},
        mixes={f"blocks.{layer}.attn.mix": compress(layer) for layer in layers},
    )
