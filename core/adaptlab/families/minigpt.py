"""The experiments' decoder: a small GPT with learned positions and an untied head."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.decoder import Attention, DecoderLayout, heads_problems
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.shapes import ModelShape
from adaptlab.values import AUTO, Auto


@FAMILIES.register("minigpt")
class MiniGPT(Family):
    """A pre-norm decoder: attention and a four-fold tanh-GELU MLP in every block.

    `attention_norm` off drops the layer norm before attention, as in the paper's table 2.
    `attention` is causal; or bidirectional, and then the answer is masked at the input and filled
    in at all positions at once, each answer token read one position before its place as in the
    causal model; or none, and then blocks are MLPs alone and no position sees another.
    `dropout` acts on embeddings, attention patterns and what sublayers add, and only while every
    weight is trained: in pretraining and full fine-tuning.
    `pad_positions` stand before the content, hold token 0 and are seen by it, as in the paper;
    rows of a prefix and virtual tokens of a soft prompt take their place.
    """

    title: ClassVar[str] = "miniGPT"
    summary: ClassVar[str] = "GPT-2-shaped decoder of any size, trained here from scratch."
    reference: ClassVar[str] = "Radford et al. (2019); Petrov, Torr, Bibi (ICLR 2024), section 5"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1

    name: Literal["minigpt"] = "minigpt"
    layers: int = Field(default=1, ge=1, le=48)
    heads: int = Field(default=1, ge=1, le=64)
    width: int = Field(default=96, ge=1, le=4096)
    attention_norm: bool = True
    attention: Attention = "causal"
    dropout: float = Field(default=0.0, ge=0, le=0.9)
    pad_positions: int = Field(default=0, ge=0, le=4096)
    vocabulary: int | Auto = AUTO
    context: int | Auto = AUTO

    def resolved(self, vocabulary: int, context: int) -> Self:
        return self.model_copy(
            update={
                "vocabulary": vocabulary if self.vocabulary == AUTO else self.vocabulary,
                "context": context if self.context == AUTO else self.context,
            }
        )

    def problems(self) -> tuple[Problem, ...]:
        if self.attention == "none" and self.pad_positions:
            return (
                Problem(
                    pointer="/family/pad_positions",
                    code="pads_without_attention",
                    detail=f"Without attention nothing can see {self.pad_positions} pads.",
                    nearest=(0,),
                ),
            )
        return heads_problems(self.heads, self.width)

    def fills_in(self) -> bool:
        return self.attention == "bidirectional"

    def positions_before_content(self) -> int:
        return self.pad_positions

    def shape(self) -> ModelShape:
        assert isinstance(self.vocabulary, int)
        assert isinstance(self.context, int)
        return DecoderLayout(
            family=self.name,
            layers=self.layers,
            heads=self.heads,
            width=self.width,
            query_width=self.width,
            key_value_width=self.width,
            hidden=4 * self.width,
            context=self.context,
            vocabulary=self.vocabulary,
            attention_norm=self.attention_norm,
            attention=self.attention,
            pads=self.pad_positions,
        ).shape()
