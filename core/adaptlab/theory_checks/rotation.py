"""Rotation of a sphere by a shift, by a mixture and by a matrix."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck


@THEORY_CHECKS.register("rotation")
class Rotation(TheoryCheck):
    """The best approximation of a rotation by each kind of update.

    The rotation is in every plane but one.
    """

    title: ClassVar[str] = "Rotation of a sphere"
    summary: ClassVar[str] = "A matrix can rotate; a shift or a mixture with a vector cannot."

    name: Literal["rotation"] = "rotation"
    dimensions: int = Field(default=8, ge=4, le=64)
