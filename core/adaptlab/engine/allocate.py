"""Trainable tensors with a replicate axis, as views into one flat buffer."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.counter import normal, random_bits, stream, uniform
from adaptlab.plugins.shapes import TensorShape


@dataclass(frozen=True)
class Trainables:
    """The tensors of R replicates.

    `flat` is [R, N]; `tensors` are leaf views [R, *shape] into it; `decays` [N] is 1 where
    weight decay applies.
    """

    flat: Tensor
    decays: Tensor
    tensors: Mapping[str, Tensor]

    @property
    def scalars_per_replicate(self) -> int:
        """What the optimiser moves for one replicate."""
        return self.flat.shape[1]

    def gradient(self, loss: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The gradient [R, N] of a scalar loss, laid out like `flat`, in its dtype or another."""
        found = torch.empty_like(self.flat, dtype=dtype)
        if not self.tensors:
            return found.zero_()
        parts = torch.autograd.grad(loss, list(self.tensors.values()))
        columns = found.split([part[0].numel() for part in parts], 1)
        # Each part as it lies, transposed or in fewer digits, in one pass to its place.
        places = [c.view(part.shape) for c, part in zip(columns, parts, strict=True)]
        torch._foreach_copy_(places, list(parts))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        return found

    def selected(self, replicates: Tensor) -> dict[str, Tensor]:
        """Detached copies of the tensors of some replicates, in the given order."""
        return {name: tensor.detach()[replicates] for name, tensor in self.tensors.items()}


def allocate(
    shapes: Mapping[str, TensorShape],
    seeds: Tensor,
    bases: Mapping[str, Tensor],
    dtype: torch.dtype,
    scales: Tensor | None = None,
) -> Trainables:
    """Allocate and initialise exactly the declared tensors, for every entry of seeds [R].

    `bases` are the base tensors [G, ...] that initialisers of kind `base…` start from; `scales`
    [R] multiply what starts at random.
    """
    total = sum(shape.size for shape in shapes.values())
    flat = torch.empty(len(seeds), total, dtype=dtype, device=seeds.device)
    decays = torch.ones(total, dtype=dtype, device=seeds.device)
    start = 0
    for name, shape in shapes.items():
        stop = start + shape.size
        initial = _initial(name, shape, seeds, bases).to(dtype)
        if scales is not None and shape.initialiser.is_random:
            initial = initial * scales.to(dtype).unsqueeze(1)
        flat[:, start:stop] = initial
        decays[start:stop] = float(shape.decays)
        start = stop
    return Trainables(flat, decays, leaves(flat, shapes))


def leaves(flat: Tensor, shapes: Mapping[str, TensorShape]) -> dict[str, Tensor]:
    """Leaf views [R, *shape] into rows of a flat buffer [R, N], one for each declared tensor."""
    tensors: dict[str, Tensor] = {}
    start = 0
    for name, shape in shapes.items():
        stop = start + shape.size
        view = flat[:, start:stop].view(-1, *shape.shape)
        tensors[name] = view.detach().requires_grad_()
        start = stop
    return tensors


def _initial(name: str, shape: TensorShape, seeds: Tensor, bases: Mapping[str, Tensor]) -> Tensor:
    """The starting values [R, size] of one tensor; the same for a seed whatever R is."""
    start = shape.initialiser
    replicates, device = len(seeds), seeds.device
    if start.kind in ("base", "base_row_norms"):
        source = bases[start.source]
        if start.kind == "base_row_norms":
            source = torch.linalg.vector_norm(source, dim=-1)
        copies = source.repeat_interleave(replicates // source.shape[0], 0)
        return copies.reshape(replicates, -1)
    if start.kind == "base_rows":
        return _base_rows(name, shape, seeds, bases[start.source])
    if start.kind in ("zeros", "ones", "constant"):
        value = {"zeros": 0.0, "ones": 1.0, "constant": start.scale}[start.kind]
        return torch.full((replicates, shape.size), value, device=device)
    counters = (
        torch.tensor(stream(f"initial/{name}"), device=device),
        seeds.unsqueeze(1),
        torch.arange(shape.size, device=device).unsqueeze(0),
    )
    if start.kind == "normal":
        return start.scale * normal(*counters)
    bound = start.scale / shape.shape[-1] ** 0.5
    return bound * (2 * uniform(*counters) - 1)


def _base_rows(name: str, shape: TensorShape, seeds: Tensor, source: Tensor) -> Tensor:
    """Rows of source [G, V, C] drawn for every seed, with zeros behind C; [R, size]."""
    rows, width = shape.shape
    chosen = torch.stack([_drawn_rows(name, shape.initialiser.rows, rows, one) for one in seeds])
    groups = torch.arange(len(seeds), device=seeds.device) // (len(seeds) // len(source))
    found = source[groups.unsqueeze(1), chosen]  # R, P, C
    return functional.pad(found, (0, width - found.shape[-1])).flatten(1)


def _drawn_rows(name: str, available: int, count: int, seed: Tensor) -> Tensor:
    """The first `count` of one random order after another of `available` rows."""
    device = seed.device
    orders = torch.arange(-(-count // available), device=device).unsqueeze(1)
    places = torch.arange(available, device=device)
    start = torch.tensor(stream(f"initial/{name}"), device=device)
    return random_bits(start, seed, orders, places).argsort(stable=True).flatten()[:count]
