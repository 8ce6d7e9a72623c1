"""Theorems 1 and 2 and both generalisations."""

from typing import ClassVar, Literal

from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck


@THEORY_CHECKS.register("theorems")
class Theorems(TheoryCheck):
    """Models built by formula in family `formal` and run, exhaustively where they are small."""

    title: ClassVar[str] = "Theorems 1 and 2"
    summary: ClassVar[str] = "Every map that the constructions promise, computed by real models."

    name: Literal["theorems"] = "theorems"
    effort: Literal["small", "full"] = "small"
