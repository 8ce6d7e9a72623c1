"""The headline of a table at one budget, which every surface quotes.

It has at most two sentences: what is best or may be, what is behind and what fails; then what more
seeds would settle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from adaptlab.comparisons.method_classes import Standing
from adaptlab.comparisons.metric_order import MetricOrder
from adaptlab.comparisons.row_names import NamedRow, RowNames
from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.figures import counted, listed, percent
from adaptlab.plugins.metric import METRICS
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis, in_units
from adaptlab.statistics.failing import FailingSeeds, Floor
from adaptlab.statistics.intervals import Interval
from adaptlab.statistics.leads import FEWEST_SEEDS

MOST_NAMED = 3
"""Methods named in one clause; more are counted."""
MOST_LEADING = 2
"""Methods named among several that may be the best."""
ITEMS_ONLY = "Intervals over items only, because every seed has the same score: {}."
"""The note on rows whose interval is not over seeds."""
VOIDED = (
    "No verdict, because the jobs differ in settings that void the comparison; compare jobs with "
    "equal settings."
)
FLOORS = {
    "guessing": "guessing",
    "constant_answer": "the best constant answer",
    "copied_prompt": "copying the prompt",
    "most_common_answer": "always the most common answer",
    "base_alone": "the base model alone",
}


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

    @property
    def standing(self) -> Standing:
        """Its class in the table."""
        ...

    @property
    def is_candidate(self) -> bool:
        """False for a reference beyond the budget."""
        ...


@dataclass(frozen=True, slots=True)
class CellFinding:
    """What is known of one cell: the rows, and the set that contains the best."""

    rows: Sequence[SentenceRow]
    best: Sequence[str]
    leader: str | None
    more_seeds: int | None
    floor: Floor
    voided: bool = False
    unlearned_bases: int = 0
    by_metric: MetricOrder | None = None

    @property
    def candidates(self) -> list[SentenceRow]:
        """The rows that can be the best."""
        return [row for row in self.rows if row.is_candidate]

    @property
    def seeds(self) -> int:
        """The fewest trained seeds of a candidate."""
        return min((row.failing.seeds for row in self.candidates), default=0)


def cell_sentence(finding: CellFinding) -> str:
    """Return the finding at one budget, fit to be pasted into a paper."""
    if finding.voided:
        return VOIDED
    if not finding.candidates:
        return "Only references beyond the budget have scores."
    return " ".join(_Sentences(finding).all())


def named_best(rows: Sequence[SentenceRow], best: Sequence[str], leader: str | None) -> str | None:
    """Return the label of the row that is named the best, if any.

    No row is named if it is the only candidate or if no candidate beats the floor.
    """
    candidates = [row for row in rows if row.is_candidate]
    works = any(row.failing.ok for row in candidates)
    is_single = len(best) == 1 and len(candidates) > 1
    return leader if is_single and works else None


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


class _Sentences:
    """The sentences of one finding."""

    def __init__(self, finding: CellFinding) -> None:
        self._finding = finding
        self._names = RowNames(finding.rows)
        self._ok = {row.label: row for row in finding.candidates if row.failing.ok}

    def all(self) -> Iterator[str]:
        """Yield the sentences."""
        finding = self._finding
        if not self._ok:
            yield self._nothing_works()
        else:
            first = self._first_label()
            yield self._names.starting(f"{'; '.join(self._clauses())}.", first)
            yield from self._more()
        if finding.unlearned_bases:
            yield "The base model has not learned its own task: adapt a better one first."

    def _first_label(self) -> str:
        return next(iter(self._leading()), next(iter(self._ok)))

    def _leading(self) -> list[str]:
        """Return the methods that may be the best and beat the floor, in order."""
        best = [label for label in self._finding.best if label in self._ok]
        return sorted(best, key=lambda label: label != self._finding.leader)

    def _clauses(self) -> Iterator[str]:
        leading = self._leading()
        rest = [row for row in self._finding.candidates if row.label not in leading]
        yield self._lead(leading)
        behind = [row for row in rest if row.standing == "behind"]
        failing = [row for row in rest if not row.failing.ok]
        partly = [row for row in rest if row not in [*behind, *failing]]
        groups = (
            (behind, "is behind", "are behind"),
            (failing, "fails", "fail"),
            (partly, "fails on some seeds", "fail on some seeds"),
        )
        for rows, one, many in groups:
            if rows:
                yield f"{self._subject(rows)} {one if len(rows) == 1 else many}"

    def _lead(self, leading: Sequence[str]) -> str:
        rows = [self._ok[label] for label in leading]
        if len(self._finding.candidates) == 1:
            return f"{self._scored(rows[0])} works"
        if not rows:
            return "no single method is the best"
        if self._finding.seeds < FEWEST_SEEDS and len(rows) > 1:
            seeds = counted(self._finding.seeds, "seed")
            return f"{self._listed(rows)} work, in an order that {seeds} cannot show"
        if len(rows) == 1:
            return f"{self._scored(rows[0])} {self._is_best()}"
        return f"{self._listed(rows)} may each be the best"

    def _is_best(self) -> str:
        order = self._finding.by_metric
        if len(self._finding.best) > 1:  # the others fail on every seed that was run
            return "works"
        if order is None:
            return "is the best"
        where = "" if order.covers_items else " on these items"
        return f"is the best by {METRICS.get(order.metric).in_sentence}{where}"

    def _subject(self, rows: Sequence[SentenceRow]) -> str:
        figures = [self._figure(row) for row in rows]
        if len(rows) > MOST_NAMED:
            return f"{len(rows)} methods ({self._range(rows)})"
        if len(rows) > 1 and len({*figures}) == 1:
            return f"{listed([self._names.of(row.label) for row in rows])} ({figures[0]})"
        return listed([self._scored(row) for row in rows])

    def _range(self, rows: Sequence[SentenceRow]) -> str:
        ordered = sorted(rows, key=lambda row: row.score.mean)
        ends = dict.fromkeys((self._figure(ordered[0]), self._figure(ordered[-1])))
        return " to ".join(ends)

    def _listed(self, rows: Sequence[SentenceRow]) -> str:
        if len(rows) > MOST_LEADING:
            return f"{self._scored(rows[0])} and {len(rows) - 1} others"
        return listed([self._scored(row) for row in rows])

    def _scored(self, row: SentenceRow) -> str:
        figure = self._figure(row)
        if row.failing.failing and row.failing.ok:
            figure += f", {row.failing.ok} of {row.failing.seeds} seeds ok"
        return f"{self._names.of(row.label)} ({figure})"

    def _figure(self, row: SentenceRow) -> str:
        order = self._finding.by_metric
        if order is not None:
            mean = next((one.mean for one in order.rows if one.label == row.label), None)
            if mean is not None:
                return METRICS.get(order.metric).figure(mean)
        return percent(row.score.mean)

    def _floor(self) -> str:
        order, floor = self._finding.by_metric, self._finding.floor
        if order is not None and order.floor is not None:
            figure = METRICS.get(order.metric).figure(order.floor.value)
            return f"{figure} ({FLOORS[order.floor.kind]})"
        return f"{percent(floor.accuracy)} ({FLOORS[floor.kind]})"

    def _more(self) -> Iterator[str]:
        """Yield what more seeds would settle, if anything is open."""
        finding = self._finding
        leading = self._leading()
        if len(leading) < 2:
            return
        if finding.seeds < LEAST_SEEDS:
            yield f"Run {FEWEST_SEEDS} seeds of each to compare them."
        elif finding.more_seeds is None:
            yield "More seeds are not expected to tell them apart."
        else:
            yield f"{counted(finding.more_seeds, 'more seed')} of each should tell."

    def _nothing_works(self) -> str:
        finding = self._finding
        best = next(
            (row for row in finding.candidates if row.label == finding.leader),
            max(finding.candidates, key=lambda row: row.score.mean),
        )
        floor = f"the floor is {self._floor()}"
        name = self._scored(best)
        if len(finding.candidates) == 1:
            return self._names.starting(f"{name} does not work; {floor}.", best.label)
        return f"Nothing works: the best, {name}, does not beat the floor; {floor}."
