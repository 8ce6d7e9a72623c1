"""Shapes of models and of trainable tensors: all that counting and allocating needs to know."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

InitialiserKind = Literal[
    "zeros", "ones", "constant", "normal", "kaiming_uniform", "base", "base_row_norms", "base_rows"
]
SiteKind = Literal[
    "linear", "embedding", "attention_input", "attention_keys_values", "attention_mix", "sublayer"
]
TensorRole = Literal["weight", "bias", "norm_scale", "norm_shift"]


@dataclass(frozen=True, slots=True)
class Initialiser:
    """How a tensor starts, such as `normal` with standard deviation `scale`.

    `constant` is `scale` everywhere, `base` a copy of the base tensor `source`, `base_row_norms`
    the length of each of its rows;
    `base_rows` copies rows drawn from the first `rows` of `source`, none of them again before all
    are used, and zeros where those rows are shorter;
    `kaiming_uniform` draws from U(-b, b) with b = `scale` / sqrt(last dimension).
    """

    kind: InitialiserKind
    scale: float = 1.0
    source: str = ""
    rows: int = 0

    @property
    def is_random(self) -> bool:
        """Whether the values are drawn, so that a trial's initial scale applies to them."""
        return self.kind in ("normal", "kaiming_uniform")


@dataclass(frozen=True, slots=True)
class TensorShape:
    """One tensor of a base model or of an adaptation, without its replicate axis."""

    shape: tuple[int, ...]
    initialiser: Initialiser
    decays: bool = True
    role: TensorRole = "weight"

    @property
    def size(self) -> int:
        """The number of scalars."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Site:
    """A named place in the forward pass to which a method can attach.

    A `linear` site maps `inputs` to `outputs` features. At `attention_input` learned rows of
    width `inputs` join the layer's attention input; at `attention_keys_values` learned keys and
    values of width `outputs` join the layer's own; at `embedding` virtual tokens join the input.
    A model has no site at which what joins could change nothing.
    `attention_mix` is what attention gathered before W_O; a `sublayer` is attention or MLP as a
    whole, from its normed input to what it adds to the residual stream.
    """

    name: str
    kind: SiteKind
    inputs: int
    outputs: int
    layer: int | None = None


@dataclass(frozen=True)
class ModelShape:
    """The dimensions, sites and tensors of one configured model of a family.

    `layers` counts the layers in which positions may look at each other, and `heads` the heads
    of each, or 0 where layers differ. `tied` maps the name of a tensor that the model does not
    have to the one used in its place, such as the head's to the embedding's; tied tensors are
    counted once. `first_attention` names the tensors that decide how the first layer with attention
    divides it over the content; training any other leaves that pattern as it is.
    """

    family: str
    width: int
    layers: int
    heads: int
    key_value_width: int
    context: int
    vocabulary: int
    sites: dict[str, Site] = field(default_factory=dict[str, Site])
    tensors: dict[str, TensorShape] = field(default_factory=dict[str, TensorShape])
    tied: dict[str, str] = field(default_factory=dict[str, str])
    first_attention: frozenset[str] = frozenset()

    @property
    def parameters(self) -> int:
        """The number of scalars of the whole base model."""
        return sum(tensor.size for tensor in self.tensors.values())

    def owns(self, tensor: str) -> bool:
        """Whether the dotted name of a trainable tensor contains a site or tensor of this model."""
        parts = tensor.split(".")
        within = (
            ".".join(parts[start:stop])
            for start in range(len(parts))
            for stop in range(start + 1, len(parts) + 1)
        )
        return any(name in self.sites or name in self.tensors for name in within)

    @cached_property
    def linear_sites(self) -> tuple[Site, ...]:
        """Sites that multiply by a matrix, in forward order, the output head last."""
        return tuple(site for site in self.sites.values() if site.kind == "linear")

    def layer_sites(self, kind: SiteKind) -> tuple[Site, ...]:
        """Sites of one kind, in layer order."""
        return tuple(site for site in self.sites.values() if site.kind == kind)

    def copies(self, *roles: TensorRole) -> dict[str, TensorShape]:
        """Trainable copies of the base tensors that play one of the roles."""
        return {
            name: TensorShape(
                tensor.shape, Initialiser("base", source=name), tensor.decays, tensor.role
            )
            for name, tensor in self.tensors.items()
            if tensor.role in roles
        }

    def matching_sites(self, pattern: str) -> tuple[Site, ...]:
        """Linear sites whose dotted name contains the dotted `pattern` as whole segments.

        `mlp` finds `blocks.0.mlp.up`, `q` finds `blocks.0.attn.q`, `blocks.1` all of layer 1.
        """
        wanted = f".{pattern}."
        return tuple(site for site in self.linear_sites if wanted in f".{site.name}.")

    def forward_flops_per_token(self) -> int:
        """Floating-point operations of the matrix products for one token, without attention."""
        return sum(2 * site.inputs * site.outputs for site in self.linear_sites)
