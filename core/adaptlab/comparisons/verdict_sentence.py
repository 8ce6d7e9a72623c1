"""The finding of a whole comparison: what works, what does not, and what would settle the rest.

The page, the command line, the frozen decision and the recommendation all quote it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from adaptlab.comparisons.verdict import MOST_SEEDS, Verdict
from adaptlab.statistics.choice import ChosenBest
from adaptlab.statistics.failing import FailingSeeds
from adaptlab.statistics.intervals import Interval

MOST_NAMED = 3
"""Pairs named in one sentence; further ones are counted."""
ITEMS_ONLY = "Over items alone, because every seed has the same score: {}."
"""Said of rows whose interval is not over seeds."""
VOIDED = "No verdict, because the jobs answer different questions; compare jobs of equal settings."


class SentenceRow(Protocol):
    """What the sentence needs of a method's row."""

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
    """Return the finding for the methods at one budget, as a person could paste it into a paper.

    A method works if at least half of its seeds succeed and does not work if all of them fail.

    Args:
        rows: the methods at this budget.
        verdicts: all verdicts on pairs of these rows.
        best: the labels of the rows that could be best over all seeds.
        chosen: the corrected score of the one that is named the best.
        chance: the accuracy of guessing.
        voided: whether settings differ so that nothing may be concluded.
    """
    if voided:
        return VOIDED
    if _all_fail(rows):
        return _nothing_works(rows, chance)
    return " ".join([_works(rows), *_order(rows, verdicts, best, chosen)])


def named_best(rows: Sequence[SentenceRow], best: Sequence[str]) -> str | None:
    """Return the label that the sentence of these rows names as the best over all seeds, if any.

    One row alone is no choice, and if all seeds fail nothing is named.
    """
    return best[0] if len(best) == 1 and len(rows) > 1 and not _all_fail(rows) else None


def _best(label: str, chosen: ChosenBest | None) -> str:
    if chosen is None:
        return f"Over all seeds, {label} is the best."
    limits = f"{100 * chosen.score.low:.1f} to {_percent(chosen.score.high)}"
    return (
        f"Over all seeds, {label} is the best: {_percent(chosen.corrected)} "
        f"({100 * chosen.level:.0f} % interval {limits}) after correction for the choice among "
        f"{chosen.candidates}."
    )


def comparison_sentence(cells: Sequence[tuple[int | None, str]]) -> str:
    """Return the sentences of all cells, each with its budget, or the one that they share."""
    if len({sentence for _, sentence in cells}) == 1:
        return cells[0][1]
    return " ".join(
        sentence if budget is None else f"At a budget of {budget:,}: {sentence}"
        for budget, sentence in cells
    )


def _all_fail(rows: Sequence[SentenceRow]) -> bool:
    return all(row.failing.failing == row.failing.seeds for row in rows)


def _nothing_works(rows: Sequence[SentenceRow], chance: float) -> str:
    best = max(rows, key=lambda row: row.score.mean)
    return (
        f"Nothing measured works: the best, {best.label}, scores {_percent(best.score.mean)}, and "
        f"chance is {_percent(chance)}."
    )


def _works(rows: Sequence[SentenceRow]) -> str:
    working = [row for row in rows if 2 * row.failing.failing <= row.failing.seeds]
    never = [row for row in rows if row.failing.failing == row.failing.seeds]
    partly = [row for row in rows if row not in working and row not in never]
    clauses: list[str] = []
    if working:
        named = _and([f"{row.label} ({_score(row)})" for row in working])
        clauses.append(f"{named} {'works' if len(working) == 1 else 'work'}")
    if partly:
        clauses.append(
            f"most seeds of {_and([f'{row.label} ({_seeds(row)})' for row in partly])} fail"
        )
    if never:
        verb = "does" if len(never) == 1 else "do"
        named = _and([f"{row.label} ({_percent(row.score.mean)})" for row in never])
        clauses.append(f"{named} {verb} not")
    said = "; ".join(clauses)
    return f"{said[0].upper()}{said[1:]}." if not working else f"{said}."


def _score(row: SentenceRow) -> str:
    score = row.score
    limits = f"{100 * score.low:.1f} to {_percent(score.high)}"
    return f"{_percent(score.mean)}, {100 * score.level:.0f} % interval {limits}; {_seeds(row)}"


def _seeds(row: SentenceRow) -> str:
    return f"{row.failing.failing} of {row.failing.seeds} seeds failed"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
    contested = [
        one
        for one in verdicts
        if one.finding == "not_known" and one.pair.first in best and one.pair.second in best
    ]
    yield from _not_known(contested)


def _better_among(among: Sequence[Verdict], working: Sequence[str]) -> Iterator[str]:
    pairs = [
        (one.pair.first, one.pair.second)
        if one.successful is not None and one.successful.finding == "better"
        else (one.pair.second, one.pair.first)
        for one in among
        if one.pair.first in working and one.pair.second in working
    ]
    if pairs:
        told = _and([f"{better} is better than {worse}" for better, worse in pairs[:MOST_NAMED]])
        more = f" (and {len(pairs) - MOST_NAMED} further pairs)" if len(pairs) > MOST_NAMED else ""
        yield f"Among seeds that do not fail, {told}{more}."


def _not_known(contested: Sequence[Verdict]) -> Iterator[str]:
    """The open pairs over all seeds and the seeds that would settle them."""
    if not contested:
        return
    named = _and([*dict.fromkeys(name for one in contested for name in _labels(one))])
    seeds = min(one.pair.seeds for one in contested)
    noun = "seed" if seeds == 1 else "seeds"
    yield (
        f"With {seeds} {noun}, the order of {named} over all seeds is not known; "
        f"{_settled(contested)}."
    )


def _labels(verdict: Verdict) -> tuple[str, str]:
    return verdict.pair.first, verdict.pair.second


def _settled(contested: Sequence[Verdict]) -> str:
    lows = [one.more_seeds_low for one in contested if one.more_seeds_low is not None]
    if not lows:
        return f"not even {MOST_SEEDS} seeds would be expected to settle it"
    highs = [one.more_seeds_high for one in contested if one.more_seeds is not None]
    numbers = [high for high in highs if high is not None]
    some = "it" if len(lows) == len(contested) else "part of it"
    if len(numbers) < len(highs):
        return f"{min(lows)} or more further seeds would settle {some}"
    least, most = min(lows), max(numbers)
    number = f"{least}" if least == most else f"{least} to {most}"
    return f"{number} further seed{'' if most == 1 else 's'} would settle {some}"


def _and(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
