"""Verdicts on two methods, over all seeds and over successful ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.figures import counted, percent, points
from adaptlab.statistics.failing import FailingSeeds, exact_p_value
from adaptlab.statistics.intervals import Fraction, unseen_failure_rate
from adaptlab.statistics.more_seeds import MOST_SEEDS, MoreSeeds, more_seeds
from adaptlab.statistics.pairs import PairedDifference, Probability, holm
from adaptlab.statistics.unseen import least_p_value
from adaptlab.values import Value

FALSE_BETTER = 0.05
LEAST_SEEDS = 3

Finding = Literal["better", "worse", "cannot_be_told_apart", "not_known"]
Reason = Literal[
    "test", "within_margin", "alike_on_seeds_run", "too_close", "one_seed", "projection"
]


class SuccessfulSeeds(Value):
    """The comparison of a pair among seeds that do not fail.

    It includes the failure rates of both. `pair` is over the shared seeds on which neither method
    fails, None if there are none; only its limits and test of seeds like those run apply.
    `corrected_p` is corrected for all pairs of the table and never below what an exact test on that
    number of seeds allows. `failing_p` is Fisher's exact p-value of equal failure rates,
    `corrected_failing_p` corrected for all pairs. Nothing here concerns the mean over all seeds.
    """

    first_failing: FailingSeeds
    second_failing: FailingSeeds
    failing_p: Probability
    corrected_failing_p: Probability
    pair: PairedDifference | None
    finding: Finding | None
    corrected_p: Probability | None
    text: str


class Verdict(Value):
    """The finding on a pair, `first` against `second`, with its reason.

    "Over all seeds" includes failures and successes that no measured seed showed. `corrected_p` is
    the p-value corrected for all comparisons of the table. The reason is `test` for better and
    worse. Two methods cannot be told apart `within_margin` if the limits over all seeds are within
    the margin, and `alike_on_seeds_run` if only the limits for seeds like those run are.
    Otherwise the order is not known: `one_seed` if there is no second seed; `projection` if about
    `more_seeds` more seeds should decide it (between `more_seeds_low` and `more_seeds_high`;
    None is beyond 64 in all); `too_close` if 64 seeds are not expected to.

    `undone_by` is the share of the higher method's seeds that would have to fail for the means to
    be equal. `unseen_failure_rate` is the share that may fail although none of these seeds did.
    `successful` compares the seeds that do not fail. `text` states both parts.
    """

    pair: PairedDifference
    finding: Finding
    reason: Reason
    corrected_p: Probability | None
    comparisons: Annotated[int, Field(ge=1)]
    margin: Annotated[float, Field(ge=0, le=1)]
    more_seeds: Annotated[int, Field(ge=1)] | None = None
    more_seeds_low: Annotated[int, Field(ge=1)] | None = None
    more_seeds_high: Annotated[int, Field(ge=1)] | None = None
    undone_by: Fraction
    unseen_failure_rate: Fraction
    successful: SuccessfulSeeds | None = None
    text: str


@dataclass(frozen=True, slots=True)
class SeedOutcomes:
    """The failing seeds of both methods of a pair, and the pair without them."""

    first_failing: FailingSeeds
    second_failing: FailingSeeds
    pair: PairedDifference | None


def verdicts(
    pairs: Sequence[PairedDifference],
    margin: float = 0.01,
    false_better: float = FALSE_BETTER,
    outcomes: Sequence[SeedOutcomes] = (),
) -> tuple[Verdict, ...]:
    """Return one verdict per pair.

    At most a share `false_better` of all tables calls any method falsely better. Holm's correction
    is applied to all `pairs` together, on the larger p-value of the two models of seeds; the least
    p-value that an exact test allows bounds the corrected value from below. `margin` is the
    difference, as a share of items, below which methods count as alike; this is concluded per
    pair, without correction. `outcomes`, one per pair, adds the comparison among seeds that do not
    fail, which is corrected in the same way and keeps the promise separately.
    """
    corrected = _corrected(pairs)
    decided = sum(value is not None and value <= false_better for value in corrected)
    tested = sum(value is not None for value in corrected)
    tail = false_better / max(1, tested - decided) / 2
    among = _successful(outcomes, margin, false_better) if outcomes else [None] * len(pairs)
    return tuple(
        _verdict(pair, value, max(1, tested), margin, (false_better, tail), successful)
        for pair, value, successful in zip(pairs, corrected, among, strict=True)
    )


def _corrected(
    pairs: Sequence[PairedDifference | None], *, seen: bool = False
) -> list[float | None]:
    """Return corrected p-values, at least those of an exact test."""
    raw = [
        None
        if pair is None or pair.seen_p is None
        else pair.seen_p
        if seen
        else max(pair.seen_p, pair.unseen_p)
        for pair in pairs
    ]
    corrected = iter(holm([value for value in raw if value is not None]))
    return [
        None if pair is None or value is None else max(next(corrected), least_p_value(pair.seeds))
        for pair, value in zip(pairs, raw, strict=True)
    ]


def _verdict(
    pair: PairedDifference,
    corrected: float | None,
    comparisons: int,
    margin: float,
    errors: tuple[float, float],
    successful: SuccessfulSeeds | None,
) -> Verdict:
    false_better, tail = errors
    finding: Finding
    reason: Reason
    needed: MoreSeeds | None = None
    if corrected is None:
        lacking = LEAST_SEEDS - pair.seeds
        finding, reason, needed = "not_known", "one_seed", MoreSeeds(lacking, lacking, None)
    elif corrected <= false_better:
        finding, reason = ("better" if pair.difference > 0 else "worse"), "test"
    elif -margin <= pair.low and pair.high <= margin:
        finding, reason = "cannot_be_told_apart", "within_margin"
    elif -margin <= pair.seen_low and pair.seen_high <= margin:
        finding, reason = "cannot_be_told_apart", "alike_on_seeds_run"
    elif needed := more_seeds(pair, tail, false_better):
        finding, reason = "not_known", "projection"
    else:
        finding, reason = "not_known", "too_close"
    rate = unseen_failure_rate(pair.seeds, pair.level)
    clause = _clause(pair, finding, reason, needed, margin)
    numbers = _numbers(pair, corrected, comparisons, reason)
    text = f"{clause} ({numbers}).{_undone(pair, reason, rate)}"
    if successful is not None:
        text = f"{text} {successful.text}"
    return Verdict(
        pair=pair,
        finding=finding,
        reason=reason,
        corrected_p=corrected,
        comparisons=comparisons,
        margin=margin,
        more_seeds=needed.likely if needed else None,
        more_seeds_low=needed.low if needed else None,
        more_seeds_high=needed.high if needed else None,
        undone_by=pair.undone_by,
        unseen_failure_rate=rate,
        successful=successful,
        text=text,
    )


def _clause(
    pair: PairedDifference,
    finding: Finding,
    reason: Reason,
    needed: MoreSeeds | None,
    margin: float,
) -> str:
    first, second = map(method_in_sentence, (pair.first, pair.second))
    not_known = f"Over all seeds, the order of {first} and {second} is not known with {pair.seeds}"
    match reason:
        case "test":
            return f"Over all seeds, {first} is {finding} than {second} by {_size(pair)}"
        case "within_margin":
            return f"Over all seeds, {first} and {second} {alike(margin)}"
        case "alike_on_seeds_run":
            return f"On seeds like the {pair.seeds} run, {first} and {second} {alike(margin)}"
        case "too_close":
            return f"{not_known} seeds, and {MOST_SEEDS} are not expected to settle it"
        case "one_seed":
            return f"{not_known} seed; run at least {LEAST_SEEDS} seeds"
        case "projection":
            return f"{not_known} seeds; {needed.text if needed else ''} should settle it"


def _size(pair: PairedDifference) -> str:
    return f"{100 * abs(pair.difference):.1f} points"


def alike(margin: float, unit: str | None = None) -> str:
    """Return what is said of two methods that differ by less than a margin.

    It is in points, or in the given unit.
    """
    unit = unit or ("point" if margin == 0.01 else "points")
    return f"cannot be told apart: they differ by less than {100 * margin:g} {unit}"


def _undone(pair: PairedDifference, reason: Reason, rate: float) -> str:
    """Return the sentence on unseen seeds, with a space before it."""
    if reason == "within_margin":
        return ""
    if reason == "alike_on_seeds_run":
        return f" Up to {percent(rate, 0)} of other seeds may behave differently."
    if pair.undone_by == 0:
        return ""
    higher = method_in_sentence(pair.first if pair.difference > 0 else pair.second)
    return (
        f" The difference is undone if {percent(pair.undone_by, 0)} of the seeds of {higher} fail; "
        f"up to {percent(rate, 0)} may fail unseen."
    )


def _numbers(
    pair: PairedDifference, corrected: float | None, comparisons: int, reason: Reason
) -> str:
    """Return the figures of a pair that its clause does not state."""
    over = " over all seeds" if reason == "alike_on_seeds_run" else ""
    figures = _limits(pair.level, pair.low, pair.high, over)
    if reason != "test":
        figures = f"difference {points(pair.difference)} points, {figures}"
    if corrected is not None:
        figures += f"; p = {corrected:.2g}, corrected for {counted(comparisons, 'comparison')}"
    return f"{figures}; {counted(pair.seeds, 'seed')}, {pair.items:,} items"


def _successful(
    outcomes: Sequence[SeedOutcomes], margin: float, false_better: float
) -> list[SuccessfulSeeds | None]:
    corrected = _corrected([one.pair for one in outcomes], seen=True)
    rates = [exact_p_value(one.first_failing, one.second_failing) for one in outcomes]
    return [
        _among_successful(one, value, (rate, corrected_rate), margin, false_better)
        for one, value, rate, corrected_rate in zip(
            outcomes, corrected, rates, holm(rates), strict=True
        )
    ]


def _among_successful(
    outcome: SeedOutcomes,
    corrected: float | None,
    failing_p: tuple[float, float],
    margin: float,
    false_better: float,
) -> SuccessfulSeeds:
    pair = outcome.pair
    finding: Finding | None = None
    if pair is not None:
        if corrected is not None and corrected <= false_better:
            finding = "better" if pair.difference > 0 else "worse"
        elif corrected is not None and -margin <= pair.seen_low and pair.seen_high <= margin:
            finding = "cannot_be_told_apart"
        else:
            finding = "not_known"
    return SuccessfulSeeds(
        first_failing=outcome.first_failing,
        second_failing=outcome.second_failing,
        failing_p=failing_p[0],
        corrected_failing_p=failing_p[1],
        pair=pair,
        finding=finding,
        corrected_p=corrected,
        text=f"{_successful_sentence(pair, finding, corrected, margin)} "
        f"Failing seeds: {failing_text(outcome.first_failing)} against "
        f"{failing_text(outcome.second_failing)}; Fisher's exact p = {failing_p[0]:.2g}.",
    )


def _successful_sentence(
    pair: PairedDifference | None, finding: Finding | None, corrected: float | None, margin: float
) -> str:
    if pair is None:
        return "No shared seed succeeds with both methods, so only their failures can be compared."
    among = "Among seeds that do not fail,"
    first, second = map(method_in_sentence, (pair.first, pair.second))
    numbers = _limits(pair.level, pair.seen_low, pair.seen_high)
    if corrected is not None:
        numbers += f"; p = {corrected:.2g}"
    numbers += f"; {counted(pair.seeds, 'seed')}"
    if finding in ("better", "worse"):
        return f"{among} {first} is {finding} than {second} by {_size(pair)} ({numbers})."
    numbers = f"difference {points(pair.difference)} points, {numbers}"
    if finding == "cannot_be_told_apart":
        return f"{among} {first} and {second} {alike(margin)} ({numbers})."
    return f"{among} the order of {first} and {second} is not known ({numbers})."


def failing_text(failing: FailingSeeds) -> str:
    """Return count and limits of failures: "0 of 5 (up to 45 %)"."""
    count = f"{failing.failing} of {failing.seeds}"
    if failing.failing == 0:
        return f"{count} (up to {percent(failing.high, 0)})"
    if failing.failing == failing.seeds:
        return f"{count} (at least {percent(failing.low, 0)})"
    return f"{count} ({100 * failing.low:.0f} to {percent(failing.high, 0)})"


def _limits(level: float, low: float, high: float, over: str = "") -> str:
    return f"{100 * level:g} % interval{over} {points(low)} to {points(high)}"
