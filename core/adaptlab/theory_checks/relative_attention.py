"""Equations 6 and 7 for a trained adaptation."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck, no_attention


@THEORY_CHECKS.register("relative_attention")
class RelativeAttention(TheoryCheck):
    """Relative attention with and without an adaptation, on its test items.

    Methods that declare that they cannot change it must leave it unchanged: in the first layer, and
    with equal inputs in deeper layers. For other methods the change is measured. A prefix must also
    satisfy equation 7. The check uses `samples` test items.
    """

    title: ClassVar[str] = "Relative attention of an adaptation"
    summary: ClassVar[str] = "The adaptation leaves relative attention unchanged, or changes it."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["relative_attention"] = "relative_attention"
    samples: int = Field(default=16, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without attention."""
        return no_attention(base)
