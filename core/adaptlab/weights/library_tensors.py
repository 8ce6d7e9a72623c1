"""The tensors of published models: their names and their shapes.

A tensor has a name in the library and one of ours. The names of the library's modules decide:
`self_attn.q_proj` is the site `attn.q` whatever the architecture. A fused matrix whose parts lie
side by side has a site for each part; one whose parts are interleaved is a single site.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import AliasChoices, Field, PositiveInt, model_validator

from adaptlab.errors import BadModelFolder
from adaptlab.plugins.images import ImageSize
from adaptlab.plugins.shapes import TensorRole
from adaptlab.records.pictures import LEVELS
from adaptlab.weights.huggingface import CONFIG, PublishedConfig, PublishedTensor

LINEAR: Mapping[str, tuple[str, ...]] = {
    "self_attn.q_proj": ("attn.q",),
    "attention.self.query": ("attn.q",),
    "attention.self.key": ("attn.k",),
    "attention.self.value": ("attn.v",),
    "attention.q_lin": ("attn.q",),
    "attention.k_lin": ("attn.k",),
    "attention.v_lin": ("attn.v",),
    "attn.Wqkv": ("attn.q", "attn.k", "attn.v"),
    "self_attn.k_proj": ("attn.k",),
    "self_attn.v_proj": ("attn.v",),
    "self_attn.qkv_proj": ("attn.q", "attn.k", "attn.v"),
    "attention.query_key_value": ("attn.qkv",),  # interleaved by head
    "self_attn.o_proj": ("attn.o",),
    "self_attn.out_proj": ("attn.o",),
    "attention.dense": ("attn.o",),
    "attention.output.dense": ("attn.o",),
    "attention.out_lin": ("attn.o",),
    "attn.Wo": ("attn.o",),
    "mlp.up_proj": ("mlp.up",),
    "mlp.gate_proj": ("mlp.gate",),
    "mlp.gate_up_proj": ("mlp.gate", "mlp.up"),
    "mlp.down_proj": ("mlp.down",),
    "mlp.dense_h_to_4h": ("mlp.up",),
    "mlp.dense_4h_to_h": ("mlp.down",),
    "intermediate.dense": ("mlp.up",),
    "output.dense": ("mlp.down",),
    "ffn.lin1": ("mlp.up",),
    "ffn.lin2": ("mlp.down",),
    "mlp.Wi": ("mlp.gate", "mlp.up"),
    "mlp.Wo": ("mlp.down",),
    "fc1": ("mlp.up",),
    "fc2": ("mlp.down",),
    "attention.attention.query": ("attn.q",),
    "attention.attention.key": ("attn.k",),
    "attention.attention.value": ("attn.v",),
    "attention.q_proj": ("attn.q",),
    "attention.k_proj": ("attn.k",),
    "attention.v_proj": ("attn.v",),
    "attention.o_proj": ("attn.o",),
    "mlp.fc1": ("mlp.up",),
    "mlp.fc2": ("mlp.down",),
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
    "word_embeddings": "embed",
    "tok_embeddings": "embed",
    "position_embeddings": "positions",
    "token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "embed_norm",
    "embeddings.norm": "embed_norm",
    "cls.predictions.transform.dense": "transform",
    "lm_head.dense": "transform",
    "vocab_transform": "transform",
    "head.dense": "transform",
    "cls.predictions.transform.LayerNorm": "transform_norm",
    "lm_head.layer_norm": "transform_norm",
    "vocab_layer_norm": "transform_norm",
    "head.norm": "transform_norm",
    "cls.predictions": "unembed",
    "cls.predictions.decoder": "unembed",
    "lm_head.decoder": "unembed",
    "vocab_projector": "unembed",
    "decoder": "unembed",
    "patch_embeddings.projection": "patches",
}
"""The names of modules outside the blocks, by the last parts of the library's name."""
EMBEDDING, POSITIONS, HEAD = "embed.weight", "positions.weight", "unembed.weight"
PATCHES, CLASS_TOKEN = "patches.weight", "class_token.weight"
"""What makes the input of a model of images: a projection of patches, and a learned first row."""
BARE: Mapping[str, str] = {
    "embeddings.cls_token": CLASS_TOKEN,
    "embeddings.position_embeddings": POSITIONS,
}
"""Our names of tensors that are parameters of a module with others inside."""
TRANSFORM, TRANSFORM_NORM = "transform", "transform_norm"
"""The linear site between the last block of an encoder and its head."""
INPUTS = ("embed", "patches", "class_token", "positions", "token_types", "embed_norm")
"""What makes the input of the first block."""
NORMS: Mapping[str, str] = {
    "attention.output.LayerNorm": "mlp.attention_norm",
    "output.LayerNorm": "mlp.output_norm",
}
"""Our names of norms in a block whose own would be the same."""
OLDER_KINDS: Mapping[str, str] = {"gamma": "weight", "beta": "bias"}
BEFORE_ATTENTION = (
    "input_layernorm", "self_attn_layer_norm", "ln_1", "attn_norm", "layernorm_before",
)  # fmt: skip
ABSENT_AT_FIRST = ("attn_norm",)
"""Modules that the first block does not have."""
ATTENTION = ("attn.q", "attn.k", "attn.v")
ATTENTION_PARTS = (*ATTENTION, "attn.qkv", "attn.o")
MLP_PARTS = ("mlp.up", "mlp.gate", "mlp.down")
BLOCK = re.compile(r"(?:^|\.)(?:layers?|h)\.(\d+)\.")
"""The number of a block in the name of a module or tensor."""
_EXPERT = re.compile(r"block_sparse_moe\.experts\.(\d+)\.(w[123])")


