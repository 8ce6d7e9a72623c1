"""How attention over learned positions varies over inputs."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, Measured, TheoryCheck, no_attention

FEWEST = 2


@THEORY_CHECKS.register("prefix_attention")
class PrefixAttention(TheoryCheck):
    """Attention of the question's last token over learned positions, on `samples` test items.

    It is renormalised to one over them; what varies is each position's gap between its 99th and 1st
    percentile over the items.
    """

    title: ClassVar[str] = "Attention over learned positions"
    summary: ClassVar[str] = "It varies little over inputs, so that the span is hardly used."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["prefix_attention"] = "prefix_attention"
    samples: int = Field(default=256, ge=2, le=4096)

    def tokens(self, base: Family) -> int:
        """Those of its samples, if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model without attention."""
        return no_attention(base)

    def adaptation_problems(
        self, base: Family, measured: tuple[Measured, ...]
    ) -> tuple[Problem, ...]:
        """Adaptations with fewer than two learned positions."""
        return tuple(
            Problem(
                pointer="/adaptation",
                code="too_few_learned_positions",
                detail=(
                    f"The job {one.job} ({one.method.name}) has {positions} learned "
                    f"positions, and attention can vary only between {FEWEST} or more."
                ),
                nearest=(FEWEST,),
            )
            for one in measured
            if (positions := one.method.extra_context_tokens()) < FEWEST
        )
