"""Trainable part of a model, as counts and places in the forward pass."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from adaptlab.plugins.family import Family
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape, Site, TensorShape
from adaptlab.specs.model_shapes import family_shape

VALUES_PER_HOOKED_OUTPUT, KEPT_PER_HOOKED_OUTPUT = 12, 2
"""Scalars that a changed site computes, and keeps, for each of its outputs."""


@dataclass(frozen=True, slots=True)
class Trainable:
    """The part of a model that training changes.

    Attributes:
        scalars: the number of trained scalars.
        tensors: the number of trained tensors that are not copies of the model's.
        first: the index, among the sites, of the first whose output depends on training.
        matrices: the names of the model's own weights that are trained.
        hooked: the scalars per token that are computed at the linear sites that the method changes.
        extra_flops: the operations per token that the method adds.
        learned: the number of learned positions.
    """

    scalars: int
    tensors: int
    first: int
    matrices: frozenset[str]
    hooked: int = 0
    extra_flops: int = 0
    learned: int = 0

    @property
    def kept_hooked(self) -> int:
        """The scalars per token at these sites kept for the backward pass."""
        return self.hooked * KEPT_PER_HOOKED_OUTPUT // VALUES_PER_HOOKED_OUTPUT


def trainable_by_itself(trained: Mapping[str, TensorShape], shape: ModelShape) -> Trainable:
    """Return the trainable part without a method: the model or nothing."""
    return Trainable(
        scalars=sum(tensor.size for tensor in trained.values()),
        tensors=len(trained),
        first=_first(trained, shape),
        matrices=frozenset(trained),
    )


@lru_cache(maxsize=1024)  # shared by jobs of a study that differ only in task or training
def trainable_with(family: Family, classes: int | None, method: Method) -> Trainable:
    """Return the trainable part of a model with a method."""
    shape = family_shape(family, classes)
    trained = method.trained(shape)
    class_head = shape.class_head.keys() & trained.keys()
    copies = {name for name, tensor in trained.items() if tensor.initialiser.kind == "base"}
    return Trainable(
        scalars=sum(tensor.size for tensor in trained.values()),
        tensors=len(trained) - len(copies),
        first=_first(method.kept().trained(shape), shape),
        matrices=frozenset(trained[name].initialiser.source for name in copies) | class_head,
        hooked=_hooked(trained.keys() - copies - class_head, shape),
        extra_flops=method.extra_flops_per_token(shape),
        learned=method.extra_context_tokens(),
    )


def _first(attached: Mapping[str, TensorShape], shape: ModelShape) -> int:
    return min((_place(shape, *named) for named in attached.items()), default=len(shape.sites))


def _hooked(own: Set[str], shape: ModelShape) -> int:
    touched = {
        site.name
        for name in own
        for site in _sites_in(shape, name)
        if site.kind in ("linear", "sublayer")
    }
    return sum(VALUES_PER_HOOKED_OUTPUT * shape.sites[name].outputs for name in touched)


def _place(shape: ModelShape, name: str, tensor: TensorShape) -> int:
    """Return the index of the first site whose output a tensor can change."""
    sites = list(shape.sites.values())
    if tensor.role in ("norm_scale", "norm_shift"):
        sublayers = (i for i, s in enumerate(sites) if f".{_block(s)}" in f".{name}")
        return next(sublayers, len(sites)) - 1
    named_sites = _sites_in(shape, name)
    if not named_sites:
        return -1  # the embedding of tokens or positions
    site = named_sites[-1]
    if site.kind in ("attention_input", "attention_keys_values"):
        # Learned positions do not change the queries, keys and values of the content.
        mixes = (
            i for i, s in enumerate(sites) if s.kind == "attention_mix" and s.layer == site.layer
        )
        return next(mixes, sites.index(site)) - 1
    return sites.index(site) - (site.kind == "embedding")


def _block(site: Site) -> str:
    return f"{site.name.rsplit('.', 1)[0]}."


def _sites_in(shape: ModelShape, name: str) -> list[Site]:
    """Return the sites whose name is part of a tensor's, shortest first."""
    parts = name.split(".")
    spans = (".".join(parts[start:stop]) for stop in range(len(parts) + 1) for start in range(stop))
    return sorted(
        (shape.sites[span] for span in spans if span in shape.sites), key=lambda s: len(s.name)
    )
