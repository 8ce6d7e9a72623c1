"""Laws of seeds and items for the grid of verdicts, with their truth.

A law draws the scores that seeds would have on all items. Items are common to all methods of a
study: `agree` is the share of an item's outcome that seeds of one method have in common, and
`clusters` the number of items that share it.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from adaptlab.plugins.metric import METRICS
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.statistics import Scores
from bench.metric_items import Drawing, truth

Draw = Callable[[Generator, int], NDArray[np.float64]]
"""Draws the scores of so many seeds; NaN is a seed without a score."""
MANY = 200_001


@dataclass(frozen=True, slots=True)
class Law:
    """A law of seeds' scores, as shares."""

    name: str
    draw: Draw

    def seeds(self, number: int) -> NDArray[np.float64]:
        """Return many seeds, those without a score with the worst, [seed]."""
        return np.nan_to_num(np.clip(self.draw(np.random.default_rng(number), MANY), 0, 1))


@functools.cache
def typical(law: Law) -> float:
    """Return the median of a law."""
    return float(np.median(law.seeds(0)))


@functools.cache
def difference(first: Law, second: Law) -> float:
    """Return the median difference of seeds of two laws."""
    return float(np.median(first.seeds(3) - second.seeds(4)))


@functools.cache
def wins(first: Law, second: Law) -> float:
    """Return P(a seed of the first law beats one of the second), ties half."""
    ours, theirs = np.sort(first.seeds(1)), np.sort(second.seeds(2))  # found faster in order
    below = np.searchsorted(ours, theirs, side="left") / ours.size
    upto = np.searchsorted(ours, theirs, side="right") / ours.size
    return float((1 - (below + upto) / 2).mean())


def normal(mean: float, deviation: float) -> Law:
    """Normal scores."""
    return Law(f"{mean:g} ± {deviation:g}", lambda g, n: g.normal(mean, deviation, n))


def heavy(median: float, scale: float) -> Law:
    """Student's t with three degrees of freedom."""
    return Law(f"t₃ {median:g}, {scale:g}", lambda g, n: median + scale * g.standard_t(3, n))


def logit_heavy(median: float, scale: float) -> Law:
    """Log-odds of Student's t with three degrees of freedom."""
    centre = math.log(median / (1 - median))
    return Law(
        f"logit t₃ {median:g}, {scale:g}",
        lambda g, n: 1 / (1 + np.exp(-np.clip(centre + scale * g.standard_t(3, n), -30, 30))),
    )


def skewed(median: float, scale: float) -> Law:
    """Exponential tail below (scale > 0) or above the median."""
    return Law(
        f"skewed {median:g}, {scale:g}",
        lambda g, n: median - scale * (g.exponential(1, n) - math.log(2)),
    )


def beta(a: float, b: float) -> Law:
    """Beta scores."""
    return Law(f"Beta({a:g}, {b:g})", lambda g, n: g.beta(a, b, n))


def lottery(high: float, low: float, failing: float, deviation: float = 0.005) -> Law:
    """A share of the seeds at `low`, the others at `high`."""
    return Law(
        f"{high:g}, or {low:g} on {failing:g}",
        lambda g, n: np.where(g.random(n) < failing, low, high) + g.normal(0, deviation, n),
    )


def diverging(high: float, lost: float, deviation: float = 0.005) -> Law:
    """A share of the seeds without a score."""
    return Law(
        f"{high:g}, or no score on {lost:g}",
        lambda g, n: np.where(g.random(n) < lost, np.nan, g.normal(high, deviation, n)),
    )


def chosen(mean: float, deviation: float, trials: int, validation: int) -> Law:
    """The best of some trials of a seed, by so many validation items."""

    def draw(generator: Generator, number: int) -> NDArray[np.float64]:
        scores = np.clip(generator.normal(mean, deviation, (number, trials)), 0, 1)
        noise = np.sqrt(scores * (1 - scores) / validation)
        measured = scores + noise * generator.standard_normal((number, trials))
        return scores[np.arange(number), measured.argmax(axis=1)]

    return Law(f"{mean:g} ± {deviation:g}, {trials} trials, {validation} items", draw)


@dataclass(frozen=True, slots=True)
class Items:
    """Test items: their number, the share of agreement of seeds, and clusters.

    With a `metric`, items have its statistics beside their outcomes.
    """

    number: int = 1000
    agree: float = 0.3
    cluster: int = 1
    metric: str | None = None


def typical_metric(law: Law, metric: str) -> float:
    """Return the value of a metric of a law's median seed over all items."""
    centre = float(ndtri(np.clip(typical(law), 1e-9, 1 - 1e-9)))
    return truth(metric, centre, 1.0)


def study(laws: Sequence[Law], seeds: int, items: Items, generator: Generator) -> list[Scores]:
    """Return one `Scores` per law, on shared items.

    Outcomes are a probit model: the quantile of a seed's score against a normal of the item (of all
    methods), of method and item's cluster, and of the cell. Scores over all items are therefore
    the drawn ones.
    """
    groups = -(-items.number // items.cluster)
    number = np.repeat(np.arange(groups), items.cluster)[: items.number]
    shared = generator.standard_normal(groups)[number]
    drawing = None
    if items.metric is not None:
        drawing = Drawing(METRICS.get(items.metric), items.number, generator)
    return [_scores(place, law, seeds, items, shared, number, generator, drawing)
            for place, law in enumerate(laws)]  # fmt: skip


def _scores(
    place: int,
    law: Law,
    seeds: int,
    items: Items,
    shared: NDArray[np.float64],
    number: NDArray[np.int64],
    generator: Generator,
    drawing: Drawing | None,
) -> Scores:
    drawn = law.draw(generator, seeds)
    scored = np.flatnonzero(~np.isnan(drawn))
    if not scored.size:  # a row without a score is no row
        scored, drawn = np.array([0]), np.zeros(seeds)
    own = generator.standard_normal(int(number[-1]) + 1)[number]
    common = math.sqrt(items.agree) * (0.7 * shared + math.sqrt(0.51) * own)
    centre = ndtri(np.clip(drawn[scored], 1e-9, 1 - 1e-9))[:, None]
    noise = math.sqrt(1 - items.agree)
    chances = ndtr((centre + common) / noise) if noise else (centre + common > 0).astype(float)
    right = generator.random(chances.shape) < chances
    measured: tuple[float, ...] = ()
    statistics: tuple[str, ...] = ()
    if items.metric is not None and drawing is not None:
        quality = centre + common + noise * generator.standard_normal(chances.shape)
        tables = [drawing.statistics(row) for row in quality]
        measured = tuple(METRICS.get(items.metric).value(table) for table in tables)
        statistics = tuple(as_text(packed(table)) for table in tables)
    return Scores(
        metric=items.metric,
        measured=measured,
        statistics=statistics,
        method=f"m{place}",
        seeds=tuple(int(seed) for seed in scored),
        unscored=tuple(sorted(set(range(seeds)) - set(map(int, scored)))),
        items=items.number,
        clusters=tuple(map(int, number)) if items.cluster > 1 else (),
        outcomes=tuple(np.packbits(row).tobytes().hex() for row in right),
    )
