"""A rotation of a sphere, by a shift, by a mixture with one vector and by a matrix."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck


@THEORY_CHECKS.register("rotation")
class Rotation(TheoryCheck):
    """What each way of updating can do of a rotation in every plane but one."""

    title: ClassVar[str] = "Rotation of a sphere"
    summary: ClassVar[str] = "No shift and no mixture with one vector rotates; a matrix does."

    name: Literal["rotation"] = "rotation"
    dimensions: int = Field(default=8, ge=4, le=64)
