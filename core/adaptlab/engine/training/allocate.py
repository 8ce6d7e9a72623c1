"""Trainable tensors with a replicate axis, as views into one flat buffer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels.counter import constant, normal, random_bits, stream, uniform
from adaptlab.engine.kernels.fused_adamw import has_kernel
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.decomposed import DECOMPOSED, Decompositions
from adaptlab.plugins.shapes import TensorShape


@dataclass(frozen=True)
class Gradient:
    """The gradient of a flat buffer, in parts [R, ...] in the buffer's order.

    A kernel reads the gradients of tensors where the backward pass has left them. Without a kernel
    there is one part.
    """

    parts: Sequence[Tensor]

    @property
    def flat(self) -> Float[Tensor, "R N"]:
        """The parts side by side; a view if there is only one."""
        rows = [part.flatten(1) for part in self.parts]
        return rows[0] if len(rows) == 1 else torch.cat(rows, 1)

    def plus(self, other: "Gradient") -> "Gradient":
        """Return the sum of both.

        If this gradient has only one part, the sum overwrites it.
        """
        return Gradient((self.flat.add_(other.flat),))


@dataclass(frozen=True)
class Trainables:
    """The tensors of R replicates.

    `flat` is [R, N]; `tensors` are leaf views [R, *shape] into it; `decays` [N] is 1 where
    weight decay applies.
    """

    flat: Float[Tensor, "R N"]
    decays: Float[Tensor, "N"]
    tensors: Mapping[str, Tensor]

    @property
    def scalars_per_replicate(self) -> int:
        """The number N of trained scalars per replicate."""
        return self.flat.shape[1]

    def gradient(self, loss: Float[Tensor, ""], dtype: torch.dtype | None = None) -> Gradient:
        """Return the gradient of a loss with respect to `flat`.

        Its dtype is that of `flat` unless one is given.
        """
        if not self.tensors:
            return Gradient((torch.zeros_like(self.flat, dtype=dtype),))
        parts = torch.autograd.grad(loss, list(self.tensors.values()))
        if has_kernel(self.flat):
            return Gradient([part.contiguous() for part in parts])
        gradient = torch.empty_like(self.flat, dtype=dtype)
        columns = gradient.split([part[0].numel() for part in parts], 1)
        # One pass copies every part to its place, whatever its strides and dtype.
        places = [c.view(part.shape) for c, part in zip(columns, parts, strict=True)]
        torch._foreach_copy_(places, list(parts))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        return Gradient((gradient,))

    def selected(self, replicates: Int[Tensor, "W"]) -> dict[str, Tensor]:
        """Return detached copies of the tensors of some replicates."""
        return {name: tensor.detach()[replicates] for name, tensor in self.tensors.items()}


def allocate(
    shapes: Mapping[str, TensorShape],
    seeds: Int[Tensor, "R"],
    bases: Mapping[str, Tensor],
    dtype: torch.dtype,
    scales: Float[Tensor, "R"] | None = None,
    states: Mapping[str, Tensor] = MappingProxyType({}),
) -> Trainables:
    """Allocate and initialise exactly the declared tensors, for every seed.

    `bases` are the base tensors [G, ...] that initialisers of kind `base…` copy, and `states` the
    activations and embeddings [G, *shape], by the name of the tensor that starts with them.
    `scales` multiply random initial values.
    """
    total = sum(shape.size for shape in shapes.values())
    flat = torch.empty(len(seeds), total, dtype=dtype, device=seeds.device)
    decays = torch.ones(total, dtype=dtype, device=seeds.device)
    start, decompositions = 0, Decompositions(bases)
    for name, shape in shapes.items():
        stop = start + shape.size
        if name in states:
            initial = _copies(states[name], len(seeds)).to(dtype)
        elif shape.initialiser.kind in DECOMPOSED:
            initial = _copies(decompositions.part(shape), len(seeds)).to(dtype)
        else:
            initial = _initial(name, shape, seeds, bases).to(dtype)
        if scales is not None and shape.initialiser.is_random:
            initial = initial * scales.to(dtype).unsqueeze(1)
        flat[:, start:stop] = initial
        decays[start:stop] = float(shape.decays)
        start = stop
    return Trainables(flat, decays, leaves(flat, shapes))


def leaves(
    flat: Float[Tensor, "R N"], shapes: Mapping[str, TensorShape]
) -> dict[str, Float[Tensor, "R ..."]]:
    """Return leaf views [R, *shape] into a flat buffer, one per tensor."""
    tensors: dict[str, Tensor] = {}
    start = 0
    for name, shape in shapes.items():
        stop = start + shape.size
        view = flat[:, start:stop].view(-1, *shape.shape)
        tensors[name] = view.detach().requires_grad_()
        start = stop
    return tensors


def _initial(name: str, shape: TensorShape, seeds: Tensor, bases: Mapping[str, Tensor]) -> Tensor:
    """Return the initial values [R, size] of one tensor.

    Those of a seed do not depend on R.
    """
    start = shape.initialiser
    replicates, device = len(seeds), seeds.device
    if start.kind in ("base", "base_row_norms"):
        source = bases[start.source]
        if start.kind == "base_row_norms":
            source = torch.linalg.vector_norm(source, dim=-1)
        return _copies(source, replicates)
    if start.kind == "base_rows":
        return _base_rows(name, shape, seeds, bases[start.source])
    if start.kind in ("zeros", "ones", "constant"):
        value = {"zeros": 0.0, "ones": 1.0, "constant": start.scale}[start.kind]
        return torch.full((replicates, shape.size), value, device=device)
    counters = (
        constant(stream(f"initial/{name}"), device),
        seeds.unsqueeze(1),
        torch.arange(shape.size, device=device).unsqueeze(0),
    )
    if start.kind == "normal":
        return start.scale * normal(*counters)
    bound = start.scale / shape.shape[-1] ** 0.5
    return bound * (2 * uniform(*counters) - 1)


def _copies(source: Tensor, replicates: int) -> Tensor:
    """Return a source [G, ...] for every replicate, flat."""
    return source.repeat_interleave(replicates // len(source), 0).reshape(replicates, -1)


def _base_rows(name: str, shape: TensorShape, seeds: Tensor, source: Tensor) -> Tensor:
    """Return rows of source [G, V, C] drawn per seed, [R, size].

    They are zero-padded beyond C.
    """
    rows, width = shape.shape
    indices = torch.stack([drawn_rows(name, shape.initialiser.rows, rows, seed) for seed in seeds])
    groups = torch.arange(len(seeds), device=seeds.device) // (len(seeds) // len(source))
    rows_of_seeds = shape.initialiser.scale * source[groups.unsqueeze(1), indices]  # R, P, C
    return functional.pad(rows_of_seeds, (0, width - rows_of_seeds.shape[-1])).flatten(1)


def drawn_rows(name: str, available: int, count: int, seed: Int[Tensor, ""]) -> Int[Tensor, "N"]:
    """Draw `count` row numbers: consecutive random orders of all rows.

    The draws are those of the tensor called `name`.
    """
    device = seed.device
    orders = torch.arange(-(-count // available), device=device).unsqueeze(1)
    places = torch.arange(available, device=device)
    start = constant(stream(f"initial/{name}"), device)
    return random_bits(start, seed, orders, places).argsort(stable=True).flatten()[:count]
