"""Verdicts on the pairs of a table: the detail behind its best set."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence
from adaptlab.figures import counted, points
from adaptlab.plugins.metric import METRICS, is_share
from adaptlab.statistics.leads import ERROR, FEWEST_SEEDS
from adaptlab.statistics.pairs import PairedDifference, Probability, holm
from adaptlab.values import Value

LEAST_SEEDS = 3
"""With fewer seeds, nothing is said about other seeds."""

Finding = Literal["better", "worse", "cannot_be_told_apart", "not_known"]
Reason = Literal["test", "within_margin", "few_seeds", "open"]
Shown = Callable[[str, str], bool]
"""Return True if seeds of the first method are shown to beat those of the second."""


class Verdict(Value):
    """The finding on a pair, `first` against `second`, with its reason.

    Better means that a seed of the one beats a seed of the other more often than not, on other
    items too. `corrected_p` is the p-value of the pair, corrected for all comparisons of the table;
    None with one seed. The reason is `test` for better and worse. Two methods cannot be told apart
    if the limits of their difference are `within_margin`. Otherwise the order is not known: a
    method has fewer seeds than can decide (`few_seeds`), or the question is `open`.
    """

    pair: PairedDifference
    finding: Finding
    reason: Reason
    corrected_p: Probability | None
    comparisons: Annotated[int, Field(ge=1)]
    margin: Annotated[float, Field(ge=0, le=1)]
    text: str


def verdicts(pairs: Sequence[PairedDifference], margin: float, shown: Shown) -> tuple[Verdict, ...]:
    """Return one verdict per pair.

    At most 5 % of all tables order any pair falsely. Holm's correction is applied to all `pairs`
    together, and a pair is ordered only if `shown` agrees. `margin` is the difference, as a share
    of items, below which methods count as alike; this is concluded per pair, without correction.
    """
    tested = [pair.p_value for pair in pairs if pair.p_value is not None]
    corrected = iter(holm(tested))
    values = [None if pair.p_value is None else next(corrected) for pair in pairs]
    return tuple(
        _verdict(pair, value, max(1, len(tested)), margin, shown)
        for pair, value in zip(pairs, values, strict=True)
    )


def _verdict(
    pair: PairedDifference,
    corrected: float | None,
    comparisons: int,
    margin: float,
    shown: Shown,
) -> Verdict:
    finding, reason = _finding(pair, corrected, margin, shown)
    numbers = _numbers(pair, corrected, comparisons)
    return Verdict(
        pair=pair,
        finding=finding,
        reason=reason,
        corrected_p=corrected,
        comparisons=comparisons,
        margin=margin,
        text=f"{_clause(pair, finding, reason, margin)} ({numbers}).",
    )


def _finding(
    pair: PairedDifference, corrected: float | None, margin: float, shown: Shown
) -> tuple[Finding, Reason]:
    if corrected is not None and corrected <= ERROR:
        if shown(pair.first, pair.second):
            return "better", "test"
        if shown(pair.second, pair.first):
            return "worse", "test"
    if corrected is not None and -margin <= pair.low and pair.high <= margin:
        return "cannot_be_told_apart", "within_margin"
    return "not_known", "few_seeds" if pair.seeds < FEWEST_SEEDS else "open"


def _clause(pair: PairedDifference, finding: Finding, reason: Reason, margin: float) -> str:
    first, second = map(method_in_sentence, (pair.first, pair.second))
    start = first_in_sentence(pair.first)
    match reason:
        case "test":
            return f"{start} is {finding} than {second}"
        case "within_margin":
            alike = less_than(margin, pair.metric)
            return f"{start} and {second} cannot be told apart: they {alike}"
        case "few_seeds":
            return (
                f"The order of {first} and {second} is not known with "
                f"{counted(pair.seeds, 'seed')}; {FEWEST_SEEDS} or more can decide it"
            )
        case "open":
            return f"The order of {first} and {second} is not known"


def less_than(margin: float, metric: str | None = None) -> str:
    """Return the margin as words: "differ by less than 1 point"."""
    unit = "points" if metric is None else METRICS.get(metric).step
    unit = "point" if unit == "points" and margin == 0.01 else unit
    return f"differ by less than {100 * margin:g} {unit}"


def _numbers(pair: PairedDifference, corrected: float | None, comparisons: int) -> str:
    unit = " points" if is_share(pair.metric) else ""
    figures = f"{_by(pair, pair.difference)}{unit}, {_limits(pair)}"
    if corrected is not None:
        figures += f"; p = {corrected:.2g}, corrected for {counted(comparisons, 'comparison')}"
    return f"{figures}; {counted(pair.seeds, 'seed')}, {pair.items:,} items"


def _limits(pair: PairedDifference) -> str:
    low, high = (_by(pair, end) for end in pair.ends)
    return f"{100 * pair.level:g} % interval {low} to {high}"


def _by(pair: PairedDifference, difference: float) -> str:
    return points(difference) if pair.metric is None else METRICS.get(pair.metric).by(difference)
