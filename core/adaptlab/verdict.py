"""What may be said of two methods: better, worse, cannot be told apart, needs more seeds."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.statistics.pairs import PairedDifference, Probability, holm, projected_reach
from adaptlab.values import Value

FALSE_BETTER = 0.05
POWER = 0.8
MOST_SEEDS = 64
"""The seeds that one job can have; what would take more is said not to be told apart."""
LEAST_SEEDS = 3

Finding = Literal["better", "worse", "cannot_be_told_apart", "needs_more_seeds"]
Reason = Literal["test", "within_margin", "too_close", "one_seed", "projection"]


class Verdict(Value):
    """What is found of the pair's `first` method against its `second`, and why.

    `corrected_p` is the p-value corrected for all comparisons of the table. The reason is `test`
    for better and worse; `within_margin` where the whole interval lies within the margin, and
    `too_close` where even 64 seeds of as many items would not tell; `one_seed` where there is no
    second seed to compare with and `projection` where `more_seeds` further ones should decide, in
    four of five repetitions, if the difference and its variance are as they were found.
    """

    pair: PairedDifference
    finding: Finding
    reason: Reason
    corrected_p: Probability | None
    comparisons: Annotated[int, Field(ge=1)]
    margin: Annotated[float, Field(ge=0, le=1)]
    more_seeds: Annotated[int, Field(ge=1)] | None = None
    text: str


def verdicts(
    pairs: Sequence[PairedDifference], margin: float = 0.01, false_better: float = FALSE_BETTER
) -> tuple[Verdict, ...]:
    """One verdict a pair; in at most `false_better` of all tables one of them is falsely better.

    Holm's correction runs over all `pairs` given, so the promise holds for them together.
    `margin` is the difference, as a share of items, below which methods count as alike. That two
    are alike is concluded from the pair's own interval, uncorrected: each such claim is wrong at
    most once in twenty.
    """
    tested = [index for index, pair in enumerate(pairs) if pair.p_value is not None]
    found = holm([pairs[index].p_value or 0.0 for index in tested])
    corrected = dict(zip(tested, found, strict=True))
    told = sum(value <= false_better for value in corrected.values())
    tail = false_better / max(1, len(tested) - told) / 2
    return tuple(
        _verdict(pair, corrected.get(index), max(1, len(tested)), margin, false_better, tail)
        for index, pair in enumerate(pairs)
    )


def _verdict(
    pair: PairedDifference,
    corrected: float | None,
    comparisons: int,
    margin: float,
    false_better: float,
    tail: float,
) -> Verdict:
    finding: Finding
    reason: Reason
    more = None
    if corrected is None:
        finding, reason, more = "needs_more_seeds", "one_seed", LEAST_SEEDS - pair.seeds
    elif corrected <= false_better:
        finding, reason = ("better" if pair.difference > 0 else "worse"), "test"
    elif -margin <= pair.low and pair.high <= margin:
        finding, reason = "cannot_be_told_apart", "within_margin"
    elif needed := _seeds_needed(pair, margin, tail):
        finding, reason, more = "needs_more_seeds", "projection", needed - pair.seeds
    else:
        finding, reason = "cannot_be_told_apart", "too_close"
    return Verdict(
        pair=pair,
        finding=finding,
        reason=reason,
        corrected_p=corrected,
        comparisons=comparisons,
        margin=margin,
        more_seeds=more,
        text=f"{_sentence(pair, finding, reason, more, margin)} "
        f"({_numbers(pair, corrected, comparisons)}).",
    )


def _seeds_needed(pair: PairedDifference, margin: float, tail: float) -> int | None:
    """The seeds after which the test, or the margin, should decide; None if no 64 would."""
    size = abs(pair.difference)
    for seeds in range(max(LEAST_SEEDS, pair.seeds + 1), MOST_SEEDS + 1):
        told = size >= projected_reach(pair, seeds, tail, 1 - POWER)
        alike = margin - size >= projected_reach(pair, seeds, (1 - pair.level) / 2, 0.5)
        if told or alike:
            return seeds
    return None


def _sentence(
    pair: PairedDifference, finding: Finding, reason: Reason, more: int | None, margin: float
) -> str:
    match reason:
        case "test":
            size = f"{100 * abs(pair.difference):.1f} points"
            return f"{pair.first} is {finding} than {pair.second} by {size}"
        case "within_margin":
            unit = "point" if margin == 0.01 else "points"
            least = f"they differ by less than {100 * margin:g} {unit}"
            return f"{pair.first} and {pair.second} cannot be told apart: {least}"
        case "too_close":
            more_items = f"more than {MOST_SEEDS} seeds, or more test items, would be needed"
            return f"{pair.first} and {pair.second} cannot be told apart: {more_items}"
        case "one_seed":
            return f"{pair.first} against {pair.second} needs {more} more seeds: one is not enough"
        case "projection":
            seeds = "seed" if more == 1 else "seeds"
            return f"{pair.first} against {pair.second} needs about {more} more {seeds}"


def _numbers(pair: PairedDifference, corrected: float | None, comparisons: int) -> str:
    told = f"difference {100 * pair.difference:+.1f} points, {pair.level:.0%} interval "
    told += f"{100 * pair.low:+.1f} to {100 * pair.high:+.1f}"
    if corrected is not None:
        told += f"; p = {corrected:.2g}, corrected for {comparisons} comparisons"
    return f"{told}; {pair.seeds} seeds, {pair.items:,} items"
