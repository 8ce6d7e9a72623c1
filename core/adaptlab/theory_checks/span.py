"""Span of a trained prefix's contribution, and the part that is used."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import (
    THEORY_CHECKS,
    MeasuredAdaptation,
    TheoryCheck,
    no_attention,
    no_prefixes,
)


@THEORY_CHECKS.register("span")
class Span(TheoryCheck):
    """The dimensions of a prefix's contribution in every head.

    They are measured over all tokens of `samples` test items.
    """

    title: ClassVar[str] = "Span of a prefix"
    summary: ClassVar[str] = "A prefix of n_S rows spans at most n_S dimensions and uses fewer."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["span"] = "span"
    samples: int = Field(default=16, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without attention."""
        return no_attention(base)

    def adaptation_problems(
        self, base: Family, measured: tuple[MeasuredAdaptation, ...]
    ) -> tuple[Problem, ...]:
        """Return the problems of other methods and of prefixes that are too long."""
        return no_prefixes(measured) or tuple(_too_long(base, measured))


def _too_long(base: Family, measured: tuple[MeasuredAdaptation, ...]) -> Iterator[Problem]:
    shape = base.shape()
    widths = [site.inputs // shape.heads for site in shape.layer_sites("attention_mix")]
    for adaptation in measured:
        length, most = adaptation.method.extra_context_tokens(), min(widths, default=0) - 1
        if widths and length > most:
            detail = (
                f"The prefix of job {adaptation.job} has {length} rows, and a head of this "
                f"{base.name} has {most + 1} dimensions, so the claim could not fail. Name a job "
                f"with a prefix of at most {most} rows."
            )
            yield Problem("/adaptation", "prefix_too_long", detail, nearest=(most,))
