"""Published models that the library `transformers` computes.

The sites and tensors of a model follow from its `config.json` and from the names and shapes in the
headers of its weights; see `adaptlab.weights.library_tensors`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self, cast, get_args

from pydantic import AfterValidator, Field, JsonValue, PositiveInt, model_validator

from adaptlab.errors import BadModelFolder
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.plugins.decoder import SPREAD
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.images import ImageSize, Preprocessor
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape
from adaptlab.weights.huggingface import PublishedConfig, PublishedFamily, PublishedTensor
from adaptlab.weights.library_tensors import (
    ATTENTION,
    ATTENTION_PARTS,
    BEFORE_ATTENTION,
    CLASS_TOKEN,
    EMBEDDING,
    EXPERTS,
    HEAD,
    INPUTS,
    MLP_PARTS,
    PATCHES,
    POSITIONS,
    ROUTER,
    TRANSFORM,
    TRANSFORM_NORM,
    Dimensions,
    EncoderDimensions,
    FillingDimensions,
    ImageDimensions,
    TensorPlace,
    check_size,
    collapsed,
    placed,
)

Architecture = Literal[
    "BertForMaskedLM", "BertModel", "DistilBertForMaskedLM", "DistilBertModel", "GPT2LMHeadModel",
    "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "LlamaForCausalLM",
    "MistralForCausalLM", "MixtralForCausalLM", "ModernBertForMaskedLM", "ModernBertModel",
    "OPTForCausalLM", "Olmo2ForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM",
    "Qwen3ForCausalLM", "RobertaForMaskedLM", "RobertaModel", "SmolLM3ForCausalLM",
    "ViTForImageClassification", "ViTModel",
]  # fmt: skip
OF_IMAGES: tuple[Architecture, ...] = ("ViTForImageClassification", "ViTModel")
"""Encoders of images. A head for classes that is published with one is not used."""
WITHOUT_HEAD: tuple[Architecture, ...] = (
    "BertModel", "DistilBertModel", "ModernBertModel", "RobertaModel", *OF_IMAGES,
)  # fmt: skip
"""Encoders without a head, such as sentence encoders."""
PLACES_IN_CLASSIFIERS: Mapping[str, str] = {
    "BertModel": "bert.",
    "DistilBertModel": "distilbert.",
    "ModernBertModel": "model.",
    "RobertaModel": "roberta.",
}
"""Where models with a head have the encoders that are published alone."""
HEADS_OF_ENCODERS: Mapping[str, str] = {
    "BertForMaskedLM": "cls.predictions.decoder.weight",
    "DistilBertForMaskedLM": "vocab_projector.weight",
    "ModernBertForMaskedLM": "decoder.weight",
    "RobertaForMaskedLM": "lm_head.decoder.weight",
}
"""The library's names of the heads of encoders that fill in masks."""
OUR_DECODERS = (*GPT2.architectures, *Llama.architectures)
"""Architectures with families of their own; here for the models that these do not compute."""
TIED_BY_DEFAULT: tuple[Architecture, ...] = (
    "BertForMaskedLM", "DistilBertForMaskedLM", "GPT2LMHeadModel", "Gemma2ForCausalLM",
    "Gemma3ForCausalLM", "ModernBertForMaskedLM", "OPTForCausalLM", "RobertaForMaskedLM",
    "SmolLM3ForCausalLM",
)  # fmt: skip
"""Architectures whose head is the embedding unless `config.json` says otherwise."""
SCALED_EMBEDDINGS: tuple[Architecture, ...] = ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
"""Architectures whose embeddings are multiplied by the root of the width."""
CENTRED_AT_ZERO: tuple[Architecture, ...] = ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
"""Architectures whose norms scale by 1 + weight."""
LIBRARY_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "Gemma2ForCausalLM": {"head_dim": 256, "num_key_value_heads": 4},
    "Gemma3ForCausalLM": {"head_dim": 256, "num_key_value_heads": 4},
    "MistralForCausalLM": {"num_key_value_heads": 8},
    "MixtralForCausalLM": {
        "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "Qwen2ForCausalLM": {"num_key_value_heads": 32},
    "Qwen3ForCausalLM": {"head_dim": 128, "num_key_value_heads": 32},
    "SmolLM3ForCausalLM": {"num_key_value_heads": 4},
}  # fmt: skip
"""The library's values of absent members that do not follow from other members."""

Shape = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=4)]


def _is_plain(config: dict[str, JsonValue]) -> dict[str, JsonValue]:
    PublishedConfig.model_validate(config)  # no code of its own, no quantised weights
    return config


