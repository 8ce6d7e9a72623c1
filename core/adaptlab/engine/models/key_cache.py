"""Keys and values of settled positions, for decoding token by token.

Items of different lengths are padded on the right. Each row of the cache has its own next position,
which overwrites padding, so an item has the positions and the logits that it has alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Bool, Float, Int

KeysValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Read:
    """What the attention of a layer has read of prompts.

    Attributes:
        own: keys and values of content [A, C, K, T, D]; padding is behind an item's length.
        learned: those of learned positions [A2, C or 1, K, P, D], to which every answer attends.
        seen: the content and learned positions to which each position of content attends, learned
            ones first; None if they are all learned ones and all content before it.
    """

    own: KeysValues
    learned: Sequence[KeysValues] = ()
    seen: Bool[Tensor, "L T"] | None = None


@dataclass
class _Layer:
    """Keys and values [N, K, P+L, D]: P `learned` positions, then content."""

    keys: Tensor
    values: Tensor
    learned: int
    seen: Bool[Tensor, "L T"] | None


class KeyCache:
    """What attention reads of R replicates × C items, each a row of N = R·C.

    Attributes:
        positions: the next position of each item, [R, C].
    """

    def __init__(self, lengths: Int[Tensor, "A C"], room: int, replicates: int) -> None:
        self.positions, self._room = lifted(lengths, replicates), room
        self._layers: list[_Layer] = []
        self._longest = int(lengths.max()) + 1

    def add(self, read: Read) -> None:
        """Keep what the next layer has read."""
        learned = sum(keys.shape[-2] for keys, _ in read.learned)
        keys, values = (self._stored(read, part, learned) for part in (0, 1))
        self._layers.append(_Layer(keys, values, learned, read.seen))

    def _stored(self, read: Read, part: int, learned: int) -> Float[Tensor, "N K T D"]:
        content, (replicates, items) = read.own[part], self.positions.shape
        _, _, heads, length, width = content.shape
        length = min(length, self._room)
        stored = content.new_zeros(replicates, items, heads, learned + self._room, width)
        start = 0
        for pair in read.learned:
            stop = start + pair[part].shape[-2]
            stored[..., start:stop, :] = lifted(pair[part], replicates)
            start = stop
        stored[..., start : start + length, :] = lifted(content[..., :length, :], replicates)
        return stored.flatten(0, 1)

    def keep(self, columns: Int[Tensor, "R C2"]) -> None:
        """Keep some items of every replicate, in this order."""
        replicates, items = self.positions.shape
        first = torch.arange(replicates, device=columns.device).unsqueeze(1) * items
        rows = (first + columns).flatten()
        self.positions = self.positions.gather(1, columns)
        self._longest = int(self.positions.max()) + 1
        for layer in self._layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]

    def settle(self, tokens: Int[Tensor, "R C"]) -> None:
        """Settle some more of the positions that have been read of each item."""
        self.positions = (self.positions + tokens).clamp(max=self._room - 1)
        self._longest = int(self.positions.max()) + 1

    def advance(self) -> None:
        """Settle the positions that every layer has read.

        Items that have no room stay where they are; their answers are over.
        """
        self.positions = (self.positions + 1).clamp(max=self._room - 1)
        self._longest = min(self._longest + 1, self._room)

    def read(
        self, layer: int, keys: Float[Tensor, "N K 1 D"], values: Float[Tensor, "N K 1 D"]
    ) -> tuple[Float[Tensor, "N K T D"], Float[Tensor, "N K T D"], Bool[Tensor, "N 1 1 T"]]:
        """Put keys and values at the next positions; return all of a layer.

        The mask is true where a row attends to.
        """
        at, positions = self._layers[layer], self.positions.flatten()
        rows, places = torch.arange(len(positions), device=positions.device), positions + at.learned
        at.keys[rows, :, places] = keys.squeeze(2)
        at.values[rows, :, places] = values.squeeze(2)
        width = at.learned + self._longest
        if at.seen is None:
            place = torch.arange(width, device=positions.device)
            seen = place <= places.unsqueeze(1)
        else:
            seen = at.seen[positions, :width]
        return at.keys[..., :width, :], at.values[..., :width, :], seen[:, None, None]

    def attend(
        self,
        layer: int,
        queries: Float[Tensor, "N H 1 D"],
        own: KeysValues,
        scale: float | None,
    ) -> Float[Tensor, "N 1 H D"]:
        """Return what the next positions read; H heads share K evenly."""
        keys, values, seen = self.read(layer, *own)
        shared = queries.squeeze(2).unflatten(1, (keys.shape[1], -1))  # N, K, H/K, D
        mixed = functional.scaled_dot_product_attention(
            shared, keys, values, attn_mask=seen, scale=scale
        )
        return mixed.flatten(1, 2).unsqueeze(1)


@dataclass(frozen=True)
class Begun:
    """Answers that have been begun: prompts are read, and drafts of answers.

    Attributes:
        logits: those of every token of the drafts.
        cache: the keys and values of what is read; the next positions are those behind prompts.
        after: reads one more token of each answer [R, C], and returns the logits [R, C, V] of the
            next one.
    """

    logits: Float[Tensor, "R C M V"]
    cache: KeyCache
    after: Callable[[Int[Tensor, "R C"]], Float[Tensor, "R C V"]]


def cached(lengths: Int[Tensor, "A C"], room: int, replicates: int, reads: list[Read]) -> KeyCache:
    """Return a cache of what each layer has read, which is let go."""
    cache = KeyCache(lengths, room, replicates)
    for read in _emptied(reads):
        cache.add(read)
    return cache


def _emptied(reads: list[Read]) -> Iterator[Read]:
    while reads:
        yield reads.pop(0)
