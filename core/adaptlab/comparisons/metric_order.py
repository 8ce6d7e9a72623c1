"""The order of methods by a metric beside the score.

It is about seeds like those run, on the items that were measured: the values of single items are
not kept, so other items are not covered.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from adaptlab.comparisons.row_names import NamedRow, RowNames, method_in_sentence
from adaptlab.comparisons.row_pairs import comparable_pairs
from adaptlab.comparisons.verdict import Finding, alike
from adaptlab.figures import counted, listed, percent, points
from adaptlab.statistics.distributions import student_quantile, student_tail
from adaptlab.statistics.pairs import LEAST_TAIL, Limits, Probability, holm, shared_seeds
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

    def limits(self, level: float) -> Limits:
        reach = self.error * student_quantile(self.seeds - 1, (1 + level) / 2)
        return self.mean - reach, self.mean + reach


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
    worse = {
        pair.second if pair.finding == "better" else pair.first
        for pair in here
        if pair.finding in ("better", "worse")
    }
    best = tuple(label for label in measured if label not in worse)
    values = {label: statistics.fmean(row.measured) for label, row in measured.items()}
    metric = here[0].metric
    sentence = _sentence(metric, values, best, RowNames(named))
    return MetricOrder(metric=metric, best=best, pairs=tuple(here), sentence=sentence)


def _difference(first: Scores, second: Scores, metric: OtherMetric) -> _Difference:
    seeds = shared_seeds(first, second)
    ours, theirs = (dict(zip(row.seeds, row.measured, strict=True)) for row in (first, second))
    gaps = [_scaled(metric, ours[seed]) - _scaled(metric, theirs[seed]) for seed in seeds]
    spread = statistics.stdev(gaps) if len(gaps) >= FEWEST_SEEDS else 0.0
    error = max(spread / math.sqrt(len(gaps)), LEAST_ERROR)
    return _Difference(first, second, metric, len(gaps), statistics.fmean(gaps), error)


def _scaled(metric: OtherMetric, value: float) -> float:
    return value if is_share(metric) else math.log(value)


def _pair(one: _Difference, corrected: float | None, rule: Rule, comparisons: int) -> MetricPair:
    limits = None if corrected is None else one.limits(rule.level)
    finding = _finding(one, corrected, limits, rule)
    numbers = _numbers(one, corrected, limits, rule.level, comparisons)
    low, high = limits or (None, None)
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
        text=f"By {metric_in_sentence(one.metric)}, {_clause(one, finding, rule)} ({numbers}).",
    )


def _finding(
    one: _Difference, corrected: float | None, limits: Limits | None, rule: Rule
) -> Finding:
    if corrected is None or limits is None:
        return "not_known"
    if -rule.margin <= limits[0] and limits[1] <= rule.margin:
        return "cannot_be_told_apart"
    if corrected > rule.false_better or abs(one.mean) <= rule.margin:
        return "not_known"
    return "better" if (one.mean < 0) == (one.metric in LOWER_IS_BETTER) else "worse"


def _clause(one: _Difference, finding: Finding, rule: Rule) -> str:
    first, second = method_in_sentence(one.first.label), method_in_sentence(one.second.label)
    match finding:
        case "not_known":
            return f"the order of {first} and {second} is not known"
        case "cannot_be_told_apart":
            unit = None if is_share(one.metric) else "%"
            return f"{first} and {second} {alike(rule.margin, unit)}"
        case "better" | "worse":
            return f"{first} is {finding} than {second}"


def _numbers(
    one: _Difference,
    corrected: float | None,
    limits: Limits | None,
    level: float,
    comparisons: int,
) -> str:
    size = f"{_amount(one.metric, one.mean)} {'points' if is_share(one.metric) else 'times'}"
    seeds = f"{counted(one.seeds, 'seed')}, the same items"
    if corrected is None or limits is None:
        return f"{size}; {seeds}"
    low, high = (_amount(one.metric, limit) for limit in limits)
    tested = f"p = {corrected:.2g}, corrected for {counted(comparisons, 'comparison')}"
    return f"{size}, {100 * level:g} % interval {low} to {high}; {tested}; {seeds}"


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
