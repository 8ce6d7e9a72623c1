"""Statistics by item of simulated seeds, for every metric."""

import functools

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr

from adaptlab.plugins.metric import METRICS, Metric

Array = NDArray[np.float64]
SHARES_OF_LABELS = (0.7, 0.2, 0.1)
LONGEST = 12
"""Tokens, or characters, of an answer."""
LEAST_OF_RUNS = 4
"""Columns of a metric of runs of characters or words; one of fewer is a share of right answers."""
MANY = 200_000


class Drawing:
    """Statistics of the items of one table, which all its methods share.

    Args:
        metric: the metric.
        items: the number of items.
        generator: draws the items.
    """

    def __init__(self, metric: Metric, items: int, generator: Generator) -> None:
        self._metric, self._generator = metric, generator
        self._labels = generator.choice(len(SHARES_OF_LABELS), items, p=SHARES_OF_LABELS)
        self._lengths = generator.integers(1, LONGEST + 1, items)

    def statistics(self, quality: Array) -> Array:
        """Return statistics, [item, column], of cells of this quality.

        A cell of quality 0 is right with probability one half.
        """
        draw, chances = self._generator, ndtr(quality)
        match self._metric.needs:
            case "labels":
                others = (self._labels + draw.integers(1, 3, quality.size)) % 3
                given = np.where(quality > 0, self._labels, others)
                return np.stack((self._labels, given), 1).astype(np.float64)
            case "likelihood" | "likelihood_of_text":
                nats = np.asarray(self._lengths * np.exp(-quality), np.float64)
                return np.stack((nats, self._lengths.astype(np.float64)), 1)
            case "answers" if self._metric.columns == 1:
                shares = draw.binomial(self._lengths, chances) / self._lengths
                return np.asarray(shares, np.float64)[:, None]
            case "answers" if self._metric.columns < LEAST_OF_RUNS:
                others = np.zeros((quality.size, self._metric.columns - 1))
                return np.column_stack((quality > 0, others)).astype(np.float64)
            case "answers" if self._metric.name == "bleu":
                sizes = np.maximum(0, self._lengths[:, None] - np.arange(4)) * np.ones((1, 4))
                shared = draw.binomial(sizes.astype(int), chances[:, None] ** np.arange(1, 5))
                lengths = np.tile(self._lengths[:, None], 2)
                return np.concatenate((lengths, shared, sizes), axis=1).astype(np.float64)
            case "answers":
                sizes = np.maximum(0, self._lengths[:, None] - np.arange(self._metric.columns // 3))
                shared = draw.binomial(sizes, chances[:, None])
                counted = np.stack((sizes, sizes, shared), -1).reshape(quality.size, -1)
                return counted.astype(np.float64)
            case "base" | "endings" | "choices":
                raise ValueError(f"No task is ordered by {self._metric.name}.")


@functools.cache
def truth(name: str, centre: float, noise: float) -> float:
    """Return the value of a seed over all items.

    `noise` is the standard deviation of the quality of its cells around `centre`.
    """
    generator, metric = np.random.default_rng(0), METRICS.get(name)
    drawing = Drawing(metric, MANY, generator)
    return metric.value(drawing.statistics(centre + noise * generator.standard_normal(MANY)))
