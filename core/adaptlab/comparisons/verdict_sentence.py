"""The finding of a comparison: what works, what does not, what is open.

The dashboard, the command line, bundles and recommendations all quote it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from adaptlab.comparisons.row_names import NamedRow, RowNames
from adaptlab.comparisons.verdict import MOST_SEEDS, Verdict
from adaptlab.figures import counted, listed, percent
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis, in_units
from adaptlab.statistics.choice import ChosenBest
from adaptlab.statistics.failing import FailingSeeds
from adaptlab.statistics.intervals import Interval

MOST_NAMED = 3
"""Pairs or candidates named in one sentence; more are counted."""
MOST_SCORED, MOST_LISTED = 4, 8
"""Methods with a score each, and methods with a name each; more are summarised."""
ITEMS_ONLY = "Intervals over items only, because every seed has the same score: {}."
"""The note on rows whose interval is not over seeds."""
VOIDED = (
    "No verdict, because the jobs differ in settings that void the comparison; compare jobs with "
    "equal settings."
)


class SentenceRow(NamedRow, Protocol):
    """The members of a method's row that the sentence quotes."""

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
    unlearned_bases: int = 0,
    base_works: bool = False,
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
        unlearned_bases: base models of these rows that have not learned their own tasks.
        base_works: True if the base model alone has the score of a seed that succeeds.
    """
    if voided:
        return VOIDED
    names = RowNames(rows)
    if _all_fail(rows):
        found = [_nothing_works(rows, names, chance)]
    else:
        found = [_works(rows, names), *_order(rows, names, verdicts, best, chosen)]
    if base_works and not unlearned_bases:  # of its own task, more is asked
        found.insert(1, f"The base model alone works{'' if _all_fail(rows) else ', too'}.")
    return " ".join([*found, *_unlearned(unlearned_bases)])


def named_best(rows: Sequence[SentenceRow], best: Sequence[str]) -> str | None:
    """Return the label of the row that is named the best, if any.

    No row is named if it is the only one or if all seeds of all rows fail.
    """
    return best[0] if len(best) == 1 and len(rows) > 1 and not _all_fail(rows) else None


def _best(label: str, names: RowNames, chosen: ChosenBest | None) -> str:
    best = names.starting(f"{names.of(label)} is the best over all seeds", label)
    if chosen is None:
        return f"{best}."
    return (
        f"{best}: {percent(chosen.corrected)} ({_limits(chosen.score, chosen.level)}), corrected "
        f"for the choice among {chosen.candidates} methods."
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


def _nothing_works(rows: Sequence[SentenceRow], names: RowNames, chance: float) -> str:
    best = max(rows, key=lambda row: row.score.mean)
    scores = f"scores {percent(best.score.mean)}; chance is {percent(chance)}."
    name = names.of(best.label)
    if len(rows) == 1:
        return names.starting(f"{name} does not work: it {scores}", best.label)
    return f"Nothing measured works: the best, {name}, {scores}"


def _unlearned(bases: int) -> Iterator[str]:
    if bases == 1:
        yield "The base model has not learned its own task: adapt a better one first."
    elif bases:
        yield f"{bases} base models have not learned their own tasks: adapt better ones first."


def _works(rows: Sequence[SentenceRow], names: RowNames) -> str:
    working = [row for row in rows if 2 * row.failing.failing <= row.failing.seeds]
    never = [row for row in rows if row.failing.failing == row.failing.seeds]
    partly = [row for row in rows if row not in working and row not in never]
    clauses: list[str] = []
    if working:
        scores = [_score(row, is_first=row is working[0]) for row in working]
        clauses.append(_clause(working, names, ("works", "work"), scores))
    if never:
        verbs = ("does not", "do not") if working else ("does not work", "do not work")
        clauses.append(_clause(never, names, verbs, [percent(row.score.mean) for row in never]))
    if partly:
        count, *rest = [
            f"{names.of(row.label)}{' fails' if row is partly[0] else ''} on {_of_seeds(row)}"
            for row in partly
        ]
        clauses.append(listed([f"{count} seeds", *rest]))
    first = [*working, *never, *partly][0]
    return names.starting(f"{'; '.join(clauses)}.", first.label)


def _clause(
    rows: Sequence[SentenceRow], names: RowNames, verbs: tuple[str, str], scores: Sequence[str]
) -> str:
    """Return "a (90 %) and b (80 %) work", with a range for many scores."""
    verb = verbs[len(rows) > 1]
    who = [names.of(row.label) for row in rows]
    if len({*scores}) == 1:
        return f"{listed(who)} {verb} ({scores[0]})"
    if len(rows) <= MOST_SCORED:
        each = [f"{name} ({score})" for name, score in zip(who, scores, strict=True)]
        return f"{listed(each)} {verb}"
    means = [row.score.mean for row in rows]
    subject = listed(who) if len(who) <= MOST_LISTED else f"{len(who)} methods"
    return f"{subject} {verb} ({100 * min(means):.1f} to {percent(max(means))})"


def _score(row: SentenceRow, *, is_first: bool) -> str:
    """Return a score with its interval, whose level only the first one states."""
    limits = f"{100 * row.score.low:.1f} to {100 * row.score.high:.1f}"
    if is_first:
        limits = _limits(row.score, row.score.level)
    failed = f"; {_of_seeds(row)} seeds failed" if row.failing.failing else ""
    return f"{percent(row.score.mean)}, {limits}{failed}"


def _limits(score: Interval, level: float) -> str:
    return f"{100 * level:.0f} % interval {100 * score.low:.1f} to {100 * score.high:.1f}"


def _of_seeds(row: SentenceRow) -> str:
    return f"{row.failing.failing} of {row.failing.seeds}"


def _order(
    rows: Sequence[SentenceRow],
    names: RowNames,
    verdicts: Sequence[Verdict],
    best: Sequence[str],
    chosen: ChosenBest | None,
) -> Iterator[str]:
    working = [row.label for row in rows if row.failing.failing < row.failing.seeds]
    if (label := named_best(rows, best)) is not None:
        yield _best(label, names, chosen)
    among = [
        one
        for one in verdicts
        if one.successful is not None and one.successful.finding in ("better", "worse")
    ]
    yield from _better_among(among, names, working)
    yield from _not_known(_contested(verdicts, best), names, candidates=len(rows))


def _better_among(
    among: Sequence[Verdict], names: RowNames, working: Sequence[str]
) -> Iterator[str]:
    pairs = [
        (one.pair.first, one.pair.second)
        if one.successful is not None and one.successful.finding == "better"
        else (one.pair.second, one.pair.first)
        for one in among
        if one.pair.first in working and one.pair.second in working
    ]
    if not pairs:
        return
    worse: dict[str, list[str]] = {}
    for better, other in pairs[:MOST_NAMED]:
        worse.setdefault(better, []).append(names.of(other))
    orders = [f"{names.of(one)} is better than {listed(others)}" for one, others in worse.items()]
    rest = len(pairs) - MOST_NAMED
    more = f"; {counted(rest, 'more pair')} {'differs' if rest == 1 else 'differ'}"
    yield f"Among seeds that do not fail, {', and '.join(orders)}{more if rest > 0 else ''}."


def _not_known(contested: Sequence[Verdict], names: RowNames, *, candidates: int) -> Iterator[str]:
    """Yield a sentence on the best method and the seeds to find it."""
    if not contested:
        return
    labels = [*dict.fromkeys(name for one in contested for name in _labels(one))]
    seeds = min(one.pair.seeds for one in contested)
    if len(labels) == 2:
        which = f"which of {listed([names.of(label) for label in labels])} is better"
    elif len(labels) <= MOST_NAMED:
        which = f"which of {listed([names.of(label) for label in labels])} is the best"
    elif len(labels) == candidates:
        which = "which method is the best"
    else:
        which = f"which of {len(labels)} methods is the best"
    yield (
        f"With {counted(seeds, 'seed')}, it remains open {which} over all seeds; "
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
        return f"{MOST_SEEDS} are not expected to settle it"
    highs = [one.more_seeds_high for one in contested if one.more_seeds is not None]
    numbers = [high for high in highs if high is not None]
    some = "it" if len(lows) == len(contested) else "part of it"
    least = min(lows)
    if len(numbers) < len(highs):
        return f"at least {least} more should settle {some}"
    most = max(numbers)
    return f"{least if least == most else f'{least} to {most}'} more should settle {some}"
