"""Metrics beside the share of right items, which is always the score."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

OtherMetric = Literal["macro_f1", "token_f1", "perplexity"]

MOST_CONFUSED = 32
"""Labels of a task whose confusion is kept, and macro-F1 with it; that of more is left out."""
LARGEST_PERPLEXITY = 1e30
"""The perplexity of a replicate whose loss is larger or not finite."""
METRIC_LIMITS: Mapping[OtherMetric, tuple[float, float]] = MappingProxyType(
    {"macro_f1": (0.0, 1.0), "token_f1": (0.0, 1.0), "perplexity": (1.0, LARGEST_PERPLEXITY)}
)
"""The least and the largest value of a metric."""
LOWER_IS_BETTER: frozenset[OtherMetric] = frozenset({"perplexity"})
"""Metrics whose lowest value is the best; of the others the highest is."""


def is_share(metric: object) -> bool:
    """Return True if a task's metric is a share, shown in per cent.

    `metric` is its name in the task's document: the score, of another name or none, is a share too.
    """
    return all(limits == (0.0, 1.0) for name, limits in METRIC_LIMITS.items() if name == metric)


def limited_perplexity(loss: float | None) -> float:
    """Return e to the power of a loss in nats, within its limits.

    It is `LARGEST_PERPLEXITY` for a loss that is not finite, also if given as None. A loss is below
    0 only by rounding, and has the perplexity 1.
    """
    if loss is None or not loss < math.log(LARGEST_PERPLEXITY):
        return LARGEST_PERPLEXITY
    return math.exp(max(loss, 0.0))
