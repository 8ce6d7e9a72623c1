"""Variation of attention over learned positions between inputs."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import (
    THEORY_CHECKS,
    MeasuredAdaptation,
    TheoryCheck,
    no_attention,
)

FEWEST = 2


@THEORY_CHECKS.register("prefix_attention")
class PrefixAttention(TheoryCheck):
    """Attention of the question's last token over learned positions.

    It is rescaled to sum to one over these positions. Its variation is the difference between the
    99th and the 1st percentile over `samples` test items, for each position.
    """

    title: ClassVar[str] = "Attention over learned positions"
    summary: ClassVar[str] = "It varies little between inputs, so the span is hardly used."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["prefix_attention"] = "prefix_attention"
    samples: int = Field(default=256, ge=2, le=4096)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without attention."""
        return no_attention(base)

    def adaptation_problems(
        self, base: Family, measured: tuple[MeasuredAdaptation, ...]
    ) -> tuple[Problem, ...]:
        """Return the problems of adaptations with fewer than 2 learned positions."""
        return tuple(
            Problem(
                pointer="/adaptation",
                code="too_few_learned_positions",
                detail=(
                    f"Job {adaptation.job} ({adaptation.method.name}) has {positions} learned "
                    f"positions. Attention can only vary between {FEWEST} or more."
                ),
                nearest=(FEWEST,),
            )
            for adaptation in measured
            if (positions := adaptation.method.extra_context_tokens()) < FEWEST
        )
