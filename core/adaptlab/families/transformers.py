"""Published decoders that the library `transformers` computes.

The sites and tensors of a model follow from its `config.json` and from the names and shapes in the
headers of its weights. The names of the library's modules decide: `self_attn.q_proj` is the site
`attn.q` whatever the architecture. A fused matrix whose parts lie side by side has a site for each
part; one whose parts are interleaved is a single site.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, cast, get_args

from pydantic import AfterValidator, AliasChoices, Field, JsonValue, PositiveInt, model_validator

from adaptlab.errors import BadModelFolder
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.plugins.decoder import SPREAD
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorRole, TensorShape
from adaptlab.weights.huggingface import CONFIG, PublishedConfig, PublishedFamily, PublishedTensor

Architecture = Literal[
    "GPT2LMHeadModel", "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM",
    "LlamaForCausalLM", "MistralForCausalLM", "OPTForCausalLM", "Olmo2ForCausalLM",
    "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "SmolLM3ForCausalLM",
]  # fmt: skip
OUR_DECODERS = (*GPT2.architectures, *Llama.architectures)
"""Architectures that are imported as families of their own; here too, for comparison."""
TIED_BY_DEFAULT: tuple[Architecture, ...] = (
    "GPT2LMHeadModel", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "OPTForCausalLM",
    "SmolLM3ForCausalLM",
)  # fmt: skip
"""Architectures whose head is the embedding unless `config.json` says otherwise."""
CENTRED_AT_ZERO: tuple[Architecture, ...] = ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
"""Architectures whose norms scale by 1 + weight."""

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
_BLOCK = re.compile(r"(?:^|\.)(?:layers|h)\.(\d+)\.")

Shape = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=2)]


def _is_plain(config: dict[str, JsonValue]) -> dict[str, JsonValue]:
    PublishedConfig.model_validate(config)  # no code of its own, no quantised weights
    return config


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
            "blocks.*.mlp.up.weight": (None, self.width),
            "blocks.*.mlp.gate.weight": (None, self.width),
            "blocks.*.mlp.down.weight": (self.width, None),
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


@FAMILIES.register("transformers")
class Transformers(PublishedFamily):
    """A published decoder, computed by the library `transformers`.

    `config` is the model's `config.json`. `stored` has the shape of every stored tensor, by name;
    `*` stands for the number of a block, since all blocks are alike.

    Learned positions are always visible, also from beyond a sliding window. The content keeps its
    own positions.
    """

    title: ClassVar[str] = "Transformers"
    summary: ClassVar[str] = (
        "Published decoders such as Qwen3, Gemma, Phi-3 and GPT-NeoX, computed by `transformers`."
    )
    reference: ClassVar[str] = "Wolf et al. (EMNLP 2020)"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1
    architectures: ClassVar[tuple[str, ...]] = tuple(
        name for name in get_args(Architecture) if name not in OUR_DECODERS
    )
    prefix: ClassVar[str] = ""
    buffers: ClassVar[tuple[str, ...]] = (
        ".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias",
    )  # fmt: skip

    name: Literal["transformers"] = "transformers"
    architecture: Architecture
    config: Annotated[dict[str, JsonValue], AfterValidator(_is_plain)]
    stored: dict[str, Shape] = Field(min_length=1, max_length=128)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        try:
            names = {place.name for place in self.places()}
        except BadModelFolder as error:
            raise ValueError(str(error)) from error
        attention = ("attn.qkv",) if "blocks.*.attn.qkv.weight" in names else ATTENTION
        needed = {
            f"blocks.*.{part}.weight" for part in (*attention, "attn.o", "mlp.up", "mlp.down")
        }
        needed |= {EMBEDDING} if self.is_tied() else {EMBEDDING, HEAD}
        if missing := sorted(needed - names):
            raise ValueError(f"the model has no {', '.join(missing)}")
        return self

    def __hash__(self) -> int:
        return hash((self.architecture, frozenset(self.stored.items())))

    @classmethod
    def from_published(
        cls, architecture: str, config: Mapping[str, object], stored: Mapping[str, tuple[int, ...]]
    ) -> Self:
        dimensions = Dimensions.model_validate(config)
        present = {name: shape for name, shape in stored.items() if not name.endswith(cls.buffers)}
        return cls(
            architecture=cast("Architecture", architecture),
            config=cast("dict[str, JsonValue]", dict(config)),
            stored=_collapsed(present, dimensions.layers),
        )

    def with_tensors(self, stored: Mapping[str, tuple[int, ...]]) -> Self:
        """Return the model with tensors of these names and shapes; may raise `BadModelFolder`."""
        return self.from_published(self.architecture, self.config, stored)

    def resolved(self, vocabulary: int, context: int) -> Self:
        return self

    def shape(self) -> ModelShape:
        dimensions, tied = self.dimensions(), {HEAD: EMBEDDING} if self.is_tied() else {}
        places = [place for place in self.places() if place.name not in tied]
        outer = [place for place in places if "*" not in place.name]
        inner = [place for place in places if "*" in place.name]
        embed = next(place for place in outer if place.name == EMBEDDING)
        before = [place for place in outer if place.name in (EMBEDDING, POSITIONS)]
        after = [place for place in outer if place not in before]
        sites = {"embed": Site("embed", "embedding", dimensions.vocabulary, embed.shape[1])}
        tensors = {place.name: self._tensor(place) for place in before}
        for layer in range(dimensions.layers):
            block = _in_block(inner, layer)
            sites |= {site.name: site for site in _block_sites(block, layer, dimensions)}
            tensors |= {place.name: self._tensor(place) for place in block}
        sites["unembed"] = Site("unembed", "linear", embed.shape[1], dimensions.vocabulary)
        tensors |= {place.name: self._tensor(place) for place in after}
        return ModelShape(
            family=self.name,
            width=embed.shape[1],
            layers=dimensions.layers,
            heads=dimensions.heads,
            key_value_width=dimensions.key_value_width,
            context=dimensions.context,
            vocabulary=dimensions.vocabulary,
            sites=sites,
            tensors=tensors,
            tied=tied,
            first_attention=frozenset(filter(_is_of_first_attention, tensors)),
        )

    def published_tensors(self) -> dict[str, PublishedTensor]:
        layers = range(self.dimensions().layers)
        places = dict(
            place.published(layer)
            for place in self.places()
            for layer in (layers if "*" in place.name else (0,))
        )
        places.setdefault(HEAD, PublishedTensor("lm_head.weight"))
        return places

    def dimensions(self) -> Dimensions:
        """Return the members of the configuration that decide shapes."""
        return Dimensions.model_validate(self.config)

    def places(self) -> tuple[Place, ...]:
        """Return every tensor once, those of blocks with `*` for the block's number.

        Raises:
            BadModelFolder: a tensor is unknown, or not as large as the configuration says.
        """
        dimensions = self.dimensions()
        places = tuple(p for item in self.stored.items() for p in _placed(*item, dimensions))
        for place in places:
            _check_size(place, dimensions)
        return places

    def is_tied(self) -> bool:
        """Return True if the head is the embedding."""
        tied = self.dimensions().tie_word_embeddings
        return self.architecture in TIED_BY_DEFAULT if tied is None else tied

    def _tensor(self, place: Place) -> TensorShape:
        is_centred = self.architecture in CENTRED_AT_ZERO
        start = {
            "weight": Initialiser("normal", SPREAD),
            "bias": Initialiser("zeros"),
            "norm_scale": Initialiser("zeros" if is_centred else "ones"),
            "norm_shift": Initialiser("zeros"),
        }[place.role]
        decays = place.role == "weight" and place.name not in (EMBEDDING, POSITIONS)
        return TensorShape(place.shape, start, decays, place.role)


def _collapsed(stored: Mapping[str, tuple[int, ...]], layers: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes by name, with `*` for the number of a block.

    Raises:
        BadModelFolder: blocks differ, or their number is not that of the configuration.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    blocks: dict[str, set[int]] = {}
    for name, shape in stored.items():
        found = _BLOCK.search(name)
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


def _placed(stored: str, shape: tuple[int, ...], dimensions: Dimensions) -> Iterable[Place]:
    """Return our tensors in one stored tensor.

    Raises:
        BadModelFolder: nothing is known about a tensor of this name.
    """
    path, _, kind = stored.rpartition(".")
    _, star, module = path.partition("*.")
    leaf = path.rpartition(".")[2]
    if star and module in LINEAR and kind in ("weight", "bias"):
        return _linear(stored, module, shape, dimensions)
    if not star and leaf in OUTER and kind == "weight" and len(shape) == 2:
        return (Place(f"{OUTER[leaf]}.weight", stored, shape, "weight"),)
    if len(shape) == 1 and kind in ("weight", "bias") and ("norm" in leaf or "ln_" in leaf):
        role = "norm_scale" if kind == "weight" else "norm_shift"
        return (Place(_norm(module if star else "", kind), stored, shape, role),)
    raise BadModelFolder(
        f"{stored.replace('*', '0')} is a tensor of a kind that adaptlab does not know, so the "
        "model is not supported."
    )


def _check_size(place: Place, dimensions: Dimensions) -> None:
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


def _in_block(places: Iterable[Place], layer: int) -> list[Place]:
    """Return the places of one block, with its number, in forward order."""
    order = (*BEFORE_ATTENTION, *ATTENTION_PARTS, *MLP_PARTS)

    def rank(place: Place) -> int:
        return next((i for i, part in enumerate(order) if f".{part}." in place.name), len(order))

    return [
        replace(place, name=place.name.replace("*", str(layer)))
        for place in sorted(places, key=rank)
    ]


def _block_sites(block: Iterable[Place], layer: int, dimensions: Dimensions) -> Iterator[Site]:
    """Yield the sites of a block; those of attention come first."""
    name, width, mixed = f"blocks.{layer}", dimensions.width, dimensions.query_width
    matrices = [place for place in block if place.role == "weight"]
    keys = dimensions.key_value_width
    yield Site(f"{name}.attn.input", "attention_input", width, width, layer)
    yield Site(f"{name}.attn.kv", "attention_keys_values", width, keys, layer)
    for sublayer in ("attn", "mlp"):
        for place in matrices:
            if place.name.startswith(f"{name}.{sublayer}."):
                outputs, inputs = place.shape
                site = place.name.removesuffix(".weight")
                yield Site(site, "linear", inputs, outputs, layer)
        if sublayer == "attn":
            yield Site(f"{name}.attn.mix", "attention_mix", mixed, mixed, layer)
        yield Site(f"{name}.{sublayer}", "sublayer", width, width, layer)


def _is_of_first_attention(tensor: str) -> bool:
    """Return True if a tensor decides the attention of the first block."""
    if tensor in (EMBEDDING, POSITIONS):
        return True
    in_attention = tensor.startswith("blocks.0.attn.")
    return in_attention and not tensor.startswith(("blocks.0.attn.v.", "blocks.0.attn.o."))
