"""Effect of a trained prefix in the first layer on second-layer scores."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import (
    THEORY_CHECKS,
    MeasuredAdaptation,
    TheoryCheck,
    no_prefixes,
)


@THEORY_CHECKS.register("second_layer")
class SecondLayer(TheoryCheck):
    """The four terms of second-layer scores and their sizes on test items.

    They are exact for two adjacent attention layers. A residual stream, a norm or an MLP between
    them would leave a remainder of any size. The check uses `samples` test items.
    """

    title: ClassVar[str] = "Four terms of second-layer scores"
    summary: ClassVar[str] = "A prefix affects the scores of the next layer by four terms."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["second_layer"] = "second_layer"
    samples: int = Field(default=16, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without adjacent attention layers."""
        if base.attends_twice():
            return ()
        detail = (
            "The four terms are exact only for two adjacent attention layers, which this "
            f"{base.name} does not have. Name a `formal` base whose first two attention layers are "
            "adjacent."
        )
        return (Problem("/base_model", "layers_do_not_follow", detail),)

    def adaptation_problems(
        self, base: Family, measured: tuple[MeasuredAdaptation, ...]
    ) -> tuple[Problem, ...]:
        """Return the problems of methods that are not only a prefix."""
        return no_prefixes(measured)
