"""Theorems 1 and 2 and their generalisations."""

from typing import ClassVar, Literal

from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck


@THEORY_CHECKS.register("theorems")
class Theorems(TheoryCheck):
    """Models of the family `formal` that are built by formula and run.

    Small ones are checked exhaustively.
    """

    title: ClassVar[str] = "Theorems 1 and 2"
    summary: ClassVar[str] = "Every map of the constructions, computed by models."

    name: Literal["theorems"] = "theorems"
    effort: Literal["small", "full"] = "small"
