"""What a trained prefix in the first layer does to the scores of the second."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.families.formal import Formal
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, Measured, TheoryCheck, no_prefixes


@THEORY_CHECKS.register("second_layer")
class SecondLayer(TheoryCheck):
    """The four terms of the second layer's scores, with their sizes, on `samples` test items.

    They are exact where one attention layer follows on another with nothing between them: a
    residual stream, a norm or an MLP would leave a remainder of any size.
    """

    title: ClassVar[str] = "Four terms of second-layer scores"
    summary: ClassVar[str] = "A prefix in one layer reaches the next one's scores by four terms."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["second_layer"] = "second_layer"
    samples: int = Field(default=16, ge=1, le=256)

    def tokens(self, base: Family) -> int:
        """Those of its samples, if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model whose first two attention layers do not follow directly on each other."""
        if isinstance(base, Formal) and base.attends_twice():
            return ()
        detail = (
            "The four terms are exact for two attention layers with nothing between them, which "
            f"this {base.name} lacks; take a `formal` base whose stack has two in a row."
        )
        return (Problem("/base_model", "layers_do_not_follow", detail),)

    def adaptation_problems(
        self, base: Family, measured: tuple[Measured, ...]
    ) -> tuple[Problem, ...]:
        """What is not a prefix."""
        return no_prefixes(measured)
