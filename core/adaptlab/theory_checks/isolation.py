"""Isolation of the label words of demonstrations."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations


@THEORY_CHECKS.register("isolation")
class Isolation(OnDemonstrations):
    """Label words as anchors: what a base loses if they cannot read the text.

    On test items of `task`, the labels of the demonstrations may attend to nothing but themselves,
    in the first or in the last `layers` layers. It is counted how many answers change. Controls
    isolate as many other tokens of the demonstrations: random words, the separators before the
    labels, and the line breaks after them.

    The first layers are compared with the last ones if `layers` is at least 2: the outputs of the
    very last layer at the labels reach no answer.

    Every replicate of the base is measured, and limits are over replicates and items. First it is
    checked that each uses demonstrations: its accuracy is above chance, and above that with
    permuted labels. Otherwise nothing is claimed about labels.
    """

    title: ClassVar[str] = "Isolated label words"
    summary: ClassVar[str] = "Labels of demonstrations gather the text in the first layers."
    passes: ClassVar[int] = 10
    """Two to see whether the base uses demonstrations, and eight with isolated tokens."""

    name: Literal["isolation"] = "isolation"
    layers: int = Field(default=1, ge=1, le=64)

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problems of the base model, and of too many layers."""
        if faults := super().problems(base):
            return faults
        shape = base.shape()
        if 2 * self.layers > shape.layers:
            most = shape.layers // 2
            detail = (
                f"The first and the last {self.layers} of {shape.layers} layers overlap. Use "
                f"{most} or fewer."
            )
            nearest = (most,) if most else ()
            return (Problem("/check/layers", "layers_overlap", detail, nearest=nearest),)
        return ()
