"""The tensors of published models: the library's names for them, ours, and their shapes.

The names of the library's modules decide: `self_attn.q_proj` is the site `attn.q` whatever the
architecture. A fused matrix whose parts lie side by side has a site for each part; one whose parts
are interleaved is a single site.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import AliasChoices, Field, PositiveInt

from adaptlab.errors import BadModelFolder
from adaptlab.plugins.shapes import TensorRole
from adaptlab.weights.huggingface import CONFIG, PublishedConfig, PublishedTensor

LINEAR: Mapping[str, tuple[str, ...]] = {
    "self_attn.q_proj": ("attn.q",),
    "self_attn.k_proj": ("attn.k",),
    "self_attn.v_proj": ("attn.v",),
    "self_attn.qkv_proj": ("attn.q", "attn.k", "attn.v"),
    "attention.query_key_value": ("attn.qkv",),  # interleaved by head
    "self_attn.o_proj": ("attn.o",),
    "self_attn.out_proj": ("attn.o",),
    "attention.dense": ("attn.o",),
    "mlp.up_proj": ("mlp.up",),
    "mlp.gate_proj": ("mlp.gate",),
    "mlp.gate_up_proj": ("mlp.gate", "mlp.up"),
    "mlp.down_proj": ("mlp.down",),
    "mlp.dense_h_to_4h": ("mlp.up",),
    "mlp.dense_4h_to_h": ("mlp.down",),
    "fc1": ("mlp.up",),
    "fc2": ("mlp.down",),
    "attn.c_attn": ("attn.q", "attn.k", "attn.v"),
    "attn.c_proj": ("attn.o",),
    "mlp.c_fc": ("mlp.up",),
    "mlp.c_proj": ("mlp.down",),
}
"""The sites of a block's linear modules, by module name."""
ROUTER, EXPERTS = "mlp.router", "mlp.experts"
ROUTERS = ("block_sparse_moe.gate", "mlp.gate")
EXPERT_PARTS: Mapping[str, str] = {"w1": "gate", "w2": "down", "w3": "up"}
"""The matrices of an expert by their names in files, in which each is a tensor of its own."""
STACKED_PARTS: Mapping[str, tuple[str, ...]] = {
    "gate_up_proj": ("gate", "up"),
    "down_proj": ("down",),
}
"""The matrices of all experts in a tensor of the library's module [experts, outputs, inputs]."""
TRANSPOSED = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
"""Modules that store their matrix as [inputs, outputs]."""
OUTER: Mapping[str, str] = {
    "embed_tokens": "embed",
    "embed_in": "embed",
    "embed_positions": "positions",
    "wte": "embed",
    "wpe": "positions",
    "lm_head": "unembed",
    "embed_out": "unembed",
}
"""The names of modules outside the blocks, by the last part of the library's name."""
EMBEDDING, POSITIONS, HEAD = "embed.weight", "positions.weight", "unembed.weight"
BEFORE_ATTENTION = ("input_layernorm", "self_attn_layer_norm", "ln_1")
ATTENTION = ("attn.q", "attn.k", "attn.v")
ATTENTION_PARTS = (*ATTENTION, "attn.qkv", "attn.o")
MLP_PARTS = ("mlp.up", "mlp.gate", "mlp.down")
BLOCK = re.compile(r"(?:^|\.)(?:layers|h)\.(\d+)\.")
"""The number of a block in the name of a module or tensor."""
_EXPERT = re.compile(r"block_sparse_moe\.experts\.(\d+)\.(w[123])")


