"""Failing seeds: those that do not beat the floor, and their share."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from adaptlab.interval import Fraction
from adaptlab.plugins.metric import METRICS, Metric
from adaptlab.runs.events import FloorKind, MetricFloor
from adaptlab.statistics.distributions import beta_quantile
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.spread import normal_quantile
from adaptlab.values import Value

LEAST_GAIN = 0.1
"""A seed with less than this share of the way from the floor to 1 has learned nothing."""
BY_CHANCE = 0.05
"""The chance with which a seed at the floor is scored as one above it."""


class Floor(Value):
    """The best accuracy that can be had without adaptation.

    `kind` names it: guessing, the best constant answer to the task, always giving the scored items'
    most common answer, or the base model alone.
    """

    accuracy: Fraction
    kind: FloorKind

    def works_from(self, items: int) -> float:
        """Return the accuracy from which a seed beats the floor on so many items."""
        return _above(self.accuracy, 1.0, _noise(self.accuracy, items))


def floor_of(
    chance: float,
    majorities: Iterable[float | None],
    alone: float | None,
    constant: float = 0.0,
) -> Floor:
    """Return the floor of a table.

    Args:
        chance: the accuracy of guessing on the task.
        majorities: the share of the most common answer among the items, one figure per scoring,
            None if unknown.
        alone: the mean accuracy of the base model alone, None if it was not measured.
        constant: the accuracy of the best constant answer to the task, 0 if unknown.
    """
    kinds: list[tuple[float, FloorKind]] = [(chance, "guessing"), (constant, "constant_answer")]
    known = (share for share in majorities if share is not None)
    kinds.extend((share, "most_common_answer") for share in known)
    if alone is not None:
        kinds.append((alone, "base_alone"))
    accuracy, kind = max(kinds, key=lambda one: one[0])
    return Floor(accuracy=accuracy, kind=kind)


def works_from(metric: Metric, floor: MetricFloor, items: int) -> float:
    """Return the value of a metric from which a seed beats the floor.

    As for accuracy, it is a part of the way to the best value, and more than chance alone gives; of
    a perplexity, whose chance is not known, a part of the floor's nats per token.
    """
    best = metric.limits[0] if metric.lower_is_better else metric.limits[1]
    base, top = (float(metric.scaled(np.array(value))) for value in (floor.value, best))
    noise = _noise(floor.value, items) if metric.is_share else 0.0
    return metric.unscaled(_above(base, top, noise))


def _above(floor: float, top: float, noise: float) -> float:
    """Return the least value that is above a floor, at most the best one."""
    return min(top, floor + max(noise, LEAST_GAIN * (top - floor)))


def _noise(share: float, items: int) -> float:
    """Return by how much a share of items is too high by chance."""
    return normal_quantile(BY_CHANCE) * math.sqrt(max(0.0, share * (1 - share)) / items)


class FailingSeeds(Value):
    """The failing seeds among the trained ones, with limits of their share.

    The limits are Clopper and Pearson's. If no seed failed, or all did, the limit that is not 0 or
    1 is one-sided, so 0 of 5 leaves up to 45 % (`unseen_failure_rate`).
    """

    failing: Annotated[int, Field(ge=0)]
    seeds: Annotated[int, Field(ge=1)]
    low: Fraction
    high: Fraction
    level: Annotated[float, Field(gt=0, lt=1)]

    @property
    def ok(self) -> int:
        """The number of seeds that beat the floor."""
        return self.seeds - self.failing


def failing_of(
    scores: Scores, accuracies: Sequence[float], floor: Floor, level: float
) -> FailingSeeds:
    """Return a row's failing seeds from the accuracies of trained seeds."""
    below = floor.works_from(scores.items)
    failing = sum(accuracy < below for accuracy in accuracies)
    return failing_seeds(failing, len(accuracies), level)


def failing_by(scores: Scores, floor: MetricFloor, level: float) -> FailingSeeds:
    """Return a row's failing seeds by its metric; without one, all fail."""
    if scores.metric is None:
        return failing_seeds(len(scores.trained), len(scores.trained), level)
    metric = METRICS.get(scores.metric)
    least = works_from(metric, floor, scores.items)
    beaten = (one <= least if metric.lower_is_better else one >= least for one in scores.measured)
    return failing_seeds(len(scores.trained) - sum(beaten), len(scores.trained), level)


def failing_seeds(failing: int, seeds: int, level: float = 0.95) -> FailingSeeds:
    """Return the share of failing seeds, with its limits."""
    tail = (1 - level) / (1 if failing in (0, seeds) else 2)
    low = 0.0 if failing == 0 else beta_quantile(failing, seeds - failing + 1, tail)
    high = 1.0 if failing == seeds else beta_quantile(failing + 1, seeds - failing, 1 - tail)
    return FailingSeeds(failing=failing, seeds=seeds, low=low, high=high, level=level)
