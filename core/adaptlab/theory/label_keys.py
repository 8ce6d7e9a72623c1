"""Distances of keys at label words, and the confusion of their classes.

Source: Wang et al. (EMNLP 2023), section 4.3. There every input has the same classes and labels,
and confusion is the AUC of normalised probabilities, which is 1 for all pairs of a model without
errors. Here the wrong label's normalised probability takes its place.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments, OutputHook
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.plugins.task import Task
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.asking import Asked
from adaptlab.theory.observation import FrozenBase


class _Unrecorded:
    """A recorder that keeps nothing; with it every item has a pass of its own."""

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Forget the patterns."""


@dataclass(frozen=True)
class Observed:
    """Keys at labels [L, B, D, C], last queries [L, B, C] and logits [B, V]."""

    keys: Tensor
    queries: Tensor
    logits: Tensor


@torch.no_grad()
def observed(base: FrozenBase, shown: Asked) -> Observed:
    """Return keys and queries of all layers, heads side by side.

    They are those before rotary positions.
    """
    shape = base.family.shape()
    heard: dict[str, Tensor] = {}

    def hear(name: str) -> OutputHook:
        def keep(x: Tensor, y: Tensor) -> Tensor:
            heard[name] = y
            return y

        return keep

    names = [f"blocks.{layer}.attn.{part}" for layer in range(shape.layers) for part in "kq"]
    attached = Attachments(outputs={name: hear(name) for name in names})
    places = shown.places["labels"][0]  # the same in all items
    keys: list[Tensor] = []
    queries: list[Tensor] = []
    logits: list[Tensor] = []
    forward = ENGINE_FAMILIES.get(base.family.name)
    for part in shown.parts(base):
        tokens = shown.tokens[part].unsqueeze(0)
        given = forward(base.family, base.weights, tokens, attached, slice(None), _Unrecorded())
        rows = torch.arange(tokens.shape[1]), shown.ends[part]
        logits.append(given[0][rows])
        ends = [heard[f"blocks.{layer}.attn.q"][0][rows] for layer in range(shape.layers)]
        width = ends[0].shape[-1]
        at_labels = [
            _as_wide(heard[f"blocks.{layer}.attn.k"][0][:, places], width, shape.heads)
            for layer in range(shape.layers)
        ]
        queries.append(torch.stack(ends))
        keys.append(torch.stack(at_labels))
    return Observed(torch.cat(keys, 1), torch.cat(queries, 1), torch.cat(logits))


def _as_wide(keys: Tensor, width: int, heads: int) -> Tensor:
    """Return keys with those that several heads share repeated."""
    by_head = keys.unflatten(-1, (-1, width // heads))
    return by_head.repeat_interleave(heads // by_head.shape[-2], -2).flatten(-2)


def weighted(keys: Tensor, queries: Tensor, directions: int) -> Tensor:
    """Return keys along the main directions of queries, [B, D, M].

    Keys are [B, D, C], and queries [B, C].

    Each direction is weighted by the spread of the queries along it.
    """
    centred = queries - queries.mean(0)
    _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
    most = min(directions, len(spread))
    return keys @ axes[:most].T * spread[:most]


@dataclass(frozen=True)
class ClassPairs:
    """Closeness [L, P], confusion [P] and episodes [P] of class pairs."""

    closeness: Tensor
    confusion: Tensor
    episodes: Tensor


def classes_of(task: Task, shown: Asked) -> tuple[Tensor, Tensor]:
    """Return the classes of demonstrations [B, D] and of questions [B].

    On texts, a class is the place of its label among all labels.
    """
    tokens = shown.tokens
    if isinstance(task, Episodes):
        places = torch.tensor(task.also_trained())
        own = tokens[:, places - task.phrase - 1] // task.words
        return own, tokens[:, -task.phrase - 1] // task.words
    labels = tokens.gather(1, shown.places["labels"])
    return (labels.unsqueeze(-1) == shown.words).int().argmax(-1), shown.right


def pairs_of_classes(task: Task, shown: Asked, seen: Observed, directions: int) -> ClassPairs:
    """Return the pairs of classes that occur together in some episode.

    Closeness is the negative mean distance of their labels' keys.
    """
    labels = shown.tokens.gather(1, shown.places["labels"])
    classes, asked = classes_of(task, shown)
    right = shown.words[shown.right]
    weights = torch.stack(
        [weighted(k, q, directions) for k, q in zip(seen.keys, seen.queries, strict=True)]
    )
    sums: dict[tuple[int, int], list[Tensor]] = {}
    wrong: dict[tuple[int, int], list[Tensor]] = {}
    for item in range(shown.count):
        own = classes[item].tolist()
        label_of = dict(zip(own, labels[item].tolist(), strict=True))
        keys = {kind: weights[:, item][:, classes[item] == kind].mean(1) for kind in label_of}
        for first in label_of:
            for second in label_of:
                if first < second:
                    far = (keys[first] - keys[second]).norm(dim=-1)
                    sums.setdefault((first, second), []).append(far)
        kind = int(asked[item])
        for other, label in label_of.items():
            if other != kind:
                two = seen.logits[item, [int(right[item]), label]].softmax(-1)
                key = (min(kind, other), max(kind, other))
                wrong.setdefault(key, []).append(two[1])
    names = sorted(sums.keys() & wrong.keys())
    return ClassPairs(
        closeness=-torch.stack([torch.stack(sums[name]).mean(0) for name in names], 1),
        confusion=torch.stack([torch.stack(wrong[name]).mean() for name in names]),
        episodes=torch.tensor([len(wrong[name]) for name in names]),
    )
