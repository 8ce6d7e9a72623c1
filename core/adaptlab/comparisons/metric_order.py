"""The order of methods by a metric beside the score.

It is about seeds like those run, on the items that were measured: the values of single items are
not kept, so other items are not covered.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, cast

from pydantic import Field

from adaptlab.comparisons.row_names import NamedRow, RowNames, method_in_sentence
from adaptlab.comparisons.row_pairs import comparable_pairs
from adaptlab.comparisons.verdict import Finding
from adaptlab.figures import counted, listed, percent, points
from adaptlab.statistics.distributions import student_quantile, student_tail
from adaptlab.statistics.pairs import LEAST_TAIL, Probability, holm, shared_seeds
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.unseen import least_p_value
from adaptlab.text.metrics import LOWER_IS_BETTER, OtherMetric, is_share
from adaptlab.values import Value

FEWEST_SEEDS = 2
LEAST_ERROR = 1e-4
"""The least standard error of a difference: a smaller one is that of rounding."""

METRIC_TITLES: Mapping[OtherMetric, str] = MappingProxyType(
    {"macro_f1": "Macro-F1", "token_f1": "Token F1", "perplexity": "Perplexity"}
)


def metric_figure(metric: OtherMetric, value: float) -> str:
    """Return a value of a metric as text, shares in per cent."""
    return percent(value) if is_share(metric) else f"{value:.4g}"


def metric_in_sentence(metric: OtherMetric) -> str:
    """Return the name of a metric within a sentence."""
    title = METRIC_TITLES[metric]
    return title[0].lower() + title[1:]


class MetricPair(Value):
    """The difference of `first` minus `second` in the task's metric.

    It is on shared seeds. Test and limits are those of the paired t-test over seeds. Of perplexity,
    they are about its logarithm, in nats per token; of the others about the value, as a fraction.
    The limits hold at the comparison's level for this pair alone, and are None with one seed, as
    `corrected_p` is. That is corrected for all pairs of the table by Holm's method, and never below
    the least p-value of an exact test on so many seeds. `finding` is about `first`: better and
    worse also need a difference above the comparison's margin, because other items could undo a
    smaller one; alike are those with limits within it.
    """

    metric: OtherMetric
    first: str
    second: str
    seeds: int
    difference: float
    low: float | None
    high: float | None
    corrected_p: Probability | None
    finding: Finding
    text: str


class MetricOrder(Value):
    """The pairs of one cell by the task's metric.

    `best` lists the rows that are not found worse than another. Rows without the metric, which were
    measured by an earlier version, are left out.
    """

    metric: OtherMetric
    best: Annotated[tuple[str, ...], Field(min_length=1)]
    pairs: tuple[MetricPair, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Rule:
    """How sure a finding must be: see `compare`."""

    level: float
    margin: float
    false_better: float


@dataclass(frozen=True, slots=True)
class _Difference:
    """The mean difference of two rows, and its standard error over seeds."""

    first: Scores
    second: Scores
    metric: OtherMetric
    seeds: int
    mean: float
    error: float

    @property
    def p_value(self) -> float:
        tail = student_tail(self.seeds - 1, abs(self.mean) / self.error)
        return min(1.0, 2 * max(tail, LEAST_TAIL))

    def reach(self, level: float) -> float:
        return self.error * student_quantile(self.seeds - 1, (1 + level) / 2)


def metric_pairs(rows: Sequence[Scores], rule: Rule) -> tuple[MetricPair, ...]:
    """Return all pairs of rows that have the metric, at every budget.

    At most a share `rule.false_better` of all tables orders any pair falsely, if the differences of
    seeds are normally distributed.
    """
    differences = [
        _difference(first, second, metric)
        for first, second in comparable_pairs(rows)
        if (metric := first.metric) is not None and metric == second.metric
    ]
    tested = [one for one in differences if one.seeds >= FEWEST_SEEDS]
    corrected = iter(holm([one.p_value for one in tested]))
    return tuple(
        _pair(
            one,
            max(next(corrected), least_p_value(one.seeds)) if one.seeds >= FEWEST_SEEDS else None,
            rule,
            len(tested),
        )
        for one in differences
    )


def metric_order(
    rows: Sequence[Scores], named: Sequence[NamedRow], pairs: Sequence[MetricPair]
) -> MetricOrder | None:
    """Return the order of the rows of one cell; None without a pair.

    `named` are the same rows, as sentences name them.
    """
    measured = {row.label: row for row in rows if row.metric is not None}
    here = [pair for pair in pairs if pair.first in measured and pair.second in measured]
    if not here:
        return None
    worse = {one.second if one.finding == "better" else one.first for one in _found(here)}
    best = tuple(label for label in measured if label not in worse)
    values = {label: statistics.fmean(row.measured) for label, row in measured.items()}
    metric = here[0].metric
    sentence = _sentence(metric, values, best, RowNames(named))
    return MetricOrder(metric=metric, best=best, pairs=tuple(here), sentence=sentence)


def _found(pairs: Sequence[MetricPair]) -> list[MetricPair]:
    return [pair for pair in pairs if pair.finding in ("better", "worse")]


def _difference(first: Scores, second: Scores, metric: OtherMetric) -> _Difference:
    seeds = shared_seeds(first, second)
    ours, theirs = (
        [_scaled(metric, dict(zip(row.seeds, row.measured, strict=True))[seed]) for seed in seeds]
        for row in (first, second)
    )
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    spread = statistics.stdev(gaps) if len(gaps) >= FEWEST_SEEDS else 0.0
    error = max(spread / math.sqrt(len(gaps)), LEAST_ERROR)
    return _Difference(first, second, metric, len(gaps), statistics.fmean(gaps), error)


def _scaled(metric: OtherMetric, value: float) -> float:
    return value if is_share(metric) else math.log(value)


def _pair(one: _Difference, corrected: float | None, rule: Rule, comparisons: int) -> MetricPair:
    low, high, finding = None, None, cast("Finding", "not_known")
    if corrected is not None:
        reach = one.reach(rule.level)
        low, high = one.mean - reach, one.mean + reach
        is_better = (one.mean < 0) == (one.metric in LOWER_IS_BETTER)
        if -rule.margin <= low and high <= rule.margin:
            finding = "cannot_be_told_apart"
        elif corrected <= rule.false_better and abs(one.mean) > rule.margin:
            finding = "better" if is_better else "worse"
    first, second = method_in_sentence(one.first.label), method_in_sentence(one.second.label)
    clause = f"{first} is {finding} than {second}"
    if finding == "cannot_be_told_apart":
        size = f"{100 * rule.margin:g} {'point' if rule.margin == 0.01 else 'points'}"
        if not is_share(one.metric):
            size = f"{100 * rule.margin:g} %"
        clause = f"{first} and {second} cannot be told apart: they differ by less than {size}"
    elif finding == "not_known":
        clause = f"the order of {first} and {second} is not known"
    unit = "points" if is_share(one.metric) else "times"
    numbers = [f"{_amount(one.metric, one.mean)} {unit}"]
    if low is not None and high is not None and corrected is not None:
        limits = f"{_amount(one.metric, low)} to {_amount(one.metric, high)}"
        numbers[0] += f", {100 * rule.level:g} % interval {limits}"
        numbers.append(f"p = {corrected:.2g}, corrected for {counted(comparisons, 'comparison')}")
    numbers.append(f"{counted(one.seeds, 'seed')}, the same items")
    return MetricPair(
        metric=one.metric,
        first=one.first.label,
        second=one.second.label,
        seeds=one.seeds,
        difference=one.mean,
        low=low,
        high=high,
        corrected_p=corrected,
        finding=finding,
        text=f"By {metric_in_sentence(one.metric)}, {clause} ({'; '.join(numbers)}).",
    )


def _amount(metric: OtherMetric, difference: float) -> str:
    """Return a difference in points, of perplexity as a factor."""
    return points(difference) if is_share(metric) else f"{math.exp(difference):.4g}"


def _sentence(
    metric: OtherMetric, values: Mapping[str, float], best: Sequence[str], names: RowNames
) -> str:
    by = f"By {metric_in_sentence(metric)} on these items,"
    ordered = sorted(values, key=lambda label: values[label], reverse=is_share(metric))
    lower = " (lower is better)" if metric in LOWER_IS_BETTER else ""

    def figure(label: str) -> str:
        return metric_figure(metric, values[label])

    if len(best) == len(values):
        first, last = ordered[0], ordered[-1]
        return (
            f"{by} no order is known: {names.of(first)} has {figure(first)} and {names.of(last)} "
            f"{figure(last)}{lower}."
        )
    rest = [label for label in ordered if label not in best]
    worse = listed([f"{names.of(label)} ({figure(label)})" for label in rest])
    if len(best) == 1:
        than = f"better than {worse}"
        return f"{by} {names.of(best[0])} is the best with {figure(best[0])}{lower}, {than}."
    leading = [f"{names.of(label)} ({figure(label)})" for label in ordered if label in best]
    is_worse = "is worse" if len(rest) == 1 else "are worse"
    return f"{by} {listed(leading)} could be the best{lower}; {worse} {is_worse}."
