"""Whether attention outputs fall into one cluster a prefix."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.theory_check import THEORY_CHECKS, Measured, TheoryCheck, no_attention

FEWEST = 2
Place = tuple[int, int]
"""Which adaptation of a job's, and which seed of it."""


@THEORY_CHECKS.register("clusters")
class Clusters(TheoryCheck):
    """Nearest-centroid accuracy of the prefix from attention outputs, before and after.

    Random prefixes, as large as the trained ones, are the control: if they make clusters too,
    clusters show nothing that was learned.

    Outputs are those of attention layer `layer` at the last token of `samples` test questions, in
    turn of every task; centroids are those of the other `folds`. Several adaptations are told apart
    for every seed and base replicate that they share, as in the paper, whose figure has one
    prefix of each of four tasks; of one alone it is the seeds that started from one base replicate.
    """

    title: ClassVar[str] = "Clusters of prefixes"
    summary: ClassVar[str] = "Outputs of attention tell the prefix, and nothing of it without one."
    needs_base: ClassVar[bool] = True
    needs_adaptation: ClassVar[bool] = True

    name: Literal["clusters"] = "clusters"
    samples: int = Field(default=200, ge=8, le=4096)
    layer: int = Field(default=0, ge=0, le=1023)
    folds: int = Field(default=5, ge=2, le=20)

    def tokens(self, base: Family) -> int:
        """Those of its samples, if they fill the context."""
        return self.samples * base.shape().context

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """A model without that layer."""
        layers = base.shape().layers
        if self.layer < layers:
            return ()
        detail = f"There is no attention layer {self.layer}: this {base.name} has {layers}."
        return (Problem("/base_model", "no_such_layer", detail),)

    def adaptation_problems(
        self, base: Family, measured: tuple[Measured, ...]
    ) -> tuple[Problem, ...]:
        """What is more than learned positions, and what cannot be held beside each other."""
        return (*no_attention(base), *_unfit(measured), *self._uncomparable(measured))

    def groups(self, measured: tuple[Measured, ...]) -> tuple[tuple[Place, ...], ...]:
        """The prefixes that are told apart, by adaptation and seed; each on one base replicate."""
        found: dict[tuple[int, int], list[Place]] = {}
        for index, one in enumerate(measured):
            pairs = zip(one.seeds, one.base_replicates, strict=True)
            for seed, replicate in pairs:
                key = (replicate, seed if len(measured) > 1 else 0)
                found.setdefault(key, []).append((index, seed))
        return tuple(tuple(group) for group in found.values() if len(group) >= FEWEST)

    def _uncomparable(self, measured: tuple[Measured, ...]) -> Iterator[Problem]:
        groups = self.groups(measured)
        if not groups:
            detail = (
                "No two prefixes that could be told apart start from the same base replicate; name "
                "several jobs with equal seeds, or one whose seeds share a base replicate."
            )
            yield Problem("/adaptation", "too_few_prefixes", detail)
        elif self.samples < (least := 2 * self.folds * max(map(len, groups))):
            detail = f"{self.samples} samples are too few for so many folds and prefixes."
            yield Problem("/check/samples", "too_few_samples", detail, nearest=(least,))
        if len(lengths := {one.task.input_length() for one in measured}) > 1:
            detail = f"The questions are {sorted(lengths)} tokens long; take tasks of one length."
            yield Problem("/adaptation", "unequal_questions", detail)


def _unfit(measured: tuple[Measured, ...]) -> Iterator[Problem]:
    for one in measured:
        fits = one.method.first_layer_attention == "cannot_change"
        if not fits or not one.method.extra_context_tokens():
            detail = (
                f"Clusters are made by learned positions alone, and job {one.job} "
                f"trains {one.method.name}; name a job of a prefix, suffix or soft prompt."
            )
            yield Problem("/adaptation", "not_learned_positions", detail)
