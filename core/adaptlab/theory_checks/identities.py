"""Equations 6 and 7 and what follows from them, on a base model."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck

Length = Annotated[int, Field(ge=1, le=64)]


@THEORY_CHECKS.register("identities")
class Identities(TheoryCheck):
    """Random prefixes of the `lengths` given, and LoRA on queries, on `samples` random inputs."""

    title: ClassVar[str] = "Identities of prefixes"
    summary: ClassVar[str] = (
        "A prefix leaves relative attention as it is; LoRA on queries moves it."
    )
    needs_base: ClassVar[bool] = True

    name: Literal["identities"] = "identities"
    lengths: Annotated[tuple[Length, ...], Field(min_length=1, max_length=8)] = (1, 3)
    samples: int = Field(default=8, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Those of its samples, if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model without attention."""
        shape = base.shape()
        if shape.layers and shape.heads:
            return ()
        detail = f"The identities are of attention, which this {base.name} does not have."
        return (Problem("/base_model", "no_attention_to_check", detail),)
