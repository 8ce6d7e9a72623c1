"""Values by item of an old task's metric, of which a share is retained.

A share of the way from the floor to the base's value needs a best value, so the metric is bounded
and its highest value the best: chrF, ROUGE-L, token F1, macro-F1. Values by item are jackknife
pseudo-values, moved so that their mean is the metric's value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Metric, metric_named
from adaptlab.runs.events import Evaluation
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.statistics.metric_samples import pseudo_values
from adaptlab.statistics.retention import REFUSED
from adaptlab.statistics.samples import clustered
from adaptlab.statistics.scores import Outcomes
from adaptlab.statistics.spread import normal_quantile

IN_RIGHT_ANSWERS = "Retention is that of right answers: "


@dataclass(frozen=True, eq=False)
class MetricValues:
    """The values of a metric of adapted and of base models, [seed, item].

    `floor` is the value that needs no skill.
    """

    metric: Metric
    attached: Outcomes
    base: Outcomes
    floor: float

    def shown(self, clusters: tuple[int, ...]) -> list[float]:
        """Return the lower limit of each base's value, one-sided at 95 %."""
        units = clustered(self.base, clusters) if clusters else self.base
        error = units.std(axis=1, ddof=1) / math.sqrt(units.shape[1])
        limits: list[float] = (units.mean(axis=1) - normal_quantile(REFUSED) * error).tolist()
        return limits


def metric_values(
    task: Mapping[str, object], attached: Sequence[Evaluation], base: Sequence[Evaluation]
) -> MetricValues | str | None:
    """Return the values of the task's own metric, or why they are not used.

    The result is None for a task whose score is the share of right items.
    """
    if (metric := metric_named(task.get("metric"))) is None:
        return None
    name = metric.in_sentence
    if not metric.is_share or metric.lower_is_better:
        return f"{IN_RIGHT_ANSWERS}{name} has no best value of which a share could be retained."
    floors = [
        measure.floor.value
        for one in base
        for measure in one.measures
        if measure.metric == metric.name and measure.floor is not None
    ]
    if len(floors) < len(base):
        return f"{IN_RIGHT_ANSWERS}the value of {name} that needs no skill is not known here."
    after, before = ([_by_item(one, metric) for one in side] for side in (attached, base))
    known = [row for row in (*after, *before) if row is not None]
    if len(known) < len(after) + len(before):
        return f"{IN_RIGHT_ANSWERS}values of {name} by item are not stored."
    rows = np.stack(known)
    return MetricValues(metric, rows[: len(after)], rows[len(after) :], max(floors))


def _by_item(one: Evaluation, metric: Metric) -> NDArray[np.float64] | None:
    if (text := one.statistics_of(metric.name)) is None:
        return None
    statistics = unpacked(from_text(text), one.total, metric.columns)
    values = pseudo_values(metric, statistics)
    return values - values.mean() + metric.value(statistics)
