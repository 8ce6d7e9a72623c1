"""AutoPrompt: one token at a time, from candidates of the gradient."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.hard_prompt import HardPrompt
from adaptlab.plugins.method import METHODS, MethodGroup, Passes
from adaptlab.plugins.shapes import ModelShape


@METHODS.register("autoprompt")
class AutoPrompt(HardPrompt):
    """Exchange one token per round for the best of some candidates.

    A round takes `accumulation` steps that add up the gradient at the embeddings, and one that
    chooses a slot at random, computes the loss of the `candidates` tokens to which the gradient
    points there, on new items, and accepts the best if it beats the present token. The published
    code accepts by accuracy, which on few items changes rarely.
    """

    title: ClassVar[str] = "AutoPrompt"
    group: ClassVar[MethodGroup] = "searches"
    place: ClassVar[int] = 0
    summary: ClassVar[str] = "Tokens found one by one among candidates of the gradient."
    formula: ClassVar[str] = "tᵢ ← argmin L over the top k of -E ∇ᵢL"
    reference: ClassVar[str] = "Shin et al. (EMNLP 2020)"
    default_learning_rate: ClassVar[float] = 1e-3  # of no effect
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-3)

    name: Literal["autoprompt"] = "autoprompt"
    candidates: int = Field(default=16, ge=1, le=256)
    """tokens tried per position and step"""
    accumulation: int = Field(default=1, ge=1, le=256)
    """steps whose gradients are added up before tokens are chosen"""

    def passes(self, steps: int, shape: ModelShape) -> Passes:
        rounds = steps // (self.accumulation + 1)
        return Passes(steps + rounds * min(self.candidates, shape.vocabulary), steps)
