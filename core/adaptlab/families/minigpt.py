"""The experiments' decoder: a small GPT with learned positions and an untied head."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from adaptlab.decoder import DecoderLayout, heads_problems
from adaptlab.errors import Problem
from adaptlab.family import FAMILIES, Family
from adaptlab.shapes import ModelShape
from adaptlab.values import AUTO, Auto


@FAMILIES.register("minigpt")
class MiniGPT(Family):
    """A pre-norm causal decoder: attention and a four-fold tanh-GELU MLP in every block.

    `attention_norm` off drops the layer norm before attention, as in the paper's table 2.
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
        return heads_problems(self.heads, self.width)

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
        ).shape()
