"""The decoder of the paper's experiments, a small GPT."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.decoder import Attention, DecoderLayout, heads_problems
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.shapes import ModelShape
from adaptlab.values import AUTO, Auto


@FAMILIES.register("minigpt")
class MiniGPT(Family):
    """A pre-norm decoder with attention and an MLP in every block.

    Positions are learned, the head is untied, and the MLP is four times as wide as the model, with
    tanh-GELU.

    - Without `attention_norm` there is no layer norm before attention, as in the paper's table 2.
    - With `attention: bidirectional` the answer is masked at the input and predicted at once. As in
      the causal model, a token is predicted one position before its own. With `none`, blocks are
      MLPs only and no position attends to another.
    - `dropout` applies to embeddings, attention patterns and outputs of sublayers. It is used only
      if every weight is trained: in pretraining and full fine-tuning.
    - `pad_positions` is the number of positions before the content that hold token 0 and are
      visible to it, as in the paper. Rows of a prefix and virtual tokens of a soft prompt replace
      them.
    """

    title: ClassVar[str] = "miniGPT"
    summary: ClassVar[str] = "GPT-2-shaped decoder of any size, trained here from scratch."
    reference: ClassVar[str] = "Radford et al. (2019); Petrov, Torr, Bibi (ICLR 2024), section 5"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1

    name: Literal["minigpt"] = "minigpt"
    layers: int = Field(default=1, ge=1, le=48)
    """number of blocks"""
    heads: int = Field(default=1, ge=1, le=64)
    """attention heads per layer"""
    width: int = Field(default=96, ge=1, le=4096)
    """size of the vector at each position"""
    attention_norm: bool = True
    """LayerNorm before attention"""
    attention: Attention = "causal"
    """causal, in both directions, or none"""
    dropout: float = Field(default=0.0, ge=0, le=0.9)
    """share of values set to zero while weights are trained"""
    pad_positions: int = Field(default=0, ge=0, le=4096)
    """positions before the content that a prefix or prompt can replace"""
    vocabulary: int | Auto = AUTO
    """number of tokens"""
    context: int | Auto = AUTO
    """largest number of positions"""

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
                    detail=f"Without attention, no position can attend to {self.pad_positions} pad "
                    "positions. Use 0.",
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
