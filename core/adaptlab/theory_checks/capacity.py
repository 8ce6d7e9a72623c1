"""How many completions one first token can start."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck


@THEORY_CHECKS.register("capacity")
class CapacityCheck(TheoryCheck):
    """Distinct greedy completions of `length` tokens, from hard and from soft first tokens."""

    title: ClassVar[str] = "Unconditional capacity"
    summary: ClassVar[str] = "A soft first token starts more completions than a hard one."
    needs_base: ClassVar[bool] = True

    name: Literal["capacity"] = "capacity"
    length: int = Field(default=10, ge=1, le=1024)
    soft_tokens: int = Field(default=1024, ge=1, le=65_536)
    directed_tokens: int = Field(default=64, ge=1, le=4096)
    steps: int = Field(default=50, ge=1, le=10_000)

    def tokens(self, base: Family) -> int:
        """Those of all completions; a directed one takes every step there and back."""
        started = base.shape().vocabulary + self.soft_tokens + 3 * self.steps * self.directed_tokens
        return started * self.length

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model without a causal mask, or with too small a context."""
        if base.fills_in():
            detail = f"This {base.name} fills answers in and completes nothing; take a causal one."
            return (Problem("/base_model", "completes_nothing", detail),)
        if self.length > (context := base.shape().context):
            detail = f"Completions of {self.length} tokens do not fit in a context of {context}."
            return (Problem("/base_model", "context_too_small", detail, nearest=(context,)),)
        return ()
