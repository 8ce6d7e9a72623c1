"""Llama and published models of the same architecture.

These are Mistral, Qwen2 and SmolLM.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field, PositiveInt, model_validator

from adaptlab.errors import NoLibraryForm, Problem
from adaptlab.plugins.decoder import BLOCK_PARTS, DecoderLayout, divisor_problems, heads_problems
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.shapes import ModelShape
from adaptlab.values import AUTO, Auto, Value
from adaptlab.weights.huggingface import PublishedConfig, PublishedFamily, PublishedTensor

AttentionBiases = Literal["none", "qkv", "qkvo"]
LIBRARY_ROPE = ("dynamic", "longrope", "yarn")
"""Kinds of rotary positions that the library computes and our decoder does not."""
PARTIAL, ORIGINAL = "partial_rotary_factor", "original_max_position_embeddings"

BIASED: dict[AttentionBiases, tuple[str, ...]] = {
    "none": (),
    "qkv": ("attn.q", "attn.k", "attn.v"),
    "qkvo": ("attn.q", "attn.k", "attn.v", "attn.o"),
}
PUBLISHED_PARTS = {
    "attn.q": "self_attn.q_proj",
    "attn.k": "self_attn.k_proj",
    "attn.v": "self_attn.v_proj",
    "attn.o": "self_attn.o_proj",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}


class LinearScaling(Value):
    """Scaling of rotary positions that divides every position by `factor`."""

    kind: Literal["linear"] = "linear"
    factor: float = Field(ge=1)


class Llama3Scaling(Value):
    """Scaling of rotary positions by frequency (Llama 3.1).

    Low frequencies are divided by `factor`, high ones are kept, and those between are interpolated.
    A frequency is low if its wavelength is more than `original_context` / `low_frequency_factor`
    positions, and high if it is less than `original_context` / `high_frequency_factor`.
    """

    kind: Literal["llama3"] = "llama3"
    factor: float = Field(ge=1)
    low_frequency_factor: float = Field(gt=0)
    high_frequency_factor: float = Field(gt=0)
    original_context: int = Field(ge=1)

    @model_validator(mode="after")
    def _fast_is_above_slow(self) -> Self:
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ValueError("high_frequency_factor must be above low_frequency_factor")
        return self


RotaryScaling = Annotated[LinearScaling | Llama3Scaling, Field(discriminator="kind")]


@FAMILIES.register("llama")
class Llama(PublishedFamily):
    """A pre-norm decoder with RMSNorm, rotary positions and a SwiGLU MLP.

    Queries are grouped. `hidden` is the width of the MLP; `auto` is 8/3 of the width, rounded up to
    a multiple of 8. `head_size: auto` is the width divided by the heads. `rotary_base` is the theta
    of the paper.
    """

    title: ClassVar[str] = "Llama"
    summary: ClassVar[str] = "Llama, Mistral, Qwen2 and SmolLM, published or trained here."
    reference: ClassVar[str] = "Touvron et al. (2023); Su et al. (2021); Ainslie et al. (2023)"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1
    architectures: ClassVar[tuple[str, ...]] = (
        "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
    )  # fmt: skip
    prefix: ClassVar[str] = "model."
    buffers: ClassVar[tuple[str, ...]] = (".rotary_emb.inv_freq",)

    name: Literal["llama"] = "llama"
    layers: int = Field(default=2, ge=1, le=256)
    """number of blocks"""
    heads: int = Field(default=4, ge=1, le=256)
    """attention heads per layer"""
    key_value_heads: int = Field(default=2, ge=1, le=256)
    """heads of keys and values, shared by groups of query heads"""
    width: int = Field(default=96, ge=1, le=32768)
    """size of the vector at each position"""
    head_size: Annotated[int, Field(ge=2, le=1024, multiple_of=2)] | Auto = AUTO
    """width of each head; empty: width / heads"""
    hidden: Annotated[int, Field(ge=1, le=262144)] | Auto = AUTO
    """width of the MLP's hidden layer"""
    attention_biases: AttentionBiases = "none"
    """biases in the query, key and value matrices"""
    mlp_biases: bool = False
    """biases in the matrices of the MLP"""
    tied_head: bool = False
    """the output matrix is that of the embedding"""
    norm_epsilon: float = Field(default=1e-6, gt=0, le=1)
    """added to the variance in each normalisation"""
    rotary_base: float = Field(default=10_000.0, gt=1, le=1e12)
    """base of the angles of rotary positions"""
    rotary_scaling: RotaryScaling | None = None
    """how rotary positions are stretched, as JSON"""
    vocabulary: Annotated[int, Field(ge=1, le=10**7)] | Auto = AUTO
    """number of tokens"""
    context: Annotated[int, Field(ge=1, le=10**8)] | Auto = AUTO
    """largest number of positions"""

    def resolved(self, vocabulary: int, context: int) -> Self:
        hidden = -(-8 * self.width // 24) * 8
        return self.model_copy(
            update={
                "head_size": self._head_size(),
                "hidden": hidden if self.hidden == AUTO else self.hidden,
                "vocabulary": vocabulary if self.vocabulary == AUTO else self.vocabulary,
                "context": context if self.context == AUTO else self.context,
            }
        )

    def _head_size(self) -> int:
        return self.width // self.heads if self.head_size == AUTO else self.head_size

    def problems(self) -> tuple[Problem, ...]:
        problems = heads_problems(self.heads, self.width) if self.head_size == AUTO else ()
        if not problems and self._head_size() % 2:
            problems = (self._odd_head_size(),)
        return problems + divisor_problems(
            "/family/key_value_heads", "heads of keys", self.key_value_heads, "heads", self.heads
        )

    def _odd_head_size(self) -> Problem:
        size = self._head_size()
        return Problem(
            pointer="/family/head_size",
            code="odd_head_size",
            detail=f"The head size {size} is odd, but rotary positions need pairs of features. "
            "Use an even size.",
            nearest=tuple(even for even in (size - 1, size + 1) if even > 0),
        )

    def shape(self) -> ModelShape:
        assert isinstance(self.head_size, int)
        assert isinstance(self.hidden, int)
        assert isinstance(self.vocabulary, int)
        assert isinstance(self.context, int)
        mlp = tuple(p for p in BLOCK_PARTS if p.startswith("mlp.")) if self.mlp_biases else ()
        return DecoderLayout(
            family=self.name,
            layers=self.layers,
            heads=self.heads,
            width=self.width,
            query_width=self.heads * self.head_size,
            key_value_width=self.key_value_heads * self.head_size,
            hidden=self.hidden,
            context=self.context,
            vocabulary=self.vocabulary,
            biased=frozenset(BIASED[self.attention_biases] + mlp),
            norm_shifts=False,
            learned_positions=False,
            gated=True,
            tied_head=self.tied_head,
        ).shape()

    def rotary_frequencies(self) -> tuple[float, ...]:
        size, scaling = self.head_size, self.rotary_scaling
        assert isinstance(size, int)
        plain = tuple(self.rotary_base ** (-pair / size) for pair in range(0, size, 2))
        if scaling is None:
            return plain
        if isinstance(scaling, Llama3Scaling):
            return tuple(_llama3(frequency, scaling) for frequency in plain)
        return tuple(frequency / scaling.factor for frequency in plain)

    @classmethod
    def computes(cls, config: Mapping[str, object]) -> bool:
        rope = rope_of(config)
        if not isinstance(rope, dict):
            return True
        members = cast("dict[str, object]", rope)
        is_whole = members.get(PARTIAL) in (None, 1)
        is_ours = members["rope_type"] not in LIBRARY_ROPE and is_whole
        return is_ours and config.get("hidden_act", "silu") == "silu"

    def library_members(self) -> dict[str, object]:
        return {
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "hidden_size": self.width,
            "head_dim": self.head_size,
            "intermediate_size": self.hidden,
            "vocab_size": self.vocabulary,
            "rms_norm_eps": self.norm_epsilon,
            "tie_word_embeddings": self.tied_head,
        }

    def published_config(self) -> dict[str, object]:
        is_qwen = self.attention_biases == "qkv"
        if is_qwen and self.mlp_biases:
            raise NoLibraryForm(
                "transformers has no model with attention_biases: qkv and biases in the MLP. "
                "Download the checkpoint as it is, or pretrain with attention_biases: qkvo."
            )
        return {
            **self.library_members(),
            "architectures": ["Qwen2ForCausalLM" if is_qwen else "LlamaForCausalLM"],
            "model_type": "qwen2" if is_qwen else "llama",
            "max_position_embeddings": self.context,
            "hidden_act": "silu",
            "rope_parameters": _published_rope(self.rotary_base, self.rotary_scaling),
            **({} if is_qwen else {"attention_bias": self.attention_biases == "qkvo"}),
            **({} if is_qwen else {"mlp_bias": self.mlp_biases}),
            "bos_token_id": None,
            "eos_token_id": None,
        }

    @classmethod
    def from_published(
        cls, architecture: str, config: Mapping[str, object], stored: Mapping[str, tuple[int, ...]]
    ) -> Self:
        published = _CONFIGS[architecture].model_validate(config)
        heads = published.num_attention_heads
        return cls(
            layers=published.num_hidden_layers,
            heads=heads,
            key_value_heads=published.num_key_value_heads or heads,
            width=published.hidden_size,
            head_size=published.head_dim or published.hidden_size // heads,
            hidden=published.intermediate_size,
            attention_biases=published.attention_biases(),
            mlp_biases=published.mlp_biases(),
            tied_head=published.tie_word_embeddings,
            norm_epsilon=published.rms_norm_eps,
            rotary_base=published.rope_parameters.rope_theta,
            rotary_scaling=published.rope_parameters.scaling(),
            vocabulary=published.vocab_size,
            context=min(published.max_position_embeddings, published.window()),
        )

    def published_tensors(self) -> dict[str, PublishedTensor]:
        names = {
            "embed.weight": "embed_tokens.weight",
            "final_norm.weight": "norm.weight",
            "unembed.weight": "lm_head.weight",
        }
        for layer in range(self.layers):
            ours, theirs = f"blocks.{layer}", f"layers.{layer}"
            names[f"{ours}.attn.norm.weight"] = f"{theirs}.input_layernorm.weight"
            names[f"{ours}.mlp.norm.weight"] = f"{theirs}.post_attention_layernorm.weight"
            for mine, other in PUBLISHED_PARTS.items():
                for kind in ("weight", "bias"):
                    names[f"{ours}.{mine}.{kind}"] = f"{theirs}.{other}.{kind}"
        return {mine: PublishedTensor(other) for mine, other in names.items()}


def _published_rope(
    base: float, scaling: LinearScaling | Llama3Scaling | None
) -> dict[str, object]:
    rope: dict[str, object] = {"rope_type": "default", "rope_theta": base}
    if scaling is None:
        return rope
    rope |= {"rope_type": scaling.kind, "factor": scaling.factor}
    if isinstance(scaling, LinearScaling):
        return rope
    return rope | {
        "low_freq_factor": scaling.low_frequency_factor,
        "high_freq_factor": scaling.high_frequency_factor,
        ORIGINAL: scaling.original_context,
    }


def rope_of(config: Mapping[str, object]) -> object:
    """Return rotary positions in the form of transformers 5, as it reads them.

    A `rope_scaling` that is not empty replaces all of `rope_parameters`. Members outside of both
    complete them. Anything but an object is returned as it is, to be refused by name.
    """
    stated: object = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(stated, dict):
        return stated
    rope = dict(cast("dict[str, object]", stated))
    for name in ("rope_theta", PARTIAL):
        if name in config and (name != PARTIAL or config[name] is not None):
            rope.setdefault(name, config[name])
    rope.setdefault("rope_type", rope.get("type", "default"))
    if rope["rope_type"] == "llama3" and ORIGINAL in config:
        rope[ORIGINAL] = config[ORIGINAL]
    elif rope["rope_type"] == "llama3":
        rope.setdefault(ORIGINAL, config.get("max_position_embeddings"))
    return rope


class _Rope(PublishedConfig):
    """Rotary positions as `config.json` describes them."""

    rope_type: Literal["default", "linear", "llama3"] = "default"
    rope_theta: float = 10_000.0
    factor: float | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    original_max_position_embeddings: PositiveInt | None = None

    def scaling(self) -> LinearScaling | Llama3Scaling | None:
        """Return the scaling in the family's own form.

        Raises:
            ValidationError: its members are missing or out of range.
        """
        scaling = {"kind": self.rope_type, "factor": self.factor}
        if self.rope_type == "linear":
            return LinearScaling.model_validate(scaling)
        if self.rope_type == "default":
            return None
        return Llama3Scaling.model_validate(
            scaling
            | {
                "low_frequency_factor": self.low_freq_factor,
                "high_frequency_factor": self.high_freq_factor,
                "original_context": self.original_max_position_embeddings,
            }
        )


class _Config(PublishedConfig):
    """The common members of the three architectures' `config.json`.

    Absent members have the defaults of `transformers`.
    """

    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt | None = None
    hidden_size: PositiveInt
    head_dim: PositiveInt | None = None
    intermediate_size: PositiveInt
    max_position_embeddings: PositiveInt
    vocab_size: PositiveInt
    rms_norm_eps: float = 1e-6
    hidden_act: Literal["silu"] = "silu"
    tie_word_embeddings: bool = False
    rope_parameters: _Rope = _Rope()

    @model_validator(mode="before")
    @classmethod
    def _one_place_for_rope(cls, config: dict[str, object]) -> dict[str, object]:
        return {**config, "rope_parameters": rope_of(config)}

    def attention_biases(self) -> AttentionBiases:
        """Return the parts of attention with biases."""
        return "none"

    def mlp_biases(self) -> bool:
        """Return True if the MLP has biases."""
        return False

    def window(self) -> int:
        """Return the positions within which every layer attends to all before it."""
        return self.max_position_embeddings


class _Llama(_Config):
    """`config.json` of a LlamaForCausalLM."""

    attention_bias: bool = False
    mlp_bias: bool = False

    def attention_biases(self) -> AttentionBiases:
        return "qkvo" if self.attention_bias else "none"

    def mlp_biases(self) -> bool:
        return self.mlp_bias


class _Mistral(_Config):
    """`config.json` of a MistralForCausalLM, with a sliding window.

    The context is limited to the window, within which the window has no effect.
    """

    num_key_value_heads: PositiveInt | None = 8
    sliding_window: PositiveInt | None = 4096

    def window(self) -> int:
        return self.sliding_window or self.max_position_embeddings


class _Qwen2(_Config):
    """`config.json` of a Qwen2ForCausalLM, with biases of q, k and v."""

    num_key_value_heads: PositiveInt | None = 32
    use_sliding_window: bool = False
    sliding_window: PositiveInt | None = 4096

    def attention_biases(self) -> AttentionBiases:
        return "qkv"

    def window(self) -> int:
        used = self.sliding_window if self.use_sliding_window else None
        return used or self.max_position_embeddings


_CONFIGS: dict[str, type[_Config]] = {
    "LlamaForCausalLM": _Llama,
    "MistralForCausalLM": _Mistral,
    "Qwen2ForCausalLM": _Qwen2,
}


def _llama3(frequency: float, scaling: Llama3Scaling) -> float:
    """Scale a frequency down if its period exceeds the original context.

    Between `low` and `high` turns within that context, it is interpolated (Llama 3.1).
    """
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    turns = scaling.original_context * frequency / (2 * math.pi)  # within the original context
    if turns > high:
        return frequency
    if turns < low:
        return frequency / scaling.factor
    kept = (turns - low) / (high - low)
    return (1 - kept) * frequency / scaling.factor + kept * frequency