@FAMILIES.register("transformers")
class Transformers(PublishedFamily):
    """A published decoder or encoder, computed by the library `transformers`.

    `config` is the model's `config.json`. `stored` has the shape of every stored tensor, by name;
    `*` stands for the number of a block, since all blocks are alike.

    Learned positions are always visible, also from beyond a sliding window. The content keeps its
    own positions.

    In an encoder every position attends to all others. The answer is masked at the input, by the
    `mask_token_id` of the configuration, and each of its tokens is predicted in place. An encoder
    without a head, such as one for sentences, only classifies, by a head that is trained.

    A ViT reads images: an item is the levels of its pixels from 0 to 255, which the model sees as
    `preprocessor` says, or as numbers from -1 to 1. Its positions are the class token, which the
    head reads, and the patches.
    """

    title: ClassVar[str] = "Transformers"
    summary: ClassVar[str] = (
        "Published models such as Qwen3, Gemma, Mixtral, BERT and ViT, computed by `transformers`."
    )
    reference: ClassVar[str] = "Wolf et al. (EMNLP 2020)"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1
    architectures: ClassVar[tuple[str, ...]] = tuple(
        name for name in get_args(Architecture) if name not in OUR_DECODERS
    )
    stands_in: ClassVar[tuple[str, ...]] = OUR_DECODERS
    prefix: ClassVar[str] = ""
    buffers: ClassVar[tuple[str, ...]] = (
        ".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias",
        "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias",
        "cls.seq_relationship.weight", "cls.seq_relationship.bias",
        "cls.predictions.decoder.bias", "lm_head.decoder.bias",
        "classifier.weight", "classifier.bias",
    )  # fmt: skip

    name: Literal["transformers"] = "transformers"
    architecture: Architecture
    """name of the architecture in the model's config.json"""
    config: Annotated[dict[str, JsonValue], AfterValidator(_is_plain)]
    """content of the model's config.json, as JSON"""
    stored: dict[str, Shape] = Field(min_length=1, max_length=128)
    """shape of every stored tensor, by name, as JSON"""
    preprocessor: Preprocessor | None = Field(
        default=None,
        exclude_if=lambda preprocessor: preprocessor is None,  # older jobs keep their digests
    )
    """how the model scales images, as JSON"""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        try:
            names = {place.name for place in self.places()}
        except BadModelFolder as error:
            raise ValueError(str(error)) from error
        attention = ("attn.qkv",) if "blocks.*.attn.qkv.weight" in names else ATTENTION
        experts = self.dimensions().experts
        mlp = _experts(experts) if experts else ("mlp.up", "mlp.down")
        needed = {f"blocks.*.{part}.weight" for part in (*attention, "attn.o", *mlp)}
        needed |= {f"{TRANSFORM}.weight"} if self.fills_in() else set()
        has_own_head = self.predicts_tokens() and not self.is_tied()
        needed |= {HEAD} if has_own_head else set()
        needed |= {PATCHES, CLASS_TOKEN, POSITIONS} if self.image() else {EMBEDDING}
        if missing := sorted(needed - names):
            raise ValueError(f"the model has no {', '.join(missing)}")
        if self.preprocessor is not None:
            self._check_channels(self.preprocessor)
        return self

    def _check_channels(self, preprocessor: Preprocessor) -> None:
        image = self.image()
        if image is None:
            raise ValueError("only models of images have a preprocessor")
        if {len(preprocessor.mean), len(preprocessor.std)} != {image.channels}:
            raise ValueError(f"the preprocessor is not one of {image.channels} channels")

    def __hash__(self) -> int:
        return hash((self.architecture, frozenset(self.stored.items())))

    @classmethod
    def from_published(
        cls, architecture: str, config: Mapping[str, object], stored: Mapping[str, tuple[int, ...]]
    ) -> Self:
        dimensions = _dimensions(architecture, config)
        present = {name: shape for name, shape in stored.items() if not name.endswith(cls.buffers)}
        return cls(
            architecture=cast("Architecture", architecture),
            config=cast("dict[str, JsonValue]", dict(config)),
            stored=collapsed(present, dimensions.layers),
        )

    @property
    def mixes_experts(self) -> bool:
        """True if the MLPs of blocks are experts.

        A router chooses among them for each token.
        """
        return self.dimensions().experts is not None

    def with_tensors(self, stored: Mapping[str, tuple[int, ...]]) -> Self:
        """Return the model with tensors of these names and shapes.

        May raise `BadModelFolder`.
        """
        found = self.from_published(self.architecture, self.config, stored)
        return found.with_preprocessor(self.preprocessor)

    def with_preprocessor(self, preprocessor: Preprocessor | None) -> Self:
        return self.model_copy(update={"preprocessor": preprocessor})

    def pixels_seen(self) -> Preprocessor:
        """Return how the model, one of images, sees levels."""
        image = self.image()
        assert image is not None
        return self.preprocessor or Preprocessor.default(image.channels)

    def resolved(self, vocabulary: int, context: int) -> Self:
        return self

    def _embedding_scale(self, width: int) -> float:
        return math.sqrt(width) if self.architecture in SCALED_EMBEDDINGS else 1.0

    @property
    def is_encoder(self) -> bool:
        """True if every position attends to all others."""
        return is_encoder(self.architecture)

    def fills_in(self) -> bool:
        return self.architecture in HEADS_OF_ENCODERS

    def classifier_prefix(self) -> str:
        return PLACES_IN_CLASSIFIERS.get(self.architecture, self.prefix)

    def attends_to_all(self) -> bool:
        return self.is_encoder

    def places_learned(self) -> bool:
        return True

    def predicts_in_place(self) -> bool:
        return self.fills_in()

    def predicts_tokens(self) -> bool:
        return self.architecture not in WITHOUT_HEAD

    def can_classify(self) -> bool:
        return True

    def image(self) -> ImageSize | None:
        dimensions = self.dimensions()
        return dimensions.image if isinstance(dimensions, ImageDimensions) else None

    def patches(self) -> tuple[int, int]:
        dimensions = self.dimensions()
        if not isinstance(dimensions, ImageDimensions):
            return super().patches()
        side = dimensions.image_size // dimensions.patch_size
        return side, side

    def positions_of(self, tokens: int) -> int:
        return tokens if self.image() is None else self.dimensions().positions

    def mask_token(self) -> int:
        dimensions = self.dimensions()
        assert isinstance(dimensions, FillingDimensions)
        assert dimensions.mask_token_id is not None
        return dimensions.mask_token_id

    def first_position(self) -> int:
        """Return the row of the position table that the first content token uses."""
        if self.architecture not in ("RobertaForMaskedLM", "RobertaModel"):
            return 0
        dimensions = self.dimensions()
        assert isinstance(dimensions, EncoderDimensions)
        return dimensions.pad_token_id + 1

    def shape(self) -> ModelShape:
        dimensions, is_tied = self.dimensions(), self.predicts_tokens() and self.is_tied()
        tied = {HEAD: EMBEDDING} if is_tied else {}
        places = [place for place in self.places() if place.name not in tied]
        outer = [place for place in places if "*" not in place.name]
        inner = [place for place in places if "*" in place.name]
        before = [place for place in outer if place.name.partition(".")[0] in INPUTS]
        after = [place for place in outer if place not in before]
        sites = {"embed": Site("embed", "embedding", dimensions.vocabulary, dimensions.width)}
        tensors = {place.name: self._tensor(place) for place in before}
        for layer in range(dimensions.layers):
            block = _in_block(inner, layer)
            sites |= {site.name: site for site in _block_sites(block, layer, dimensions)}
            tensors |= {place.name: self._tensor(place) for place in block}
        if self.fills_in():
            sites[TRANSFORM] = Site(TRANSFORM, "linear", dimensions.width, dimensions.width)
        if self.predicts_tokens():
            sites["unembed"] = Site("unembed", "linear", dimensions.width, dimensions.vocabulary)
        tensors |= {place.name: self._tensor(place) for place in after}
        return ModelShape(
            family=self.name,
            width=dimensions.width,
            layers=dimensions.layers,
            heads=dimensions.heads,
            key_value_width=dimensions.key_value_width,
            context=dimensions.positions - self.first_position(),
            vocabulary=dimensions.vocabulary,
            sites=sites,
            tensors=tensors,
            tied=tied,
            first_attention=frozenset(filter(_is_of_first_attention, tensors)),
            other_flops_per_token=self._flops_of_experts(tensors) + _flops_of_patches(tensors),
            embedding_scale=self._embedding_scale(dimensions.width),
        )

    def shape_with_classes(self, classes: int) -> ModelShape:
        return self.shape().with_classes(classes, without=(TRANSFORM, TRANSFORM_NORM))

    def published_tensors(self) -> dict[str, PublishedTensor]:
        layers = range(self.dimensions().layers)
        places = dict(
            place.published(layer)
            for place in self.places()
            for layer in (layers[place.first :] if "*" in place.name else (0,))
        )
        if self.predicts_tokens():
            head = HEADS_OF_ENCODERS.get(self.architecture, "lm_head.weight")
            places.setdefault(HEAD, PublishedTensor(head))
        return places

    def dimensions(self) -> Dimensions:
        """Return the members of the configuration that decide shapes."""
        return _dimensions(self.architecture, self.config)

    def places(self) -> tuple[TensorPlace, ...]:
        """Return every tensor once.

        Those of blocks have `*` for the block's number.

        Raises:
            BadModelFolder: a tensor is unknown, or not as large as the configuration says.
        """
        dimensions = self.dimensions()
        places = tuple(p for item in self.stored.items() for p in placed(*item, dimensions))
        for place in places:
            check_size(place, dimensions)
        return places

    def is_tied(self) -> bool:
        """Return True if the head is the embedding."""
        tied = self.dimensions().tie_word_embeddings
        return self.architecture in TIED_BY_DEFAULT if tied is None else tied

    def _flops_of_experts(self, tensors: Mapping[str, TensorShape]) -> int:
        """Return the operations per token of routers and experts.

        Only the experts that a token reaches count.
        """
        dimensions = self.dimensions()
        if dimensions.experts is None:
            return 0
        routers = (tensor.size for name, tensor in tensors.items() if f".{ROUTER}." in name)
        every = sum(tensor.size for name, tensor in tensors.items() if f".{EXPERTS}." in name)
        reached = min(dimensions.experts_per_token or 1, dimensions.experts)
        return 2 * (sum(routers) + every * reached // dimensions.experts)

    def _tensor(self, place: TensorPlace) -> TensorShape:
        is_centred = self.architecture in CENTRED_AT_ZERO
        start = {
            "weight": Initialiser("normal", SPREAD),
            "bias": Initialiser("zeros"),
            "norm_scale": Initialiser("zeros" if is_centred else "ones"),
            "norm_shift": Initialiser("zeros"),
        }[place.role]
        decays = place.role == "weight" and place.name.partition(".")[0] not in INPUTS
        return TensorShape(place.shape, start, decays, place.role)


def _dimensions(architecture: str, config: Mapping[str, object]) -> Dimensions:
    kind = Dimensions
    if architecture in OF_IMAGES:
        kind = ImageDimensions
    elif is_encoder(architecture):
        kind = EncoderDimensions if architecture in WITHOUT_HEAD else FillingDimensions
    return kind.model_validate({**LIBRARY_DEFAULTS.get(architecture, {}), **config})


def is_encoder(architecture: str) -> bool:
    """Return True if positions of an architecture attend to all others."""
    return architecture in HEADS_OF_ENCODERS or architecture in WITHOUT_HEAD


def _flops_of_patches(tensors: Mapping[str, TensorShape]) -> int:
    """Return the operations per position of the projection of patches."""
    return 2 * tensors[PATCHES].size if PATCHES in tensors else 0


def _experts(count: int) -> Iterator[str]:
    """Yield the matrices of a block's router and experts."""
    yield ROUTER
    for expert in range(count):
        yield from (f"{EXPERTS}.{expert}.{part}" for part in ("gate", "up", "down"))


def _in_block(places: Iterable[TensorPlace], layer: int) -> list[TensorPlace]:
    """Return the places of one block, with its number, in forward order."""
    order = (*BEFORE_ATTENTION, *ATTENTION_PARTS, *MLP_PARTS)

    def rank(place: TensorPlace) -> int:
        return next((i for i, part in enumerate(order) if f".{part}." in place.name), len(order))

    return [
        replace(place, name=place.name.replace("*", str(layer)))
        for place in sorted(places, key=rank)
        if layer >= place.first
    ]


def _block_sites(
    block: Iterable[TensorPlace], layer: int, dimensions: Dimensions
) -> Iterator[Site]:
    """Yield the sites of a block; those of attention come first."""
    name, width, mixed = f"blocks.{layer}", dimensions.width, dimensions.query_width
    matrices = [place for place in block if place.role == "weight"]
    keys = dimensions.key_value_width
    yield Site(f"{name}.attn.input", "attention_input", width, width, layer)
    yield Site(f"{name}.attn.kv", "attention_keys_values", width, keys, layer)
    for sublayer in ("attn", "mlp"):
        for place in matrices:
            site = place.name.removesuffix(".weight")
            is_of_experts = site.startswith((f"{name}.{ROUTER}", f"{name}.{EXPERTS}."))
            if site.startswith(f"{name}.{sublayer}.") and not is_of_experts:
                outputs, inputs = place.shape
                yield Site(site, "linear", inputs, outputs, layer)
        if sublayer == "attn":
            yield Site(f"{name}.attn.queries", "attention_queries", mixed, mixed, layer)
            yield Site(f"{name}.attn.mix", "attention_mix", mixed, mixed, layer)
        yield Site(f"{name}.{sublayer}", "sublayer", width, width, layer)


def _is_of_first_attention(tensor: str) -> bool:
    """Return True if a tensor decides the attention of the first block."""
    if tensor.partition(".")[0] in INPUTS:
        return True
    in_attention = tensor.startswith("blocks.0.attn.")
    return in_attention and not tensor.startswith(("blocks.0.attn.v.", "blocks.0.attn.o."))
