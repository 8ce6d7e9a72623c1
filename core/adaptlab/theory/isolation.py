"""Answers of a base while some tokens attend to nothing but themselves.

Source: Wang et al. (EMNLP 2023), section 2.2. Their code lets the whole weight of an isolated token
fall on itself; so its attention output is its own value.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments, MixHook, OutputHook
from adaptlab.engine.counter import constant, random_bits, stream
from adaptlab.engine.digits import make_items
from adaptlab.engine.items import Items
from adaptlab.engine.making import ITEM_SEED
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.observation import FrozenBase

AT_ONCE = 256
"""Items of one pass."""


class _Unrecorded:
    """A recorder that keeps nothing; with it every item has a pass of its own."""

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Forget the patterns."""


@dataclass(frozen=True)
class Asked:
    """Test episodes, and as many tokens of each kind to isolate.

    Attributes:
        items: the items [1, B, ...].
        places: positions [B, D] by kind: `labels`, `random`, `separators`, `after`.
    """

    items: Items
    places: Mapping[str, Tensor]


def asked(task: Episodes, samples: int, seed: int) -> Asked:
    """Return the first test episodes; random words are drawn by `seed`."""
    items = make_items(task, "test", torch.tensor([ITEM_SEED]), 0, samples)
    labels = torch.tensor(task.also_trained()).expand(samples, -1)
    words = torch.tensor(
        [
            place
            for label in task.also_trained()
            for place in range(label - task.phrase - 1, label - 1)
        ]
    )
    cpu = torch.device("cpu")
    order = random_bits(
        constant(stream("isolation/random"), cpu),
        constant(seed, cpu),
        torch.arange(samples).unsqueeze(1),
        torch.arange(len(words)),
    ).argsort(-1)
    random = words[order[:, : task.demonstrations]]
    kinds = {"labels": labels, "random": random, "separators": labels - 1, "after": labels + 1}
    return Asked(items, kinds)


def answers(
    base: FrozenBase,
    task: Episodes,
    items: Items,
    places: Tensor | None = None,
    layers: Collection[int] = (),
) -> Tensor:
    """Return the likeliest label [B] of every item; see `scores`."""
    return task.first_label + scores(base, task, items, places, layers).argmax(-1)


@torch.no_grad()
def scores(
    base: FrozenBase,
    task: Episodes,
    items: Items,
    places: Tensor | None = None,
    layers: Collection[int] = (),
) -> Tensor:
    """Return the logits [B, L] of all labels as the answer to every item.

    Tokens at `places` [B, D] are isolated in these layers.
    """
    tokens = items.tokens
    chosen: list[Tensor] = []
    for first in range(0, tokens.shape[1], AT_ONCE):
        part = slice(first, first + AT_ONCE)
        own = None if places is None else places[part]
        attached = Attachments() if own is None else isolating(base, own, layers)
        forward = ENGINE_FAMILIES.get(base.family.name)
        logits = forward(
            base.family, base.weights, tokens[:, part], attached, slice(None), _Unrecorded()
        )
        chosen.append(logits[0, :, -1, task.first_label : task.separator])
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
        def replaced(gathered: Tensor, rows: slice) -> Tensor:
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