class Dimensions(PublishedConfig):
    """The members of `config.json` that decide sites and shapes."""

    layers: int = Field(ge=1, le=256, validation_alias=AliasChoices("num_hidden_layers", "n_layer"))
    heads: int = Field(ge=1, le=256, validation_alias=AliasChoices("num_attention_heads", "n_head"))
    key_value_heads: PositiveInt | None = Field(default=None, alias="num_key_value_heads")
    head_dim: PositiveInt | None = None
    width: PositiveInt = Field(validation_alias=AliasChoices("hidden_size", "n_embd"))
    context: int = Field(
        ge=1, le=10**8, validation_alias=AliasChoices("max_position_embeddings", "n_positions")
    )
    vocabulary: PositiveInt = Field(alias="vocab_size")
    experts: int | None = Field(default=None, ge=1, le=32, alias="num_local_experts")
    experts_per_token: PositiveInt | None = Field(default=None, alias="num_experts_per_tok")
    tie_word_embeddings: bool | None = None

    @property
    def query_width(self) -> int:
        """The features of all heads of queries."""
        return self.heads * (self.head_dim or self.width // self.heads)

    @property
    def key_value_width(self) -> int:
        """The features of all heads of keys, and as many of values."""
        return self.query_width // self.heads * (self.key_value_heads or self.heads)

    def outputs(self, sites: tuple[str, ...], total: int) -> tuple[int, ...]:
        """Return the features of each site of a module that has `total`."""
        if len(sites) == 1:
            return (total,)
        if len(sites) == 2:
            return (total // 2, total - total // 2)
        return (self.query_width, self.key_value_width, self.key_value_width)

    def matrices(self) -> dict[str, tuple[int | None, int | None]]:
        """Return the shapes of our matrices by name; None where every size will do."""
        sizes = {"up": (None, self.width), "gate": (None, self.width), "down": (self.width, None)}
        tokens, queries, keys = self.vocabulary, self.query_width, self.key_value_width
        return {
            EMBEDDING: (tokens, self.width),
            HEAD: (tokens, self.width),
            POSITIONS: (None, self.width),
            "blocks.*.attn.q.weight": (queries, self.width),
            "blocks.*.attn.k.weight": (keys, self.width),
            "blocks.*.attn.v.weight": (keys, self.width),
            "blocks.*.attn.qkv.weight": (queries + 2 * keys, self.width),
            "blocks.*.attn.o.weight": (self.width, queries),
            f"blocks.*.{ROUTER}.weight": (self.experts, self.width),
            **{f"blocks.*.mlp.{part}.weight": size for part, size in sizes.items()},
            **{
                f"blocks.*.{EXPERTS}.{expert}.{part}.weight": size
                for expert in range(self.experts or 0)
                for part, size in sizes.items()
            },
        }


@dataclass(frozen=True)
class Place:
    """A tensor of ours, and where it is stored; both names have `*` for the block's number.

    It begins at row `start` of the stored tensor, which has `rows` in all.
    """

    name: str
    stored: str
    shape: tuple[int, ...]
    role: TensorRole
    transposed: bool = False
    start: int = 0
    rows: int | None = None

    def published(self, layer: int) -> tuple[str, PublishedTensor]:
        """Return the name and place in one block."""
        stored = self.stored.replace("*", str(layer))
        place = PublishedTensor(stored, self.transposed, self.start, self.rows)
        return self.name.replace("*", str(layer)), place


def collapsed(stored: Mapping[str, tuple[int, ...]], layers: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes by name, with `*` for the number of a block.

    Raises:
        BadModelFolder: blocks differ, or their number is not that of the configuration.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    blocks: dict[str, set[int]] = {}
    for name, shape in stored.items():
        found = BLOCK.search(name)
        pattern = name if found is None else f"{name[: found.start(1)]}*{name[found.end(1) :]}"
        if shapes.setdefault(pattern, shape) != shape:
            raise BadModelFolder(
                f"{name} has the shape {shape}, and the same tensor of another layer has "
                f"{shapes[pattern]}. Models whose layers differ are not supported."
            )
        if found is not None:
            blocks.setdefault(pattern, set()).add(int(found[1]))
    for pattern, present in blocks.items():
        if present != set(range(layers)):
            raise BadModelFolder(
                f"config.json describes {layers} layers, and the files have {pattern} for "
                f"{len(present)} of them."
            )
    return shapes


def placed(stored: str, shape: tuple[int, ...], dimensions: Dimensions) -> Iterable[Place]:
    """Return our tensors in one stored tensor.

    Raises:
        BadModelFolder: nothing is known about a tensor of this name.
    """
    path, _, kind = stored.rpartition(".")
    _, star, module = path.partition("*.")
    leaf = path.rpartition(".")[2]
    if star and module in LINEAR and kind in ("weight", "bias"):
        return _linear(stored, module, shape, dimensions)
    if star and module in ROUTERS and kind == "weight":
        return (Place(f"blocks.*.{ROUTER}.weight", stored, shape, "weight"),)
    if (of_expert := _EXPERT.fullmatch(module)) and kind == "weight":
        part = EXPERT_PARTS[of_expert[2]]
        name = f"blocks.*.{EXPERTS}.{int(of_expert[1])}.{part}.weight"
        return (Place(name, stored, shape, "weight"),)
    if module == EXPERTS and kind in STACKED_PARTS and len(shape) == 3:
        return _stacked(stored, STACKED_PARTS[kind], shape)
    if not star and leaf in OUTER and kind == "weight" and len(shape) == 2:
        return (Place(f"{OUTER[leaf]}.weight", stored, shape, "weight"),)
    if len(shape) == 1 and kind in ("weight", "bias") and ("norm" in leaf or "ln_" in leaf):
        role = "norm_scale" if kind == "weight" else "norm_shift"
        return (Place(_norm(module if star else "", kind), stored, shape, role),)
    raise BadModelFolder(
        f"{stored.replace('*', '0')} is a tensor of a kind that adaptlab does not know, so the "
        "model is not supported."
    )


def _stacked(stored: str, parts: tuple[str, ...], shape: tuple[int, ...]) -> Iterator[Place]:
    """Yield the matrices of all experts in one tensor, whose first two axes count as one."""
    experts, outputs, inputs = shape
    size = outputs // len(parts)
    for expert in range(experts):
        for index, part in enumerate(parts):
            name, start = f"blocks.*.{EXPERTS}.{expert}.{part}.weight", expert * outputs
            yield Place(
                name, stored, (size, inputs), "weight", False, start + index * size,
                experts * outputs,
            )  # fmt: skip


def check_size(place: Place, dimensions: Dimensions) -> None:
    """Raise `BadModelFolder` if a matrix or bias is not of the configuration's size."""
    sizes = dimensions.matrices().get(place.name)
    if sizes is None and place.role != "bias":
        return
    wanted = (None,) if sizes is None else sizes
    is_other = len(wanted) != len(place.shape)
    if is_other or any(n not in (None, m) for n, m in zip(wanted, place.shape, strict=True)):
        there, described = (" × ".join(str(n or "any") for n in s) for s in (place.shape, wanted))
        raise BadModelFolder(
            f"{place.stored.replace('*', '0')} has {there} numbers where {CONFIG} describes "
            f"{described}."
        )


def _norm(module: str, kind: str) -> str:
    """Return our name of a norm: of a module in a block, or of the last one."""
    if not module:
        return f"final_norm.{kind}"
    of_attention = "." in module or module in BEFORE_ATTENTION
    leaf = module.rpartition(".")[2]
    return f"blocks.*.{'attn' if of_attention else 'mlp'}.{leaf}.{kind}"


def _linear(
    stored: str, module: str, shape: tuple[int, ...], dimensions: Dimensions
) -> Iterator[Place]:
    """Yield the parts of a linear module, side by side along its outputs."""
    kind = stored.rpartition(".")[2]
    is_transposed = module in TRANSPOSED and len(shape) == 2
    total, *inputs = shape[::-1] if is_transposed else shape
    role = "weight" if kind == "weight" else "bias"
    sites, start = LINEAR[module], 0
    sizes = dimensions.outputs(sites, total)
    if sum(sizes) != total:
        raise BadModelFolder(
            f"{stored.replace('*', '0')} has {total} outputs. {CONFIG} describes {sum(sizes)}."
        )
    for site, outputs in zip(sites, sizes, strict=True):
        name = f"blocks.*.{site}.{kind}"
        yield Place(name, stored, (outputs, *inputs), role, is_transposed, start, total)
        start += outputs
