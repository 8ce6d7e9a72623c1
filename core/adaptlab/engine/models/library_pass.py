"""One forward pass of the library's model, as its modules see it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models import sites
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.key_cache import KeyCache, Read
from adaptlab.engine.models.library_positions import Positions
from adaptlab.engine.plugins import PatternRecorder
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.plugins.shapes import HEAD_SITE
from adaptlab.weights.library_tensors import STACKED_PARTS

READERS = ("q", "k", "v", "qkv")
"""Parts that read the input of attention."""
FIRST_PARTS = ("q", "qkv", "up", "gate")
"""Parts whose input is that of their sublayer."""


@dataclass
class LibraryPass:
    """A forward pass of R `replicates` over content of `length` positions.

    `kept` are the positions, learned ones among them, whose logits are computed. `normed` are the
    attention sublayers with a norm before them. `inputs` are those of sublayers
    that have not given their output yet, and `attended` the layers whose attention went through our
    function. `taken` receives what attention reads of virtual tokens. `ends` are the positions that
    are read for the answer of each row of the batch, learned ones among them. `reads` receives what
    the attention of each layer has read. With a `cache`, each row of the batch has one position,
    and the cache has those before it.
    """

    weights: Mapping[str, Float[Tensor, "G ..."]]
    attached: Attachments
    recorder: PatternRecorder | None
    replicates: int
    positions: Positions
    length: int
    kept: Int[Tensor, "Q"]
    normed: frozenset[str]
    ends: Int[Tensor, "N"]
    inputs: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    attended: set[int] = field(default_factory=set[int])
    taken: dict[str, Tensor] | None = None
    reads: list[Read] | None = None
    cache: KeyCache | None = None

    @property
    def virtual(self) -> int:
        """The learned positions in the tensors before the content."""
        return self.positions.count

    @cached_property
    def seen(self) -> Bool[Tensor, "N N"]:
        """What positions may see, learned ones among them."""
        device = next(iter(self.weights.values())).device
        return self.positions.visible(self.length, device)

    @cached_property
    def present(self) -> Bool[Tensor, "N T"]:
        """True where a row of the batch is not padding.

        Learned positions are never padding. If nothing is padded, one row stands for all.
        """
        read = self.attached.read
        place = torch.arange(-self.virtual, self.length, device=self.kept.device)
        if read is None:
            return torch.ones_like(place, dtype=torch.bool).unsqueeze(0)
        return place < grouped.lifted(read, self.replicates).flatten().unsqueeze(-1)

    def classified(
        self, states: Float[Tensor, "N T C"], reads: Literal["first", "last", "mean"]
    ) -> Float[Tensor, "R B 1 K"]:
        """Return the output of a head for classes.

        It reads the first or the last of the states of each item's content, or their mean.
        """
        if reads == "first":
            x = states[:, self.virtual : self.virtual + 1].unflatten(0, (self.replicates, -1))
            return sites.linear(self.weights, self.attached, HEAD_SITE, x)
        if reads == "last":
            x = states[:, self.kept].unflatten(0, (self.replicates, -1))
            last = grouped.picked(x, self.attached.answer_rows)
            return sites.linear(self.weights, self.attached, HEAD_SITE, last)
        content = states[:, self.virtual :]
        weights = self.present[:, self.virtual :].unsqueeze(-1).to(content)
        mean = (content * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
        x = mean.unflatten(0, (self.replicates, -1))
        return sites.linear(self.weights, self.attached, HEAD_SITE, x)

    def with_rows(self, sublayer: str, x: Float[Tensor, "R B N C"]) -> Float[Tensor, "R B N C"]:
        """Return the input of attention with the layer's learned rows.

        It is the input before attention's norm.
        """
        site, at = f"{sublayer}.input", self.positions
        if self.taken is not None:
            self.taken[site] = x[:, 0]
        start = at.suffix + at.late
        suffix = self.attached.suffixes.get(site, x[:, 0, : at.suffix])
        rows = self.attached.attention_inputs.get(site, x[:, 0, start : start + at.rows])
        if not at.suffix and not at.rows:
            return x
        suffix, rows = (
            grouped.lifted(t, len(x)).unsqueeze(1).expand(-1, x.shape[1], -1, -1).to(x)
            for t in (suffix, rows)
        )
        late, rest = x[:, :, at.suffix : start], x[:, :, start + at.rows :]
        return torch.cat([suffix, late, rows, rest], 2)

    def linear(self, names: tuple[str, ...], rows: Tensor) -> Tensor:
        """Return the outputs of linear sites that read the same rows [R·B, ...].

        The outputs are side by side.
        """
        x = rows.unflatten(0, (self.replicates, -1))
        if HEAD_SITE in names and self.attached.answer_rows is not None:
            x = grouped.picked(x, self.attached.answer_rows)
            rows = x.flatten(0, 1)
        if x.dim() == 3:  # some modules see the tokens of all items in one axis
            x = x.unflatten(1, (-1, self.virtual + self.length))
        outputs = [self._site(name, x) for name in names]
        y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        return y.reshape(*rows.shape[:-1], y.shape[-1])

    def _site(self, name: str, x: Float[Tensor, "R B T I"]) -> Float[Tensor, "R B T O"]:
        sublayer, _, part = name.rpartition(".")
        if part in READERS and sublayer not in self.normed:
            x = self.with_rows(sublayer, x)
        if part in FIRST_PARTS:
            self.inputs[sublayer] = x
        if part == "o":
            x = self._mixed(f"{sublayer}.mix", x)
        y = self._by_kind(name, partial(sites.linear, self.weights, self.attached, name), x)
        if part in ("o", "down"):
            source = self.inputs.pop(sublayer)
            y = self._by_kind(sublayer, partial(sites.hooked, self.attached, sublayer), source, y)
        return y

    def _by_kind(
        self, site: str, compute: Callable[..., Tensor], *tensors: Float[Tensor, "R B T _"]
    ) -> Float[Tensor, "R B T _"]:
        """Compute a hooked site separately for each kind of position.

        The kinds are the content and every kind of learned position. The content comes first. Hooks
        thus see the rows that they see in other families.
        """
        at = self.positions
        has_learned = self.virtual and tensors[0].shape[2] == at.count + self.length
        if not has_learned or not self.attached.changes(site):
            return compute(*tensors)
        sizes = (at.suffix, at.late, at.rows, at.prompt, self.length)
        *learned, content = zip(*(tensor.split(sizes, 2) for tensor in tensors), strict=True)
        last = compute(*content)
        return torch.cat([*(compute(*part) for part in learned if part[0].shape[2]), last], 2)

    def _mixed(self, site: str, gathered: Float[Tensor, "R B T K"]) -> Float[Tensor, "R B T K"]:
        """Return the attention output, changed at the content positions."""
        mix = self.attached.mixes.get(site)
        if mix is None:
            return gathered
        before, content = gathered[:, :, : self.virtual], gathered[:, :, self.virtual :]
        rows = slice(None) if self.cache is None else self.cache.positions.unsqueeze(-1)
        return torch.cat([before, mix(content, rows)], 2)

    def mlp(self, sublayer: str, rows: Float[Tensor, "N T C"], output: Tensor) -> Tensor:
        """Return the output of an MLP of experts with its attachments.

        The attachments are those of the sublayer.
        """
        x, y = (tensor.unflatten(0, (self.replicates, -1)) for tensor in (rows, output))
        hook = partial(sites.hooked, self.attached, sublayer)
        return self._by_kind(sublayer, hook, x, y).flatten(0, 1)

    def called_by_group(
        self, module: nn.Module, names: Mapping[str, Sequence[str]], *rows: Tensor
    ) -> Any:
        """Call a router, or all experts of a layer, with the engine's tensors.

        `names` are those of the tensors by the module's own, which has the matrices of all experts
        in one. Groups are computed one after the other, since which rows an expert reads depends on
        their values.
        """
        own = {mine: [self.weights[name] for name in several] for mine, several in names.items()}
        groups = max(len(tensor) for several in own.values() for tensor in several)

        def called(group: int, *args: Tensor) -> Any:
            tensors = {
                mine: _by_expert(mine, [t[group * len(t) // groups] for t in several])
                for mine, several in own.items()
            }
            return _with(module, tensors, args, {})

        parts = [
            called(group, *args)
            for group, args in enumerate(zip(*(t.chunk(groups) for t in rows), strict=True))
        ]
        return pytree.tree_map(lambda *several: torch.cat(several), *parts)

    def called(self, module: nn.Module, names: Mapping[str, str], *args: Any, **named: Any) -> Any:
        """Call a norm or an embedding with the engine's tensors.

        Each group has tensors of its own. `names` are those of the tensors by the module's own.
        """
        own = {mine: self.weights[name] for mine, name in names.items()}
        groups = {len(tensor) for tensor in own.values()}
        if groups == {1}:
            return _with(module, {mine: t[0] for mine, t in own.items()}, args, named)
        count = max(groups)
        own = {mine: grouped.lifted(tensor, count) for mine, tensor in own.items()}

        def split(value: Any) -> Any:
            return value.unflatten(0, (count, -1)) if _is_by_row(value, args[0]) else value

        def axis(value: Any) -> int | None:
            return 0 if _is_by_row(value, args[0]) else None

        axes = pytree.tree_map(axis, (args, named))
        split_args, split_named = pytree.tree_map(split, (args, named))
        call = torch.vmap(partial(_with, module), in_dims=(0, *axes))
        return call(own, split_args, split_named).flatten(0, 1)


def _is_by_row(value: object, rows: Tensor) -> bool:
    return isinstance(value, Tensor) and len(value) == len(rows)


def _by_expert(name: str, matrices: Sequence[Tensor]) -> Tensor:
    """Return the matrices of a module's tensor as that tensor."""
    if name not in STACKED_PARTS:
        return matrices[0]
    experts = len(matrices) // len(STACKED_PARTS[name])
    return torch.cat(list(matrices)).unflatten(0, (experts, -1))


def _with(module: nn.Module, tensors: Mapping[str, Tensor], args: Any, named: Any) -> Any:
    """Call a module with tensors in place of its parameters."""
    registered: dict[str, Any] = module._parameters  # not only parameters: tensors go as well
    emptied = dict(registered)
    registered.update(tensors)
    try:
        return type(module).forward(module, *args, **named)
    finally:
        registered.update(emptied)
