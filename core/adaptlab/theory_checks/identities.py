"""Equations 6 and 7 and their consequences, on a base model."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck

Length = Annotated[int, Field(ge=1, le=64)]


@THEORY_CHECKS.register("identities")
class Identities(TheoryCheck):
    """Random prefixes of several `lengths`, and LoRA on queries.

    The check uses `samples` random inputs.
    """

    title: ClassVar[str] = "Identities of prefixes"
    summary: ClassVar[str] = (
        "A prefix leaves relative attention unchanged; LoRA on queries changes it."
    )
    needs_base: ClassVar[bool] = True

    name: Literal["identities"] = "identities"
    lengths: Annotated[tuple[Length, ...], Field(min_length=1, max_length=8)] = (1, 3)
    samples: int = Field(default=8, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without attention."""
        shape = base.shape()
        if shape.layers and shape.heads:
            return ()
        detail = (
            f"The check measures attention with the same number of heads in every layer, which "
            f"this {base.name} does not have. Name another base model."
        )
        return (Problem("/base_model", "no_attention_to_check", detail),)
