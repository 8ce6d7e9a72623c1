"""Answers to a query that reads only some states of its demonstrations.

Source: Wang et al. (EMNLP 2023), section 4.2. Unlike their code, every draw of random words begins
with none: their mask was never reset, so the random baseline kept more words from draw to draw.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.attachments import NOTHING_ATTACHED, Attachments, MixHook, OutputHook
from adaptlab.engine.counter import constant, random_bits, stream
from adaptlab.engine.items import Items
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.observation import FrozenBase

AT_ONCE = 256
"""Items of one pass."""
WORDS = 5
"""Likeliest tokens that word loyalty compares."""


@dataclass
class _Latest:
    """A recorder that keeps the pattern [1, B, H, T, T] of the latest layer."""

    pattern: Tensor | None = None

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Keep the pattern of a layer in place of the one before."""
        self.pattern = pattern


def kept_places(task: Episodes, samples: int) -> Mapping[str, Tensor]:
    """Return the places [B, K] of kept tokens by kind."""
    labels = torch.tensor(task.also_trained())
    formatting = torch.cat([labels - 1, labels + 1])
    kinds = {
        "anchors": torch.cat([labels, formatting]).sort().values,
        "formatting": formatting.sort().values,
        "labels": labels,
        "breaks": labels + 1,
    }
    return {kind: places.expand(samples, -1) for kind, places in kinds.items()}


def random_places(task: Episodes, samples: int, seed: int, draw: int) -> Tensor:
    """Return the formatting and as many random words as labels, [B, K]."""
    labels = task.also_trained()
    words = torch.tensor(
        [place for label in labels for place in range(label - task.phrase - 1, label - 1)]
    )
    cpu = torch.device("cpu")
    order = random_bits(
        constant(stream("compression/random"), cpu),
        constant(seed, cpu),
        constant(draw, cpu),
        torch.arange(samples).unsqueeze(1),
        torch.arange(len(words)),
    ).argsort(-1)
    chosen = words[order[:, : len(labels)]]
    return torch.cat([kept_places(task, samples)["formatting"], chosen], 1).sort(1).values


@torch.no_grad()
def logits(base: FrozenBase, task: Episodes, items: Items, kept: Tensor | None = None) -> Tensor:
    """Return the logits [B, V] of the answers.

    With `kept` [B, K], queries read only the states of these tokens of the demonstrations.
    """
    parts: list[Tensor] = []
    for first in range(0, items.tokens.shape[1], AT_ONCE):
        part = slice(first, first + AT_ONCE)
        recorder = _Latest()
        attached = NOTHING_ATTACHED
        if kept is not None:
            attached = _compressing(base, task, kept[part], recorder)
        parts.append(_last(base, items.tokens[:, part], attached, recorder))
    return torch.cat(parts)


@torch.no_grad()
def text_logits(base: FrozenBase, task: Episodes, items: Items, kept: Tensor) -> Tensor:
    """Return the logits [B, V] of answers after a text of the kept tokens."""
    length = items.tokens.shape[-1]
    query = torch.arange(_query(task), length).expand(len(kept), -1)
    tokens = items.tokens[0].gather(1, torch.cat([kept, query], 1)).unsqueeze(0)
    parts = tokens.split(AT_ONCE, 1)
    return torch.cat([_last(base, part, NOTHING_ATTACHED, _Latest()) for part in parts])


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Return Jaccard's index [B] of likeliest tokens of logits [B, V].

    There are `WORDS` on either side.
    """
    ours, theirs = first.topk(WORDS, -1).indices, second.topk(WORDS, -1).indices
    shared = (ours.unsqueeze(-1) == theirs.unsqueeze(-2)).sum((-1, -2)).double()
    return shared / (2 * WORDS - shared)


def _query(task: Episodes) -> int:
    """Return the place of the query's first token."""
    return task.demonstrations * task.demonstration_length


def _last(base: FrozenBase, tokens: Tensor, attached: Attachments, recorder: _Latest) -> Tensor:
    forward = ENGINE_FAMILIES.get(base.family.name)
    given = forward(base.family, base.weights, tokens, attached, slice(None), recorder)
    return given[0, :, -1]


def _compressing(base: FrozenBase, task: Episodes, kept: Tensor, recorder: _Latest) -> Attachments:
    """Return hooks by which queries read only tokens at `kept` [B, K]."""
    shape, query = base.family.shape(), _query(task)
    values: dict[int, Tensor] = {}

    def hear(layer: int) -> OutputHook:
        def keep(x: Tensor, y: Tensor) -> Tensor:
            values[layer] = y
            return y

        return keep

    def compress(layer: int) -> MixHook:
        def replaced(gathered: Tensor, rows: slice) -> Tensor:
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
