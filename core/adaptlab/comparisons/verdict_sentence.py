"""The finding of a comparison: what works, what does not, what is open.

The dashboard, the command line, bundles and recommendations all quote it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from adaptlab.comparisons.verdict import MOST_SEEDS, Verdict
from adaptlab.figures import counted, listed, percent
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis, in_units
from adaptlab.statistics.choice import ChosenBest
from adaptlab.statistics.failing import FailingSeeds
from adaptlab.statistics.intervals import Interval

MOST_NAMED = 3
"""Pairs named in one sentence; the rest are counted."""
ITEMS_ONLY = "Intervals over items only, because every seed has the same score: {}."
"""The note on rows whose interval is not over seeds."""
VOIDED = (
    "No verdict, because the jobs differ in settings that void the comparison; compare jobs with "
    "equal settings."
)


class SentenceRow(Protocol):
    """The members of a method's row that the sentence quotes."""

    @property
    def label(self) -> str:
        """The name of the row."""
        ...

    @property
    def score(self) -> Interval:
        """Its mean accuracy."""
        ...

    @property
    def failing(self) -> FailingSeeds:
        """Its failing seeds."""
        ...


def cell_sentence(
    rows: Sequence[SentenceRow],
    verdicts: Sequence[Verdict],
    best: Sequence[str],
    *,
    chosen: ChosenBest | None = None,
    chance: float = 0.0,
    voided: bool = False,
) -> str:
    """Return the finding at one budget, fit to be pasted into a paper.

    A method works if at least half of its seeds succeed and does not work if all of them fail.

    Args:
        rows: the methods at this budget.
        verdicts: all verdicts on pairs of these rows.
        best: the labels of the rows that could be best over all seeds.
        chosen: the corrected score of the method that is named the best.
        chance: the accuracy of guessing.
        voided: True if the settings differ so that nothing can be concluded.
    """
    if voided:
        return VOIDED
    if _all_fail(rows):
        return _nothing_works(rows, chance)
    return " ".join([_works(rows), *_order(rows, verdicts, best, chosen)])


def named_best(rows: Sequence[SentenceRow], best: Sequence[str]) -> str | None:
    """Return the label of the row that is named the best, if any.

    No row is named if it is the only one or if all seeds of all rows fail.
    """
    return best[0] if len(best) == 1 and len(rows) > 1 and not _all_fail(rows) else None


def _best(label: str, chosen: ChosenBest | None) -> str:
    if chosen is None:
        return f"Over all seeds, {label} is the best."
    return (
        f"Over all seeds, {label} is the best: {percent(chosen.corrected)} "
        f"({_limits(chosen.score, chosen.level)}) after correction for the choice among "
        f"{chosen.candidates} methods."
    )


def seeds_to_settle(verdicts: Sequence[Verdict], best: Sequence[str]) -> int | None:
    """Return how many more seeds should tell which row is the best.

    Each open pair among the rows that could be best is expected to be decided with this many, if
    it can be with 64 seeds in all. None if no open pair can.
    """
    likely = [one.more_seeds for one in _contested(verdicts, best) if one.more_seeds is not None]
    return max(likely, default=None)


def comparison_sentence(
    cells: Sequence[tuple[int | None, str]], axis: BudgetAxis = PARAMETERS
) -> str:
    """Return the sentences of all cells, or the one that they share."""
    if len({sentence for _, sentence in cells}) == 1:
        return cells[0][1]
    return " ".join(
        sentence if budget is None else f"At a budget of {in_units(budget, axis)}: {sentence}"
        for budget, sentence in cells
    )


def _all_fail(rows: Sequence[SentenceRow]) -> bool:
    return all(row.failing.failing == row.failing.seeds for row in rows)


def _nothing_works(rows: Sequence[SentenceRow], chance: float) -> str:
    best = max(rows, key=lambda row: row.score.mean)
    return (
        f"Nothing measured works: the best, {best.label}, scores {percent(best.score.mean)}, and "
        f"chance is {percent(chance)}."
    )


