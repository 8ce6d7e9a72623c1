"""The span of what a trained prefix adds, and how much of it is used."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import (
    THEORY_CHECKS,
    Measured,
    TheoryCheck,
    no_attention,
    no_prefixes,
)


@THEORY_CHECKS.register("span")
class Span(TheoryCheck):
    """The dimensions of what a prefix adds in every head, over all tokens of `samples` items."""

    title: ClassVar[str] = "Span of a prefix"
    summary: ClassVar[str] = "A prefix of n_S rows adds in n_S dimensions at most, and uses fewer."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["span"] = "span"
    samples: int = Field(default=16, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Those of its samples, if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model without attention."""
        return no_attention(base)

    def adaptation_problems(
        self, base: Family, measured: tuple[Measured, ...]
    ) -> tuple[Problem, ...]:
        """What is not a prefix, or so long a one that nothing could contradict the claim."""
        return no_prefixes(measured) or tuple(_too_long(base, measured))


def _too_long(base: Family, measured: tuple[Measured, ...]) -> Iterator[Problem]:
    shape = base.shape()
    widths = [site.inputs // shape.heads for site in shape.layer_sites("attention_mix")]
    for one in measured:
        length, most = one.method.extra_context_tokens(), min(widths, default=0) - 1
        if widths and length > most:
            detail = (
                f"The prefix of job {one.job} has {length} rows and a head of this "
                f"{base.name} {most + 1} dimensions, which it spans whatever is true."
            )
            yield Problem("/adaptation", "prefix_too_long", detail, nearest=(most,))
