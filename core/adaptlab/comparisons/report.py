"""The report of a table at one budget: headline, rows, why and notes.

It is written once, here; the demo, the command line, pages, bundles, notifications and the API
render it.
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal

from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.method_classes import Standing
from adaptlab.comparisons.metric_order import MetricRow
from adaptlab.comparisons.row_names import RowNames, method_in_sentence, row_titles
from adaptlab.figures import counted, limited_points, listed, percent
from adaptlab.plugins.metric import METRICS, lowest_is_best
from adaptlab.plugins.sizing import PARAMETERS, in_units
from adaptlab.statistics.intervals import unseen_failure_rate
from adaptlab.values import Value

MOST_NOTES = 3
RIGHT = "right %"
"""The unit of a report by the share of right items."""
RowRole = Literal["candidate", "reference"]
Tag = Literal["best", "may be best", "works", "behind", "partly", "fails", "unknown", "reference"]


class ReportRow(Value):
    """One method, in the order of the best set.

    `tag` is the one word that is said of it, and `standing` the class behind it. `figure`, `limits`
    and `difference` are texts in the unit of the report; the difference is from the leader. `mark`
    refers to a line of `marks`. `moved` is the largest deviation of relative attention from the
    base model's, None if attention was not recorded.
    """

    label: str
    title: str
    mark: str | None = None
    parameters: int | None
    figure: str
    limits: str
    seeds_ok: int
    seeds: int
    role: RowRole
    standing: Standing
    tag: Tag
    difference: str
    moved: float | None = None


class SeenSeeds(Value):
    """Earlier seeds of the method in row `label` on models of one family.

    They are those of other jobs of the project, on any task. One failed if it diverged or did not
    beat the floor of its task. `method` is None in reports of earlier versions.
    """

    label: str
    method: str | None = None
    family: str
    failing: int
    seeds: int


class Report(Value):
    """What is found at one budget.

    `headline` has at most two sentences. `level` is the confidence of the limits, `unit` the head
    of the column of scores, and `against` the title of the leader. `why` is the diagnosis in one
    sentence, None without one. `notes` are at most three, those that may change the finding first.
    """

    budget: int | None
    level: float
    headline: str
    unit: str
    against: str | None
    rows: tuple[ReportRow, ...]
    marks: tuple[str, ...] = ()
    why: str | None = None
    notes: tuple[str, ...] = ()


def report_of(
    comparison: Comparison,
    cell: ComparisonCell,
    *,
    moved: dict[str, float],
    why: str | None = None,
    warnings: Sequence[str] = (),
    seen: Sequence[SeenSeeds] = (),
) -> Report:
    """Return the report of one cell.

    Args:
        comparison: the table.
        cell: one of its cells.
        moved: the largest deviation of attention by row, where it was recorded.
        why: the diagnosis in one sentence, if there is one.
        warnings: sentences to read before the rows, the most important first.
        seen: the seeds of other jobs by row.
    """
    titles = row_titles([row.method for row in cell.rows])
    leader = next((row for row in cell.rows if row.label == cell.leader), None)
    marks = _marks(cell)
    ordered = sorted(cell.rows, key=lambda row: _place(row, cell))
    order = cell.by_metric
    return Report(
        budget=cell.budget,
        level=comparison.level,
        headline=headline(comparison, cell),
        unit=RIGHT if order is None else METRICS.get(order.metric).unit,
        against=None if leader is None else titles[leader.method],
        rows=tuple(
            _row(row, cell, titles[row.method], marks.get(row.label), moved.get(row.label))
            for row in ordered
        ),
        marks=tuple(_mark_lines(cell, marks)),
        why=why,
        notes=tuple(_notes(comparison, cell, warnings, seen))[:MOST_NOTES],
    )


def headline(comparison: Comparison, cell: ComparisonCell) -> str:
    """Return the finding of a cell with its budget."""
    if comparison.voided or cell.budget is None:
        return cell.sentence
    sentence = RowNames(cell.rows).continued(cell.sentence)
    units = " trained parameters" if comparison.axis == PARAMETERS else ""
    return f"At up to {in_units(cell.budget, comparison.axis)}{units}, {sentence}"


def _place(row: ComparisonRow, cell: ComparisonCell) -> tuple[bool, bool, bool, float]:
    is_best = row.label in cell.best and row.standing != "fails"
    return not row.is_candidate, not is_best, row.label != cell.leader, -_mean(row, cell)


def _mean(row: ComparisonRow, cell: ComparisonCell) -> float:
    measured = _measured(row, cell)
    if measured is None or cell.by_metric is None:
        return row.score.mean
    return -measured.mean if lowest_is_best(cell.by_metric.metric) else measured.mean


def _measured(row: ComparisonRow, cell: ComparisonCell) -> MetricRow | None:
    rows = () if cell.by_metric is None else cell.by_metric.rows
    return next((one for one in rows if one.label == row.label), None)


def _row(
    row: ComparisonRow, cell: ComparisonCell, title: str, mark: str | None, moved: float | None
) -> ReportRow:
    figure, limits = _figures(row, cell)
    return ReportRow(
        label=row.label,
        title=title,
        mark=mark,
        parameters=row.parameters,
        figure=figure,
        limits=limits,
        seeds_ok=row.failing.ok,
        seeds=row.failing.seeds,
        role="candidate" if row.is_candidate else "reference",
        standing=row.standing,
        tag=_tag(row, cell),
        difference=_difference(row, cell),
        moved=moved,
    )


def _tag(row: ComparisonRow, cell: ComparisonCell) -> Tag:
    if not row.is_candidate:
        return "reference"
    if row.standing in ("fails", "unknown"):
        return row.standing
    if row.label in cell.best:
        alone = all(one.label in (row.label, row.same_as) or one.same_as == row.label
                    for one in cell.rows if one.label in cell.best)  # fmt: skip
        return "best" if alone else "may be best"
    return row.standing


def _figures(row: ComparisonRow, cell: ComparisonCell) -> tuple[str, str]:
    measured, order = _measured(row, cell), cell.by_metric
    if measured is not None and order is not None:
        metric = METRICS.get(order.metric)
        if measured.low is None or measured.high is None:
            return metric.bare(measured.mean), ""
        return metric.bare(
            measured.mean
        ), f"{metric.bare(measured.low)}–{metric.bare(measured.high)}"
    low, high = _rounded(row.score.low), _rounded(row.score.high)
    return f"{100 * row.score.mean:.1f}", f"{low}–{high}"


def _rounded(share: float) -> str:
    """Return a limit in per cent, with a digit after the point near 0 and 100."""
    value = round(100 * share, 1)
    return f"{value:.1f}" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f}"


def _difference(row: ComparisonRow, cell: ComparisonCell) -> str:
    if row.label == cell.leader:
        return "leader"
    if (pair := row.against_best) is None:
        return ""
    limited = limited_points if pair.metric is None else METRICS.get(pair.metric).difference
    return limited(pair.difference, pair.low, pair.high)


def _marks(cell: ComparisonCell) -> dict[str, str]:
    """Return the marks of rows that compute the same function."""
    firsts = dict.fromkeys(row.same_as for row in cell.rows if row.same_as is not None)
    letters = {first: f"[{'abcdefghij'[place % 10]}]" for place, first in enumerate(firsts)}
    return {
        row.label: letters[row.same_as or row.label]
        for row in cell.rows
        if (row.same_as or row.label) in letters
    }


def _mark_lines(cell: ComparisonCell, marks: dict[str, str]) -> Iterator[str]:
    names = RowNames(cell.rows)
    for mark in dict.fromkeys(marks.values()):
        labels = [names.of(label) for label, own in marks.items() if own == mark]
        yield f"{mark} {listed(labels)} compute one function on this model and count once."


def _notes(
    comparison: Comparison,
    cell: ComparisonCell,
    warnings: Sequence[str],
    seen: Sequence[SeenSeeds],
) -> Iterator[str]:
    yield from warnings
    if comparison.voided:
        return
    sentences = [*_unseen(comparison, cell), *_elsewhere(cell, seen)]
    if sentences:
        yield " ".join(sentences)


def _unseen(comparison: Comparison, cell: ComparisonCell) -> Iterator[str]:
    """Yield how many seeds may fail unseen, if a candidate has no failing one."""
    sound = (row for row in cell.rows if row.is_candidate and not row.failing.failing)
    if seeds := min((row.failing.seeds for row in sound), default=0):
        rate = unseen_failure_rate(seeds, comparison.level)
        yield (
            f"With {counted(seeds, 'seed')}, up to {percent(rate, 0)} of other seeds may fail "
            "although none here did."
        )


def _elsewhere(cell: ComparisonCell, seen: Sequence[SeenSeeds]) -> Iterator[str]:
    """Yield how often the leader failed in other jobs, if it was seen there."""
    for other in seen:
        if other.label == cell.leader:
            name = method_in_sentence(other.method or other.label)
            yield (
                f"In other jobs here, {name} failed on {other.failing:,} of {other.seeds:,} seeds "
                f"({other.family})."
            )


TITLE_WIDTH = 20
AGAINST_WIDTH = 18


def report_lines(report: Report) -> Iterator[str]:
    """Yield the report as lines of text, at most 80 columns wide."""
    yield from textwrap.wrap(report.headline, 80)
    yield ""
    has_moved = any(row.moved is not None for row in report.rows)
    table = [_head(report, has_moved=has_moved)]
    table += [_cells(row, has_moved=has_moved) for row in report.rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        first, *rest = line
        others = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        cells = [first.ljust(widths[0]), *others]
        yield " ".join(cells).rstrip()
    for mark in report.marks:
        yield from textwrap.wrap(mark, 80)
    if report.why or report.notes:
        yield ""
    if report.why:
        yield from textwrap.wrap(f"Why: {report.why}", 80)
    for note in report.notes:
        yield from textwrap.wrap(note, 80)


def _head(report: Report, *, has_moved: bool) -> list[str]:
    against = "difference" if report.against is None else f"against {report.against}"
    if len(against) > AGAINST_WIDTH:
        against = "against the leader"
    moved = ["moved"] if has_moved else []
    return ["", "trained", report.unit, f"{100 * report.level:g} %", "ok", against, *moved]


def _cells(row: ReportRow, *, has_moved: bool) -> list[str]:
    title = f"{row.title} {row.mark}" if row.mark else row.title
    if row.role == "reference":
        title += " (ref)"
    if len(title) > TITLE_WIDTH + 2:
        title = f"{title[: TITLE_WIDTH + 1]}…"
    difference = row.tag if row.difference == "leader" else row.difference
    moved = [moved_text(row.moved)] if has_moved else []
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    ok = f"{row.seeds_ok} of {row.seeds}"
    return [title, parameters, row.figure, row.limits, ok, difference, *moved]


def moved_text(value: float | None) -> str:
    """Return a deviation of attention in two digits; small ones as a power."""
    if value is None:
        return ""
    return f"{value:.2f}" if value == 0 or value >= 0.01 else f"{value:.0e}"
