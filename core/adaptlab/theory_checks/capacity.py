"""Unconditional capacity of a single first token."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck


@THEORY_CHECKS.register("capacity")
class CapacityCheck(TheoryCheck):
    """Distinct greedy completions of `length` tokens after one first token.

    The first token is each token of the vocabulary, `soft_tokens` random virtual tokens, and
    `directed_tokens` virtual tokens that are trained for `steps` steps.
    """

    title: ClassVar[str] = "Unconditional capacity"
    summary: ClassVar[str] = "A virtual first token has more completions than a real one."
    needs_base: ClassVar[bool] = True

    name: Literal["capacity"] = "capacity"
    length: int = Field(default=10, ge=1, le=1024)
    soft_tokens: int = Field(default=1024, ge=1, le=65_536)
    directed_tokens: int = Field(default=64, ge=1, le=4096)
    steps: int = Field(default=50, ge=1, le=10_000)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all completions; training passes count three times."""
        started = base.shape().vocabulary + self.soft_tokens + 3 * self.steps * self.directed_tokens
        return started * self.length

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without a causal mask, or a short context."""
        if base.fills_in():
            detail = (
                f"This {base.name} has no causal mask and cannot generate completions. Name a "
                "causal base model."
            )
            return (Problem("/base_model", "completes_nothing", detail),)
        if self.length > (context := base.shape().context):
            detail = (
                f"Completions of {self.length} tokens do not fit in a context of {context}. Use a "
                f"length of {context} or less."
            )
            return (Problem("/base_model", "context_too_small", detail, nearest=(context,)),)
        return ()
