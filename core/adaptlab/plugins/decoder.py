"""Sites and tensors that decoder families have in common."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from adaptlab.errors import Problem
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape

BLOCK_PARTS = ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.gate", "mlp.down")
Attention = Literal["causal", "bidirectional", "none"]
"""The positions that a position attends to: up to its own, all of them, or only itself."""

SPREAD = 0.02  # standard deviation of initial weights (Radford et al. 2019)


@dataclass(frozen=True, kw_only=True)
class DecoderLayout:
    """The dimensions and optional tensors of a pre-norm decoder.

    `query_width` is heads times head size, and `key_value_width` likewise for the heads of keys and
    values. `biased` contains the parts of a block that add a bias. A tied head multiplies by the
    embedding and has no tensor of its own. Without attention there is no attention sublayer. With
    `bidirectional` attention the embedding has an additional row, the mask. `pads` is the number
    of visible pad positions before the content.
    """

    family: str
    layers: int
    heads: int
    width: int
    query_width: int
    key_value_width: int
    hidden: int
    context: int
    vocabulary: int
    biased: frozenset[str] = frozenset(BLOCK_PARTS)
    attention_norm: bool = True
    norm_shifts: bool = True
    learned_positions: bool = True
    gated: bool = False
    tied_head: bool = False
    attention: Attention = "causal"
    pads: int = 0

    def shape(self) -> ModelShape:
        """Return the sites and tensors in forward order."""
        sites: dict[str, Site] = {}
        if self.attention != "none":  # otherwise nothing attends to virtual tokens
            sites["embed"] = Site("embed", "embedding", self.vocabulary, self.width)
        tokens = self.vocabulary + (self.attention == "bidirectional")
        tensors = {"embed.weight": _matrix(tokens, self.width, decays=False)}
        if self.learned_positions:
            rows = self.pads + self.context
            tensors["positions.weight"] = _matrix(rows, self.width, decays=False)
        for layer in range(self.layers):
            sites |= {site.name: site for site in self._block_sites(layer)}
            tensors |= self._block_tensors(layer)
        sites["unembed"] = Site("unembed", "linear", self.width, self.vocabulary)
        tensors |= self._norm("final_norm")
        if not self.tied_head:
            tensors["unembed.weight"] = _matrix(self.vocabulary, self.width)
        return ModelShape(
            family=self.family,
            width=self.width,
            layers=0 if self.attention == "none" else self.layers,
            heads=self.heads,
            key_value_width=self.key_value_width,
            context=self.context,
            vocabulary=self.vocabulary,
            sites=sites,
            tensors=tensors,
            tied={"unembed.weight": "embed.weight"} if self.tied_head else {},
            first_attention=self._first_attention(tensors),
        )

    def _first_attention(self, tensors: Iterable[str]) -> frozenset[str]:
        """Return the tensors that determine attention in the first block.

        These are the embeddings and the block's norm, queries and keys.
        """
        if self.attention == "none":
            return frozenset()
        parts = ("embed", "positions", *(f"blocks.0.attn.{part}" for part in ("norm", "q", "k")))
        return frozenset(name for name in tensors if name.rpartition(".")[0] in parts)

    def _parts(self) -> dict[str, tuple[int, int]]:
        """Return inputs and outputs of the linear parts of a block."""
        width, hidden = self.width, self.hidden
        parts = {
            "attn.q": (width, self.query_width),
            "attn.k": (width, self.key_value_width),
            "attn.v": (width, self.key_value_width),
            "attn.o": (self.query_width, width),
            "mlp.up": (width, hidden),
            "mlp.gate": (width, hidden),
            "mlp.down": (hidden, width),
        }
        absent = () if self.gated else ("mlp.gate",)
        if self.attention == "none":
            absent = (*absent, "attn.q", "attn.k", "attn.v", "attn.o")
        return {name: part for name, part in parts.items() if name not in absent}

    def _block_sites(self, layer: int) -> Iterator[Site]:
        block, width = f"blocks.{layer}", self.width
        keys, mixed = self.key_value_width, self.query_width
        linear = {n: Site(f"{block}.{n}", "linear", *p, layer) for n, p in self._parts().items()}
        if self.attention != "none":
            yield Site(f"{block}.attn.input", "attention_input", width, width, layer)
            yield Site(f"{block}.attn.kv", "attention_keys_values", width, keys, layer)
            yield from (site for name, site in linear.items() if name.startswith("attn."))
            yield Site(f"{block}.attn.queries", "attention_queries", mixed, mixed, layer)
            yield Site(f"{block}.attn.mix", "attention_mix", mixed, mixed, layer)
            yield Site(f"{block}.attn", "sublayer", width, width, layer)
        yield from (site for name, site in linear.items() if name.startswith("mlp."))
        yield Site(f"{block}.mlp", "sublayer", width, width, layer)

    def _block_tensors(self, layer: int) -> dict[str, TensorShape]:
        block = f"blocks.{layer}"
        residual = SPREAD / (2 * self.layers) ** 0.5  # every block adds twice to the stream
        normed = self.attention_norm and self.attention != "none"
        tensors = self._norm(f"{block}.attn.norm") if normed else {}
        for part, (inputs, outputs) in self._parts().items():
            if part == "mlp.up":
                tensors |= self._norm(f"{block}.mlp.norm")
            spread = residual if part in ("attn.o", "mlp.down") else SPREAD
            tensors[f"{block}.{part}.weight"] = _matrix(outputs, inputs, spread)
            if part in self.biased:
                tensors[f"{block}.{part}.bias"] = TensorShape(
                    (outputs,), Initialiser("zeros"), decays=False, role="bias"
                )
        return tensors

    def _norm(self, name: str) -> dict[str, TensorShape]:
        shape = (self.width,)
        scale = TensorShape(shape, Initialiser("ones"), decays=False, role="norm_scale")
        shift = TensorShape(shape, Initialiser("zeros"), decays=False, role="norm_shift")
        return {f"{name}.weight": scale} | ({f"{name}.bias": shift} if self.norm_shifts else {})


def _matrix(rows: int, columns: int, spread: float = SPREAD, *, decays: bool = True) -> TensorShape:
    return TensorShape((rows, columns), Initialiser("normal", spread), decays)


def heads_problems(heads: int, width: int) -> tuple[Problem, ...]:
    """Return the problem of a number of heads that does not divide the width."""
    return divisor_problems("/family/heads", "heads", heads, "the width", width)


def divisor_problems(
    pointer: str, noun: str, count: int, whole: str, size: int
) -> tuple[Problem, ...]:
    """Return the problem of a count that does not divide a size."""
    if size % count == 0:
        return ()
    divisors = tuple(d for d in range(1, size + 1) if size % d == 0)
    return (
        Problem(
            pointer=pointer,
            code="not_a_divisor",
            detail=f"{count} {noun} do not divide {whole} {size}.",
            allowed=divisors,
            nearest=tuple(sorted(divisors, key=lambda d: abs(d - count))[:2]),
        ),
    )
