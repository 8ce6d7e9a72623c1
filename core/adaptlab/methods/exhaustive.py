"""Exhaustive search over all prompts of a length."""

import math
from typing import ClassVar, Literal

from adaptlab.plugins.hard_prompt import HardPrompt
from adaptlab.plugins.method import METHODS, MethodGroup, Passes
from adaptlab.plugins.shapes import ModelShape

MOST_PROMPTS = 2**16


@METHODS.register("exhaustive")
class Exhaustive(HardPrompt):
    """Try every prompt of `length` tokens and keep the best.

    All are compared by their loss on the items of the first step, in equal parts over the steps.
    This is the optimum that other searches can be measured against, where the vocabulary is small
    enough.
    """

    title: ClassVar[str] = "Exhaustive search"
    group: ClassVar[MethodGroup] = "searches"
    place: ClassVar[int] = 4
    summary: ClassVar[str] = "The best of all prompts, on small vocabularies."
    formula: ClassVar[str] = "argmin L(t₁ … t_p) over all V^p prompts"
    reference: ClassVar[str] = "The optimum by definition"
    keeps_best: ClassVar[bool] = False
    default_learning_rate: ClassVar[float] = 1e-3  # of no effect
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-3)

    name: Literal["exhaustive"] = "exhaustive"

    def largest_size(self, shape: ModelShape) -> int:
        """Return the longest length with at most `MOST_PROMPTS` prompts."""
        return max(1, int(math.log(MOST_PROMPTS) / math.log(max(2, shape.vocabulary)) + 1e-9))

    def prompts(self, shape: ModelShape) -> int:
        """Return the number of prompts of this length."""
        assert isinstance(self.length, int)
        return int(shape.vocabulary**self.length)

    def passes(self, steps: int, shape: ModelShape) -> Passes:
        return Passes(steps + self.prompts(shape), steps)
