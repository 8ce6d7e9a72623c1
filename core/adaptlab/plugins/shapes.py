"""Shapes of models and trainable tensors, for counting and allocation."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

InitialiserKind = Literal[
    "zeros",
    "ones",
    "constant",
    "normal",
    "kaiming_uniform",
    "base",
    "base_row_norms",
    "base_rows",
    "token_states",
    "singular_rows",
    "singular_columns",
    "triangular_rows",
    "orthonormal_columns",
]
SiteKind = Literal[
    "linear",
    "embedding",
    "attention_input",
    "attention_keys_values",
    "attention_queries",
    "attention_mix",
    "sublayer",
]
TensorRole = Literal["weight", "bias", "norm_scale", "norm_shift"]

HEAD_SITE = "unembed"
"""The linear site of a model's head."""


@dataclass(frozen=True, slots=True)
class Initialiser:
    """The initial values of a tensor.

    - `normal` has the standard deviation `scale`, and `constant` is `scale` everywhere.
    - `kaiming_uniform` draws from U(-b, b) with b = `scale` / sqrt(last dimension).
    - `base` copies the base tensor `source`, and `base_row_norms` has the norm of each of its rows.
    - `base_rows` copies rows drawn from the first `rows` of `source` times `scale`, without
      repetition while they last; rows that are too short are filled up with zeros.
    - `singular_rows` and `singular_columns` are the first right and left singular vectors of the
      base matrix `source`, each times the root of its singular value over `scale`.
    - `orthonormal_columns` and `triangular_rows` are the first of Q and R of its QR decomposition.
    - `token_states` runs embeddings drawn in the same way through the base model, as one sequence,
      and copies their activations at `source`, an attention input or a layer's keys or values.
    - With a `text`, the last two take its tokens in order, from the beginning again if need be.
    """

    kind: InitialiserKind
    scale: float = 1.0
    source: str = ""
    rows: int = 0
    text: str = ""

    @property
    def is_random(self) -> bool:
        """True if the values are random, so that an initial scale applies."""
        return self.kind in ("normal", "kaiming_uniform")


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor of a model or an adaptation, without its replicate axis."""

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

    - A `linear` site maps `inputs` to `outputs` features.
    - At `attention_input`, learned rows of width `inputs` join the layer's attention input.
    - At `attention_keys_values`, learned keys and values of width `outputs` join the layer's own.
    - At `embedding`, virtual tokens join the input.
    - `attention_queries` are the queries of all heads, of one size, with what each has read.
    - `attention_mix` is the output of attention before W_O.
    - A `sublayer` is attention or MLP as a whole, from its normed input to its contribution to the
      residual stream.

    A model has no site at which an addition would have no effect.
    """

    name: str
    kind: SiteKind
    inputs: int
    outputs: int
    layer: int | None = None

    def matches(self, pattern: str) -> bool:
        """Return True if the dotted name contains `pattern`, in whole segments.

        `mlp` matches `blocks.0.mlp.up`, `q` matches `blocks.0.attn.q`, and `blocks.1` all sites of
        layer 1.
        """
        return f".{pattern}." in f".{self.name}."


@dataclass(frozen=True)
class ModelShape:
    """The dimensions, sites and tensors of one configured model of a family.

    `layers` is the number of layers with attention, and `heads` the number of heads of each, or 0
    if layers differ. `tied` maps the name of a tensor that the model does not have to the one used
    instead, such as the head's to the embedding's. Tied tensors are counted once. `first_attention`
    names the tensors that determine the attention pattern of the first layer with attention;
    training others leaves that pattern unchanged. Blocks read a token as its embedding times
    `embedding_scale`. `other_flops_per_token` counts the products with
    matrices that are no sites, such as those of experts.

    `classes` is the number of outputs of a head that a task trains in place of the model's own,
    None if the model's own head answers.
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
    other_flops_per_token: int = 0
    embedding_scale: float = 1.0
    classes: int | None = None

    @property
    def class_head(self) -> dict[str, TensorShape]:
        """The trainable tensors of a head for classes; empty if there is none.

        They start at zero, so an untrained head prefers no class.
        """
        if self.classes is None:
            return {}
        weight = (self.classes, self.sites[HEAD_SITE].inputs)
        return {
            f"{HEAD_SITE}.weight": TensorShape(weight, Initialiser("zeros")),
            f"{HEAD_SITE}.bias": TensorShape(
                (self.classes,), Initialiser("zeros"), decays=False, role="bias"
            ),
        }

    def with_classes(self, classes: int, *, without: tuple[str, ...] = ()) -> Self:
        """Return the model with a head for classes in place of its own.

        The sites and tensors `without` come only before the model's own head.
        """
        own = self.sites.get(HEAD_SITE)
        width = self.width if own is None else own.inputs
        head = Site(HEAD_SITE, "linear", width, classes)
        removed = (HEAD_SITE, *without)
        kept = {name: t for name, t in self.tensors.items() if name.split(".")[0] not in removed}
        sites = {name: site for name, site in self.sites.items() if name not in removed}
        return replace(
            self, sites={**sites, HEAD_SITE: head}, tensors=kept, tied={}, classes=classes
        )

    @property
    def parameters(self) -> int:
        """The number of parameters of the base model."""
        return sum(tensor.size for tensor in self.tensors.values())

    def rows_of(self, tensor: str) -> int:
        """Return the length of a tensor's first axis.

        The tensor may be a tied one.
        """
        return self.tensors[self.tied.get(tensor, tensor)].shape[0]

    def owns(self, tensor: str) -> bool:
        """Return True if a trainable tensor belongs to this model.

        Its dotted name then contains the name of a site or tensor.
        """
        parts = tensor.split(".")
        within = (
            ".".join(parts[start:stop])
            for start in range(len(parts))
            for stop in range(start + 1, len(parts) + 1)
        )
        return any(name in self.sites or name in self.tensors for name in within)

    @cached_property
    def linear_sites(self) -> tuple[Site, ...]:
        """Linear sites in forward order; the output head is the last."""
        return tuple(site for site in self.sites.values() if site.kind == "linear")

    def layer_sites(self, kind: SiteKind) -> tuple[Site, ...]:
        """Return the sites of one kind, in layer order."""
        return tuple(site for site in self.sites.values() if site.kind == kind)

    def copies(self, *roles: TensorRole) -> dict[str, TensorShape]:
        """Return trainable copies of the base tensors with one of the roles."""
        return {
            name: TensorShape(
                tensor.shape, Initialiser("base", source=name), tensor.decays, tensor.role
            )
            for name, tensor in self.tensors.items()
            if tensor.role in roles
        }

    def matching_sites(self, pattern: str) -> tuple[Site, ...]:
        """Return the linear sites that match a pattern; see `Site.matches`."""
        return tuple(site for site in self.linear_sites if site.matches(pattern))

    def forward_flops_per_token(self) -> int:
        """Return the operations of all matrix products per token.

        The products of queries with keys and of weights with values are not included.
        """
        of_sites = sum(2 * site.inputs * site.outputs for site in self.linear_sites)
        return of_sites + self.other_flops_per_token