class Dimensions(PublishedConfig):
    """The members of `config.json` that decide sites and shapes."""

    layers: int = Field(
        ge=1, le=256, validation_alias=AliasChoices("num_hidden_layers", "n_layer", "n_layers")
    )
    heads: int = Field(
        ge=1, le=256, validation_alias=AliasChoices("num_attention_heads", "n_head", "n_heads")
    )
    key_value_heads: PositiveInt | None = Field(default=None, alias="num_key_value_heads")
    head_dim: PositiveInt | None = None
    width: PositiveInt = Field(validation_alias=AliasChoices("hidden_size", "n_embd", "dim"))
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

    @property
    def positions(self) -> int:
        """The positions of the longest content."""
        return self.context

    def outputs(self, sites: tuple[str, ...], total: int) -> tuple[int, ...]:
        """Return the features of each site of a module that has `total`."""
        if len(sites) == 1:
            return (total,)
        if len(sites) == 2:
            return (total // 2, total - total // 2)
        return (self.query_width, self.key_value_width, self.key_value_width)

    def sizes(self) -> dict[str, tuple[int | None, ...]]:
        """Return the shapes of our tensors by name, without biases and norms.

        A size is None where every size will do.
        """
        return dict(self.matrices())

    def matrices(self) -> dict[str, tuple[int | None, int | None]]:
        """Return the shapes of our matrices by name.

        A size is None where every size will do.
        """
        sizes = {"up": (None, self.width), "gate": (None, self.width), "down": (self.width, None)}
        tokens, queries, keys = self.vocabulary, self.query_width, self.key_value_width
        return {
            EMBEDDING: (tokens, self.width),
            HEAD: (tokens, self.width),
            POSITIONS: (None, self.width),
            "token_types.weight": (None, self.width),
            f"{TRANSFORM}.weight": (self.width, self.width),
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


class EncoderDimensions(Dimensions):
    """The members of `config.json` that decide sites and shapes of encoders.

    Encoders see all positions.
    """

    pad_token_id: int = 1
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    position_embedding_type: Literal["absolute"] = "absolute"
    chunk_size_feed_forward: Literal[0] = 0


class FillingDimensions(EncoderDimensions):
    """The members for encoders that predict masked tokens in place."""

    mask_token_id: int | None = Field(default=None, ge=0)
    tie_word_embeddings: Literal[True] | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen

    @model_validator(mode="after")
    def _has_a_mask(self) -> Self:
        if self.mask_token_id is None:
            raise ValueError(
                f"{CONFIG} has no mask_token_id. Add the id of the mask token, which "
                "tokenizer.json lists: 103 in most published vocabularies of BERT, 50264 in that "
                "of RoBERTa."
            )
        if self.mask_token_id >= self.vocabulary:
            raise ValueError(
                f"mask_token_id is {self.mask_token_id} in a vocabulary of {self.vocabulary}."
            )
        return self


class ImageDimensions(Dimensions):
    """The members for models of images.

    Images and patches are square. A pixel has `LEVELS` levels in each channel. The first position
    is that of the class token.
    """

    context: int = Field(default=0, ge=0, le=0)
    vocabulary: int = Field(default=LEVELS, ge=LEVELS, le=LEVELS)
    image_size: int = Field(default=224, ge=1, le=1024)
    patch_size: int = Field(default=16, ge=1, le=1024)
    channels: int = Field(default=3, ge=1, le=16, alias="num_channels")

    @property
    def image(self) -> ImageSize:
        """The size of the images."""
        return ImageSize(self.channels, self.image_size, self.image_size)

    @property
    def positions(self) -> int:
        """The patches of an image, and the class token."""
        return (self.image_size // self.patch_size) ** 2 + 1

    def matrices(self) -> dict[str, tuple[int | None, int | None]]:
        """Return the shapes of matrices, of which images need fewer."""
        left_out = (EMBEDDING, HEAD, POSITIONS)
        return {name: size for name, size in super().matrices().items() if name not in left_out}

    def sizes(self) -> dict[str, tuple[int | None, ...]]:
        """Return the shapes of tensors, those for images included."""
        patch = (self.channels, self.patch_size, self.patch_size)
        return {
            **super().sizes(),
            PATCHES: (self.width, *patch),
            CLASS_TOKEN: (1, 1, self.width),
            POSITIONS: (1, self.positions, self.width),
        }

    @model_validator(mode="after")
    def _is_divided(self) -> Self:
        if self.image_size % self.patch_size:
            raise ValueError(
                f"image_size is {self.image_size}, which patches of {self.patch_size} do not "
                "divide."
            )
        return self


@dataclass(frozen=True)
class TensorPlace:
    """A tensor of ours, and the place where it is stored.

    It begins at row `start` of the stored tensor, which has `rows` in all. `first` is the first
    block that has it. Both names have `*` for the block's number.
    """

    name: str
    stored: str
    shape: tuple[int, ...]
    role: TensorRole
    transposed: bool = False
    start: int = 0
    rows: int | None = None
    first: int = 0

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
        first = int(pattern.rpartition(".")[0].endswith(ABSENT_AT_FIRST))
        if present != set(range(first, layers)):
            raise BadModelFolder(
                f"config.json describes {layers} layers, and the files have {pattern} for "
                f"{len(present)} of them."
            )
    return shapes


def placed(stored: str, shape: tuple[int, ...], dimensions: Dimensions) -> Iterable[TensorPlace]:
    """Return our tensors in one stored tensor.

    Raises:
        BadModelFolder: nothing is known about a tensor of this name.
    """
    path, _, kind = stored.rpartition(".")
    _, star, module = path.partition("*.")
    leaf = path.rpartition(".")[2]
    kind = OLDER_KINDS.get(kind, kind)
    if star and module in LINEAR and kind in ("weight", "bias"):
        return _linear(stored, module, shape, dimensions)
    if star and module in ROUTERS and kind == "weight":
        return (TensorPlace(f"blocks.*.{ROUTER}.weight", stored, shape, "weight"),)
    if (of_expert := _EXPERT.fullmatch(module)) and kind == "weight":
        part = EXPERT_PARTS[of_expert[2]]
        name = f"blocks.*.{EXPERTS}.{int(of_expert[1])}.{part}.weight"
        return (TensorPlace(name, stored, shape, "weight"),)
    if module == EXPERTS and kind in STACKED_PARTS and len(shape) == 3:
        return _stacked(stored, STACKED_PARTS[kind], shape)
    if not star and (bare := _ending(f"{path}.{kind}", BARE)) is not None:
        return (TensorPlace(bare, stored, shape, "weight"),)
    outer = None if star else _ending(path, OUTER)
    is_norm = "norm" in leaf.lower() or "ln_" in leaf
    if outer is not None and not is_norm and kind in ("weight", "bias"):
        return (
            TensorPlace(f"{outer}.{kind}", stored, shape, "weight" if kind == "weight" else "bias"),
        )
    if len(shape) == 1 and kind in ("weight", "bias") and is_norm:
        role = "norm_scale" if kind == "weight" else "norm_shift"
        name = _norm(module, kind) if star else f"{outer or 'final_norm'}.{kind}"
        return (TensorPlace(name, stored, shape, role, first=int(leaf in ABSENT_AT_FIRST)),)
    raise BadModelFolder(
        f"{stored.replace('*', '0')} is a tensor of a kind that adaptlab does not know, so the "
        "model is not supported."
    )


def _stacked(stored: str, parts: tuple[str, ...], shape: tuple[int, ...]) -> Iterator[TensorPlace]:
    """Yield the matrices of all experts that are in one tensor.

    The first two axes of the tensor count as one.
    """
    experts, outputs, inputs = shape
    size = outputs // len(parts)
    for expert in range(experts):
        for index, part in enumerate(parts):
            name, start = f"blocks.*.{EXPERTS}.{expert}.{part}.weight", expert * outputs
            yield TensorPlace(
                name, stored, (size, inputs), "weight", False, start + index * size,
                experts * outputs,
            )  # fmt: skip


def _ending(path: str, names: Mapping[str, str]) -> str | None:
    """Return our name of what is outside the blocks.

    It follows from the last parts of the path; None if there is none.
    """
    while path not in names:
        _, dot, path = path.partition(".")
        if not dot:
            return None
    return names[path]


def check_size(place: TensorPlace, dimensions: Dimensions) -> None:
    """Raise `BadModelFolder` if a matrix or bias has the wrong size.

    The right size is that of the configuration.
    """
    sizes: tuple[int | None, ...] | None = dimensions.sizes().get(place.name)
    if sizes is None and place.role != "bias":
        return
    wanted = (None,) if sizes is None else sizes
    is_other = len(wanted) != len(place.shape)
    if is_other or any(n not in (None, m) for n, m in zip(wanted, place.shape, strict=True)):
        there, described = (" × ".join(str(n or "any") for n in s) for s in (place.shape, wanted))
        raise BadModelFolder(
            f"{place.stored.replace('*', '0')} has {there} numbers where {CONFIG} describes "
            f"{described}. The files must be those of one model; copy all of them again from where "
            "it is published."
        )


def _norm(module: str, kind: str) -> str:
    """Return our name of a norm in a block."""
    if module in NORMS:
        return f"blocks.*.{NORMS[module]}.{kind}"
    of_attention = "." in module or module in BEFORE_ATTENTION
    leaf = module.rpartition(".")[2]
    return f"blocks.*.{'attn' if of_attention else 'mlp'}.{leaf}.{kind}"


def _linear(
    stored: str, module: str, shape: tuple[int, ...], dimensions: Dimensions
) -> Iterator[TensorPlace]:
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
        yield TensorPlace(name, stored, (outputs, *inputs), role, is_transposed, start, total)
        start += outputs
