"""Singular vectors of adapted matrices that are unlike all of the base's."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, MeasuredAdaptation, TheoryCheck


@THEORY_CHECKS.register("intruder_dimensions")
class IntruderDimensions(TheoryCheck):
    """Left singular vectors of tuned matrices that are new to the base.

    A vector among the first `directions` of the tuned matrix is an intruder if its largest absolute
    cosine with any left singular vector of the base's matrix is below `similarity`. The measured
    value is their number over all changed matrices, the mean over replicates. Adaptations that add
    positions change no matrix, so the number is undefined for them. Source: Shuttleworth et al.
    (2024), "LoRA vs full fine-tuning: an illusion of equivalence", section 3.
    """

    title: ClassVar[str] = "Intruder dimensions"
    summary: ClassVar[str] = "Directions of tuned matrices that no direction of the base resembles."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["intruder_dimensions"] = "intruder_dimensions"
    directions: int = Field(default=10, ge=1, le=256)
    similarity: float = Field(default=0.5, gt=0, lt=1)

    def adaptation_problems(
        self, base: Family, measured: tuple[MeasuredAdaptation, ...]
    ) -> tuple[Problem, ...]:
        """Return the problems of adaptations that add positions."""
        return tuple(
            Problem(
                pointer="/adaptation",
                code="no_changed_weights",
                detail=(
                    f"Job {one.job} ({one.method.name}) adds positions and changes no matrix, so "
                    "intruder dimensions are undefined. Name a job with a change of weights, such "
                    "as lora or full_finetuning."
                ),
            )
            for one in measured
            if one.method.extra_context_tokens() > 0
        )
