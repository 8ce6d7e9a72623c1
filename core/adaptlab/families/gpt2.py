"""GPT-2 of any size, with its published weights."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from adaptlab.errors import Problem
from adaptlab.plugins.decoder import DecoderLayout, heads_problems
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.shapes import ModelShape
from adaptlab.values import AUTO, Auto
from adaptlab.weights.huggingface import PublishedConfig, PublishedFamily, PublishedTensor

_ALIASES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
"""Members under the names of other architectures. In `transformers` they win over GPT-2's own."""
_PLAIN_ATTENTION: Mapping[str, bool] = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
}
_GELU = ("gelu_new", "gelu_pytorch_tanh")


class _Config(PublishedConfig):
    """`config.json` of a GPT2LMHeadModel, with the defaults of `transformers`."""

    n_layer: PositiveInt
    n_head: PositiveInt
    n_embd: PositiveInt
    n_inner: PositiveInt | None = None
    n_positions: PositiveInt
    vocab_size: PositiveInt
    layer_norm_epsilon: float = 1e-5
    activation_function: Literal["gelu_new", "gelu_pytorch_tanh"] = "gelu_new"
    tie_word_embeddings: bool = True
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    add_cross_attention: Literal[False] = False

    @model_validator(mode="before")
    @classmethod
    def _by_own_names(cls, config: dict[str, object]) -> dict[str, object]:
        aliased = {own: config[other] for other, own in _ALIASES.items() if other in config}
        return {**config, **aliased}


@FAMILIES.register("gpt2")
class GPT2(PublishedFamily):
    """A pre-norm decoder with learned positions, biases and a tied head.

    `hidden` is the width of the MLP; `auto` is four times the width.
    """

    title: ClassVar[str] = "GPT-2"
    summary: ClassVar[str] = "GPT-2 and its published weights: learned positions, tied head."
    reference: ClassVar[str] = "Radford et al. (2019)"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1
    architectures: ClassVar[tuple[str, ...]] = ("GPT2LMHeadModel",)
    prefix: ClassVar[str] = "transformer."
    buffers: ClassVar[tuple[str, ...]] = (".attn.bias", ".attn.masked_bias")

    name: Literal["gpt2"] = "gpt2"
    layers: int = Field(default=2, ge=1, le=128)
    """number of blocks"""
    heads: int = Field(default=2, ge=1, le=256)
    """attention heads per layer"""
    width: int = Field(default=96, ge=1, le=16384)
    """size of the vector at each position"""
    hidden: Annotated[int, Field(ge=1, le=131072)] | Auto = AUTO
    """width of the MLP's hidden layer"""
    tied_head: bool = True
    """the output matrix is that of the embedding"""
    norm_epsilon: float = Field(default=1e-5, gt=0, le=1)
    """added to the variance in each normalisation"""
    vocabulary: Annotated[int, Field(ge=1, le=10**7)] | Auto = AUTO
    """number of tokens"""
    context: Annotated[int, Field(ge=1, le=10**6)] | Auto = AUTO
    """largest number of positions"""

    def resolved(self, vocabulary: int, context: int) -> Self:
        return self.model_copy(
            update={
                "hidden": 4 * self.width if self.hidden == AUTO else self.hidden,
                "vocabulary": vocabulary if self.vocabulary == AUTO else self.vocabulary,
                "context": context if self.context == AUTO else self.context,
            }
        )

    def problems(self) -> tuple[Problem, ...]:
        return heads_problems(self.heads, self.width)

    def shape(self) -> ModelShape:
        assert isinstance(self.hidden, int)
        assert isinstance(self.vocabulary, int)
        assert isinstance(self.context, int)
        return DecoderLayout(
            family=self.name,
            layers=self.layers,
            heads=self.heads,
            width=self.width,
            query_width=self.width,
            key_value_width=self.width,
            hidden=self.hidden,
            context=self.context,
            vocabulary=self.vocabulary,
            tied_head=self.tied_head,
        ).shape()

    @classmethod
    def computes(cls, config: Mapping[str, object]) -> bool:
        has_plain_attention = all(
            config.get(name, value) == value for name, value in _PLAIN_ATTENTION.items()
        )
        return has_plain_attention and config.get("activation_function", _GELU[0]) in _GELU

    def library_members(self) -> dict[str, object]:
        return {
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "hidden_size": self.width,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.context,
            "layer_norm_epsilon": self.norm_epsilon,
            "tie_word_embeddings": self.tied_head,
        }

    def published_config(self) -> dict[str, object]:
        return {
            **self.library_members(),
            "architectures": [*self.architectures],
            "model_type": "gpt2",
            "n_inner": self.hidden,
            "activation_function": _GELU[0],
            "bos_token_id": None,
            "eos_token_id": None,
        }

    @classmethod
    def from_published(
        cls, architecture: str, config: Mapping[str, object], stored: Mapping[str, tuple[int, ...]]
    ) -> Self:
        published = _Config.model_validate(config)
        return cls(
            layers=published.n_layer,
            heads=published.n_head,
            width=published.n_embd,
            hidden=4 * published.n_embd if published.n_inner is None else published.n_inner,
            tied_head=published.tie_word_embeddings,
            norm_epsilon=published.layer_norm_epsilon,
            vocabulary=published.vocab_size,
            context=published.n_positions,
        )

    def published_tensors(self) -> dict[str, PublishedTensor]:
        tensors = {
            "embed.weight": PublishedTensor("wte.weight"),
            "positions.weight": PublishedTensor("wpe.weight"),
            "final_norm.weight": PublishedTensor("ln_f.weight"),
            "final_norm.bias": PublishedTensor("ln_f.bias"),
            "unembed.weight": PublishedTensor("lm_head.weight"),
        }
        for layer in range(self.layers):
            ours, theirs = f"blocks.{layer}", f"h.{layer}"
            for kind in ("weight", "bias"):
                conv = kind == "weight"  # Conv1D stores matrices as [inputs, outputs]
                for part, letter in enumerate("qkv"):
                    start, rows = part * self.width, 3 * self.width
                    fused = PublishedTensor(f"{theirs}.attn.c_attn.{kind}", conv, start, rows)
                    tensors[f"{ours}.attn.{letter}.{kind}"] = fused
                for mine, other in (
                    ("attn.o", "attn.c_proj"),
                    ("mlp.up", "mlp.c_fc"),
                    ("mlp.down", "mlp.c_proj"),
                ):
                    place = PublishedTensor(f"{theirs}.{other}.{kind}", conv)
                    tensors[f"{ours}.{mine}.{kind}"] = place
                for mine, other in (("attn.norm", "ln_1"), ("mlp.norm", "ln_2")):
                    tensors[f"{ours}.{mine}.{kind}"] = PublishedTensor(f"{theirs}.{other}.{kind}")
        return tensors
