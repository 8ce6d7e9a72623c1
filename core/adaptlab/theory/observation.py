"""Observation of every attention layer of a base model, through hooks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.counter import normal, stream
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import (
    NOTHING_ATTACHED,
    Attachments,
    MixHook,
    OutputHook,
    merged,
)
from adaptlab.engine.models.model import Model
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_METHODS
from adaptlab.engine.training.decomposed import companions_of
from adaptlab.errors import AdaptlabError
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import TensorShape


@dataclass(frozen=True)
class FrozenBase:
    """A base model: a resolved family and its weights [G, ...] in float64."""

    family: Family
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, family: Family, weights: Mapping[str, Tensor]) -> Self:
        """Return a base with these weights in float64."""
        return cls(family, {name: tensor.detach().double() for name, tensor in weights.items()})

    @property
    def groups(self) -> int:
        """G, the number of bases."""
        return max(len(tensor) for tensor in self.weights.values())

    @property
    def layers(self) -> tuple[str, ...]:
        """The attention sublayers in forward order, such as `blocks.0.attn`."""
        sites = self.family.shape().layer_sites("attention_input")
        return tuple(site.name.removesuffix(".input") for site in sites)


def exact(model: Model) -> tuple[FrozenBase, Attachments]:
    """Return an adapted model's base and attachments in float64."""
    trained = {name: tensor.detach().double() for name, tensor in model.trained.items()}
    base = FrozenBase.of(model.plan.family, model.base)
    attached = replace(model, base=base.weights, trained=trained).attachments
    replicates = max((len(tensor) for tensor in trained.values()), default=1)
    return base, replace(attached, replicates=replicates)


def random_base(family: Family, seed: int, spread: float = 0.3) -> FrozenBase:
    """Draw every weight of a base from N(0, spread²)."""
    return FrozenBase(family, _drawn(family.shape().tensors, seed, spread))


def random_attachments(
    base: FrozenBase, method: Method, seed: int, spread: float = 1.0
) -> Attachments:
    """Attach one replicate of a method, with tensors drawn from N(0, spread²)."""
    shape = base.family.shape()
    tensors = _drawn(method.tensors(shape), seed, spread)
    device = next(iter(base.weights.values())).device
    placed = {name: tensor.to(device) for name, tensor in tensors.items()}
    own = placed | companions_of(method, shape, base.weights)
    return ENGINE_METHODS.get(method.name)(method, shape, own)


def _drawn(shapes: Mapping[str, TensorShape], seed: int, spread: float) -> dict[str, Tensor]:
    return {
        name: spread
        * normal(
            torch.tensor(stream(f"theory/{name}")), torch.tensor(seed), torch.arange(shape.size)
        ).view(1, *shape.shape)
        for name, shape in shapes.items()
    }


@dataclass(frozen=True)
class Attention:
    """One layer's attention at the content positions, in every head.

    `source` [R, B, T, C] is the input of queries, keys and values; `virtual` that of each kind of
    learned rows and virtual tokens, [R, B or 1, P, C]. `queries` [R, B, T, H·k] and `keys`
    [R, B, T, K·k] are those of the content before any rotation. `pattern` [R, B, H, T, P+T] is
    the softmax over all keys, `relative` [R, B, H, T, T] that over content, and `gathered`
    [R, B, H, T, D] the sum of values before W_O.
    """

    name: str
    source: Tensor
    virtual: tuple[Tensor, ...]
    queries: Tensor
    keys: Tensor
    pattern: Tensor
    relative: Tensor
    gathered: Tensor

    @property
    def heads(self) -> int:
        """H, the number of query heads."""
        return self.pattern.shape[2]

    @property
    def learned(self) -> int:
        """P, the number of keys before the content."""
        return self.pattern.shape[-1] - self.relative.shape[-1]


@torch.no_grad()
def observe(
    base: FrozenBase, tokens: Tensor, attached: Attachments = NOTHING_ATTACHED
) -> tuple[Attention, ...]:
    """Observe every attention layer on tokens [R, B, T], first layer first.

    Raises:
        AdaptlabError: if the base has no attention.
    """
    if not base.layers:
        raise AdaptlabError(
            f"This {base.family.name} has 0 attention layers and the check needs 1 or more; "
            "take a base model with attention."
        )
    rows = max(len(tokens), base.groups, attached.replicates)
    listener, recorder = _Listener(base.layers), LayerRecorder()
    both = replace(
        merged([attached, listener.attachments()]),
        replicates=rows,
        answer_start=attached.answer_start,
    )
    forward = ENGINE_FAMILIES.get(base.family.name)
    lifted = grouped.lifted(tokens, rows)
    forward(base.family, base.weights, lifted, both, slice(None), recorder)
    patterns = zip(base.layers, recorder.patterns, recorder.relative, strict=True)
    return tuple(listener.attention(name, full, own) for name, full, own in patterns)


class _Listener:
    """Hooks that record inputs and outputs of attention."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.heard: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        self.gathered: dict[str, Tensor] = {}

    def attachments(self) -> Attachments:
        """Return hooks on queries, keys, values and the attention output."""
        sites = [f"{name}.{part}" for name in self.names for part in "qkv"]
        return Attachments(
            outputs={site: self._output(site) for site in sites},
            mixes={f"{name}.mix": self._mix(name) for name in self.names},
        )

    def attention(self, name: str, pattern: Tensor, relative: Tensor) -> Attention:
        """Return the observation of one layer, with its recorded patterns."""
        # Families compute the content's queries before those of virtual tokens.
        source, queries = self.heard[f"{name}.q"][0]
        assert queries.shape[2] == relative.shape[-1], f"{name} heard other rows before the content"
        values = [x for x, _ in self.heard[f"{name}.v"]]
        keys = [y for x, y in self.heard[f"{name}.k"] if torch.equal(x, source)]
        gathered = self.gathered[name].unflatten(-1, (pattern.shape[2], -1)).transpose(2, 3)
        return Attention(
            name=name,
            source=source,
            virtual=tuple(x for x in values if not torch.equal(x, source)),
            queries=queries,
            keys=keys[0],
            pattern=grouped.lifted(pattern, len(gathered)),
            relative=grouped.lifted(relative, len(gathered)),
            gathered=gathered,
        )

    def _output(self, site: str) -> OutputHook:
        def hear(x: Tensor, y: Tensor) -> Tensor:
            self.heard[site].append((x, y))
            return y

        return hear

    def _mix(self, name: str) -> MixHook:
        def hear(gathered: Tensor, rows: slice | Tensor) -> Tensor:
            self.gathered[name] = gathered
            return gathered

        return hear
