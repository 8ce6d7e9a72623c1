"""Equations 6 and 7 for what a job has trained."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck, no_attention


@THEORY_CHECKS.register("relative_attention")
class RelativeAttention(TheoryCheck):
    """Relative attention with and without an adaptation, on `samples` test items of its task.

    It stays as it is under methods that declare that they cannot change it, in the first layer and,
    with the layer's input held equal, in deeper ones; of the others it is measured whether it
    moves. A prefix is held to equation 7 as well.
    """

    title: ClassVar[str] = "Relative attention of an adaptation"
    summary: ClassVar[str] = "What was trained leaves relative attention as it is, or moves it."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["relative_attention"] = "relative_attention"
    samples: int = Field(default=16, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Those of its samples, if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model without attention."""
        return no_attention(base)
