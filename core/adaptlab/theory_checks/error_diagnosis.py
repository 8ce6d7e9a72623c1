"""Confusion of classes, predicted by the keys of label words."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.figures import counted
from adaptlab.plugins.family import Family
from adaptlab.plugins.text_task import TextTask
from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations

FEWEST_PAIRS = 10
"""Pairs of classes, below which a rank correlation says little."""


@THEORY_CHECKS.register("error_diagnosis")
class ErrorDiagnosis(OnDemonstrations):
    """Label words as anchors: whether classes with similar keys are confused.

    In each layer, the keys at the labels of two classes are compared along the `directions` main
    directions of the queries at the query's end, weighted by their spread. The distance of a pair
    of classes is the mean over episodes that have both. Its measured confusion is the mean
    probability of the wrong one of both labels in these episodes, if the query has one of the
    classes; probabilities are normalised over the two. On texts, classes are labels, and each set
    of demonstrations takes the place of the episodes. Spearman's rho is between closeness and
    confusion over all pairs of classes, in `layer`, counted from 0; by default it is at two thirds
    of all layers, as in the paper.

    Every replicate of the base is measured, after it is checked that each uses demonstrations.
    """

    title: ClassVar[str] = "Error diagnosis by keys"
    summary: ClassVar[str] = "Classes whose labels have similar keys are confused more often."
    passes: ClassVar[int] = 3
    """Two to see whether the base uses demonstrations, and one that is observed."""

    name: Literal["error_diagnosis"] = "error_diagnosis"
    directions: int = Field(default=10, ge=1, le=512)
    layer: int | None = Field(default=None, ge=0, le=255)

    def layer_of(self, layers: int) -> int:
        """Return the layer whose rho decides."""
        return 2 * layers // 3 if self.layer is None else self.layer

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Return the problems of the base, of few classes and of the layer."""
        if faults := super().problems(base):
            return faults
        classes, pointer, advice = self._classes()
        pairs, layers = classes * (classes - 1) // 2, base.shape().layers
        if pairs < FEWEST_PAIRS:
            detail = (
                f"{classes} classes are {counted(pairs, 'pair')}, too few for a rank correlation. "
                f"{advice}, of at least {FEWEST_PAIRS} pairs."
            )
            return (Problem(pointer, "too_few_pairs", detail, nearest=(5,)),)
        if self.layer is not None and self.layer >= layers:
            detail = f"There is no layer {self.layer}. The model has {layers}, counted from 0."
            return (Problem("/check/layer", "no_such_layer", detail, nearest=(layers - 1,)),)
        return ()

    def _classes(self) -> tuple[int, str, str]:
        """Return the number of classes, its pointer, and what to use instead."""
        if isinstance(self.task, Episodes):
            return self.task.kinds, "/check/task/kinds", "Use `kinds: 5` or more"
        assert isinstance(self.task, TextTask)
        words = self.task.choices() or {}
        return len(words), "/check/task/label/words", "Use a dataset with 5 labels or more"
