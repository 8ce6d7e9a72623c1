"""Reports of runs of which some replicates stop early."""

from collections import defaultdict

import pytest
import torch
from tests.engine.making import Remembering
from torch import Tensor

from adaptlab.engine.training.allocate import Gradient, Trainables
from adaptlab.runs.events import (
    MetricPoint,
    Metrics,
    Progress,
    ReplicateResult,
    ReplicatesDecided,
)
from adaptlab.specs.resolved import ResolvedAdapt


def changed(spec: ResolvedAdapt, **training: object) -> ResolvedAdapt:
    return spec.model_copy(update={"training": spec.training.model_copy(update=training)})


def points(observer: Remembering) -> list[MetricPoint]:
    return [point for metrics in observer.of(Metrics) for point in metrics.points]


def curves(observer: Remembering) -> dict[int, dict[int, float]]:
    """The validation losses by replicate and step."""
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for point in points(observer):
        if point.name == "validation_loss" and point.value is not None:
            found[point.replicate][point.step] = point.value
    return found


class Counting:
    """Return the number of replicates in the model at every step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: dict[int, int] = defaultdict(int)
        self.step = 0
        gradient = Trainables.gradient

        def counted(trainables: Trainables, loss: Tensor, dtype: torch.dtype | None) -> Gradient:
            found = gradient(trainables, loss, dtype)
            self.rows[self.step] += len(found.flat)
            return found

        monkeypatch.setattr(Trainables, "gradient", counted)

    def emit(self, progress: Progress) -> None:
        self.step = progress.step


def decided(observer: Remembering) -> tuple[ReplicateResult, ...]:
    return observer.of(ReplicatesDecided)[0].replicates