def _works(rows: Sequence[SentenceRow]) -> str:
    working = [row for row in rows if 2 * row.failing.failing <= row.failing.seeds]
    never = [row for row in rows if row.failing.failing == row.failing.seeds]
    partly = [row for row in rows if row not in working and row not in never]
    clauses: list[str] = []
    if working:
        names = listed([f"{row.label} ({_score(row)})" for row in working])
        clauses.append(f"{names} {'works' if len(working) == 1 else 'work'}")
    if partly:
        names = listed([f"{row.label} ({_seeds(row)})" for row in partly])
        clauses.append(f"{names} {'fails' if len(partly) == 1 else 'fail'} on most seeds")
    if never:
        names = listed([f"{row.label} ({percent(row.score.mean)})" for row in never])
        clauses.append(f"{names} {'does' if len(never) == 1 else 'do'} not work")
    return f"{'; '.join(clauses)}."


def _score(row: SentenceRow) -> str:
    limits = _limits(row.score, row.score.level)
    return f"{percent(row.score.mean)}, {limits}; {_seeds(row)}"


def _limits(score: Interval, level: float) -> str:
    return f"{100 * level:.0f} % interval {100 * score.low:.1f} to {percent(score.high)}"


def _seeds(row: SentenceRow) -> str:
    return f"{row.failing.failing} of {counted(row.failing.seeds, 'seed')} failed"


def _order(
    rows: Sequence[SentenceRow],
    verdicts: Sequence[Verdict],
    best: Sequence[str],
    chosen: ChosenBest | None,
) -> Iterator[str]:
    working = [row.label for row in rows if row.failing.failing < row.failing.seeds]
    if (label := named_best(rows, best)) is not None:
        yield _best(label, chosen)
    among = [
        one
        for one in verdicts
        if one.successful is not None and one.successful.finding in ("better", "worse")
    ]
    yield from _better_among(among, working)
    ordered = any(one.finding in ("better", "worse") for one in verdicts)
    contested = _contested(verdicts, best)
    yield from _not_known(contested, of_all=not ordered and len(best) == len(rows))


def _better_among(among: Sequence[Verdict], working: Sequence[str]) -> Iterator[str]:
    pairs = [
        (one.pair.first, one.pair.second)
        if one.successful is not None and one.successful.finding == "better"
        else (one.pair.second, one.pair.first)
        for one in among
        if one.pair.first in working and one.pair.second in working
    ]
    if pairs:
        orders = listed(
            [f"{better} is better than {worse}" for better, worse in pairs[:MOST_NAMED]]
        )
        rest = len(pairs) - MOST_NAMED
        more = f" (and {counted(rest, 'more pair')})" if rest > 0 else ""
        yield f"Among seeds that do not fail, {orders}{more}."


def _not_known(contested: Sequence[Verdict], *, of_all: bool) -> Iterator[str]:
    """Yield a sentence on open pairs and the seeds to settle them.

    With `of_all`, no pair of all rows has a known order, and they are not all named again.
    """
    if not contested:
        return
    names = [*dict.fromkeys(name for one in contested for name in _labels(one))]
    seeds = counted(min(one.pair.seeds for one in contested), "seed")
    if of_all and len(names) > MOST_NAMED:
        yield f"With {seeds}, no order over all seeds is known; {_settled(contested)}."
        return
    yield (
        f"With {seeds}, the order of {listed(names)} over all seeds is not known; "
        f"{_settled(contested)}."
    )


def _contested(verdicts: Sequence[Verdict], best: Sequence[str]) -> list[Verdict]:
    """Return the open pairs among the rows that could be best."""
    return [
        one
        for one in verdicts
        if one.finding == "not_known" and one.pair.first in best and one.pair.second in best
    ]


def _labels(verdict: Verdict) -> tuple[str, str]:
    return verdict.pair.first, verdict.pair.second


def _settled(contested: Sequence[Verdict]) -> str:
    lows = [one.more_seeds_low for one in contested if one.more_seeds_low is not None]
    if not lows:
        return f"{MOST_SEEDS} seeds are not expected to settle it"
    highs = [one.more_seeds_high for one in contested if one.more_seeds is not None]
    numbers = [high for high in highs if high is not None]
    some = "it" if len(lows) == len(contested) else "part of it"
    least = min(lows)
    if len(numbers) < len(highs):
        return f"at least {counted(least, 'more seed')} should settle {some}"
    most = max(numbers)
    number = counted(most, "more seed")
    return f"{number if least == most else f'{least} to {number}'} should settle {some}"
