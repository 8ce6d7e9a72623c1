"""Clusters of attention outputs by prefix."""

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
)

FEWEST = 2
Place = tuple[int, int]
"""The index of an adaptation, and one of its seeds."""


@THEORY_CHECKS.register("clusters")
class Clusters(TheoryCheck):
    """Nearest-centroid accuracy of recognising prefixes by attention outputs.

    It is measured with and without the prefixes. Random prefixes of the same size are the control:
    if they form clusters too, clusters are no evidence of learning.

    Outputs are those of attention layer `layer` at the last token of `samples` test questions, with
    questions of each task in turn. Centroids are computed from the other `folds`. Several
    adaptations are compared for every seed and base replicate that they share, as in the paper's
    figure with one prefix for each of four tasks. For a single adaptation, the seeds that started
    from the same base replicate are compared.
    """

    title: ClassVar[str] = "Clusters of prefixes"
    summary: ClassVar[str] = "Attention outputs identify the prefix; without prefixes they do not."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["clusters"] = "clusters"
    samples: int = Field(default=200, ge=8, le=4096)
    layer: int = Field(default=0, ge=0, le=1023)
    folds: int = Field(default=5, ge=2, le=20)

    def tokens(self, base: Family) -> int:
        """Return the tokens of all samples if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problem of a model without this layer."""
        layers = base.shape().layers
        if self.layer < layers:
            return ()
        detail = (
            f"There is no attention layer {self.layer}. This {base.name} has {layers}, counted "
            "from 0."
        )
        return (Problem("/base_model", "no_such_layer", detail),)

    def adaptation_problems(
        self, base: Family, measured: tuple[MeasuredAdaptation, ...]
    ) -> tuple[Problem, ...]:
        """Return the problems of adaptations that cannot be compared."""
        return (*no_attention(base), *_unfit(measured), *self._uncomparable(measured))

    def groups(self, measured: tuple[MeasuredAdaptation, ...]) -> tuple[tuple[Place, ...], ...]:
        """Return the groups of prefixes on one base replicate to compare."""
        groups: dict[tuple[int, int], list[Place]] = {}
        for index, adaptation in enumerate(measured):
            pairs = zip(adaptation.seeds, adaptation.base_replicates, strict=True)
            for seed, replicate in pairs:
                key = (replicate, seed if len(measured) > 1 else 0)
                groups.setdefault(key, []).append((index, seed))
        return tuple(tuple(group) for group in groups.values() if len(group) >= FEWEST)

    def _uncomparable(self, measured: tuple[MeasuredAdaptation, ...]) -> Iterator[Problem]:
        groups = self.groups(measured)
        if not groups:
            detail = (
                "No two of the prefixes start from the same base replicate, so they cannot be "
                "compared. Name several jobs with equal seeds, or a job whose seeds share a base "
                "replicate."
            )
            yield Problem("/adaptation", "too_few_prefixes", detail)
        elif self.samples < (least := 2 * self.folds * max(map(len, groups))):
            detail = (
                f"{self.samples} samples are too few for {self.folds} folds and "
                f"{max(map(len, groups))} prefixes. Use {least} or more."
            )
            yield Problem("/check/samples", "too_few_samples", detail, nearest=(least,))
        if len(lengths := {adaptation.task.input_length() for adaptation in measured}) > 1:
            listed = " and ".join(str(length) for length in sorted(lengths))
            detail = f"The questions have {listed} tokens. Name jobs with questions of one length."
            yield Problem("/adaptation", "unequal_questions", detail)


def _unfit(measured: tuple[MeasuredAdaptation, ...]) -> Iterator[Problem]:
    for adaptation in measured:
        fits = adaptation.method.first_layer_attention == "cannot_change"
        if not fits or not adaptation.method.extra_context_tokens():
            detail = (
                f"The check measures learned positions only, and job {adaptation.job} trains "
                f"{adaptation.method.name}. Name a job of a prefix, suffix or soft prompt."
            )
            yield Problem("/adaptation", "not_learned_positions", detail)
