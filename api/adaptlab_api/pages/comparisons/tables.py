"""A comparison as its page shows it: warnings, then every table by budget."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar
from uuid import UUID

from pydantic_core import to_json

from adaptlab.charts import better_first
from adaptlab.charts.table_charts import compared_methods, ordered_rows
from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.frontier import Frontier
from adaptlab.comparisons.report import Report, ReportRow
from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.comparisons.scores import ScoreChange, task_labels
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MethodCarried,
    MethodDiagnosis,
    MethodGroups,
    MethodMetric,
    MissingScores,
    TableComparison,
    TableWarning,
    metric_of,
)
from adaptlab.comparisons.task_retention import TaskRetention, TextDrift
from adaptlab.comparisons.verdict import Verdict
from adaptlab.plugins.metric import Metric, metric_named
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.statistics import ChosenBest, PairedDifference
from adaptlab_api.requests.dependencies import Units
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_services.comparisons.stored_comparison import StoredComparison
from adaptlab_services.results.attention_heads import jobs_with_maps
from adaptlab_services.results.results import job_seconds

WARNING_TITLES = {
    "not_comparable": "Not comparable: these scores answer different questions",
    "base_not_learned": "The base model has not learned its own task",
    "unread": "This server lacks a plug-in that the jobs name",
    "unequal_effort": "Unequal effort: some methods were tuned harder than others",
    "unknown_effort": "Unknown effort: some adapters were trained elsewhere",
    "sweep_at_edge": "The best learning rate or initial scale is at the edge of its range",
    "missing": "Scores are missing",
    "missing_seeds": "Seeds are missing",
    "few_seeds": "Few seeds",
    "shared_bases": "Seeds share base models",
    "imported_base": "One base model",
    "few_items": "Few test items",
    "metric": "The metric",
    "unpaired": "Some pairs cannot be compared",
}
Measured = TypeVar("Measured", ScoreChange, TaskRetention)
FINDING_TITLES = {
    "better": "Better or worse",
    "cannot_be_told_apart": "Cannot be told apart",
    "not_known": "Order not known",
}


@dataclass(frozen=True, slots=True)
class WarningView:
    """All warnings of one kind before a table."""

    kind: str
    title: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What jobs recorded beside their scores.

    Attributes:
        with_maps: jobs with maps of attention after adaptation.
        seconds: by job, the time of training and evaluation of all its seeds and trials.
    """

    with_maps: Collection[UUID] = ()
    seconds: Mapping[UUID, float] = field(default_factory=dict[UUID, float])


@dataclass(frozen=True, slots=True)
class RowView:
    """A method at a budget; `gap` is the unused part, None for a reference.

    `line` is its line of the report, `metric` the task's metric, if it is not accuracy, and
    `seconds` the time of its jobs.
    """

    line: ReportRow
    row: ComparisonRow
    behind: ComparedMethod
    gap: int | None
    metric: MethodMetric | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PairView:
    """Two methods, the better one first if the scores decide."""

    first: str
    second: str
    pair: PairedDifference
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FindingView:
    """The pairs with the same finding."""

    finding: str
    title: str
    pairs: tuple[PairView, ...]


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """A method whose attention was recorded, with the job that recorded it."""

    method: str
    job: UUID


@dataclass(frozen=True, slots=True)
class SmallMap:
    """One head's attention in `job`, of the base model alone without `line`.

    The head is the one that the job `changed_by` changed most. `picture` is the address of the
    drawing, and `page` that of the job's attention, None for people without an account.
    """

    job: UUID
    changed_by: UUID
    line: ReportRow | None
    picture: str
    page: str | None

    @classmethod
    def of(cls, job: UUID, changed_by: UUID, line: ReportRow | None) -> Self:
        """Return a map at its own address."""
        source = "" if line else "&source=base"
        picture = f"/jobs/{job}/charts/attention-small.svg?changed_by={changed_by}{source}"
        return cls(job, changed_by, line, picture, f"/jobs/{job}/attention")


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The methods at one budget, as its report orders them.

    `swept` is true if some had several learning rates. `chosen` is the corrected score of the
    method that is named the best. `attention` are the methods whose attention was recorded; `maps`
    are those of the base, the first of these methods and the first that fails. `was_trained` is
    true if some method was.
    """

    number: int
    budget: int | None
    report: Report
    rows: tuple[RowView, ...]
    findings: tuple[FindingView, ...]
    swept: bool
    chosen: ChosenBest | None
    attention: tuple[AttentionChoice, ...]
    maps: tuple[SmallMap, ...]
    was_trained: bool

    @property
    def pairs(self) -> int:
        """The number of pairs with a verdict."""
        return sum(len(finding.pairs) for finding in self.findings)


@dataclass(frozen=True, slots=True)
class RetentionCell:
    """The change and the retention of one task; None if not scored."""

    change: ScoreChange | None
    kept: TaskRetention | None


@dataclass(frozen=True, slots=True)
class RetentionTable:
    """Old tasks by method, and why retention was not measured on some."""

    tasks: tuple[str, ...]
    rows: tuple[tuple[str, tuple[RetentionCell, ...]], ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableView:
    """One task and base model; `version` changes with its charts.

    `to_come` are missing scores that jobs will still produce, and `missing` the others. Skipped
    cells are shown with the study, not with its tables. `metric` is the task's metric beside
    accuracy, if it has one.
    """

    number: int
    version: str
    base_model: str
    task: str
    comparison: Comparison | None
    warnings: tuple[WarningView, ...]
    notes: tuple[str, ...]
    budgets: tuple[BudgetView, ...]
    failed: tuple[MethodDiagnosis, ...]
    learned: tuple[MethodDiagnosis, ...]
    missing: tuple[MissingScores, ...]
    to_come: tuple[MissingScores, ...]
    retention: RetentionTable | None
    drift: tuple[tuple[str, str, TextDrift], ...]
    frontiers: tuple[Frontier, ...]
    groups: tuple[MethodGroups, ...]
    carried: tuple[MethodCarried, ...]
    has_curves: bool
    metric: Metric | None


def shown_tables(
    units: Units, stored: StoredComparison, numbers: range | None = None
) -> tuple[TableView, ...]:
    """Return some tables of a comparison, or all, with what they can draw."""
    numbers = range(len(stored.contents)) if numbers is None else numbers
    tables = stored.inputs.tables[numbers.start : numbers.stop]
    jobs = {job.id for table in tables for row in table.rows for job in row.jobs}
    with units() as session:
        recorded = Recorded(jobs_with_maps(session, jobs), job_seconds(session, jobs))
    return table_views(stored, numbers, recorded)


def table_views(
    stored: StoredComparison, numbers: range, recorded: Recorded = Recorded()
) -> tuple[TableView, ...]:
    """Return some tables of a comparison."""
    shown, colours = stored.part(numbers), compared_methods(stored.methods)
    return tuple(
        _table(number, table, shown.warnings, colours, recorded)
        for number, table in zip(numbers, shown.tables, strict=True)
    )


def _table(
    number: int,
    table: TableComparison,
    warnings: Sequence[TableWarning],
    colours: tuple[str, ...],
    recorded: Recorded,
) -> TableView:
    comparison = table.comparison
    ours = [w for w in warnings if (w.base_model, w.task) == (table.base_model, table.task)]
    sweeps = [method.sweep for method in table.methods]
    differences = comparison.differences if comparison else ()
    lacking = [scores for scores in table.missing if scores.state != "skipped"]
    return TableView(
        number=number,
        version=hashlib.sha256(to_json([comparison, sweeps, colours, table.frontiers])).hexdigest()[
            :12
        ],
        base_model=table.base_model,
        task=table.task,
        comparison=comparison,
        warnings=tuple(_warnings(ours, table)),
        notes=tuple(difference.text for difference in differences if difference.weight == "note"),
        budgets=tuple(_budgets(table, comparison, recorded)) if comparison else (),
        failed=tuple(method for method in table.diagnoses if method.diagnosis.cause != "none"),
        learned=tuple(method for method in table.diagnoses if method.diagnosis.cause == "none"),
        missing=tuple(scores for scores in lacking if scores.state in TERMINAL_STATES),
        to_come=tuple(scores for scores in lacking if scores.state not in TERMINAL_STATES),
        retention=_retention(table),
        drift=tuple(_drift(table)),
        frontiers=table.frontiers,
        groups=table.groups,
        carried=table.carried,
        has_curves=bool(comparison) and len(comparison.cells) > 1 and bool(comparison.curves),
        metric=metric_named(metric_of(table)),
    )


def _warnings(warnings: Sequence[TableWarning], table: TableComparison) -> Iterator[WarningView]:
    """Yield one notice per kind; missing scores are listed below the tables."""
    for kind in dict.fromkeys(warning.kind for warning in warnings):
        texts = tuple(warning.text for warning in warnings if warning.kind == kind)
        if kind == "missing":
            lacking = [scores for scores in table.missing if scores.state != "skipped"]
            methods = dict.fromkeys(scores.method for scores in lacking)
            names = ", ".join(map(method_in_sentence, methods))
            texts = (f"This table is incomplete: it lacks scores of {names}. See below.",)
        yield WarningView(kind, WARNING_TITLES[kind], texts)


def _budgets(
    table: TableComparison, comparison: Comparison, recorded: Recorded
) -> Iterator[BudgetView]:
    behind = {method.label: method for method in table.methods}
    metrics = {one.label: one for one in table.metrics}
    for number, (cell, report) in enumerate(zip(comparison.cells, table.reports, strict=True)):
        labels = {row.label for row in cell.rows}
        yield BudgetView(
            number=number,
            budget=cell.budget,
            report=report,
            rows=tuple(_rows(report, cell, comparison.axis, behind, metrics, recorded.seconds)),
            findings=tuple(_findings(cell)),
            swept=any(len(behind[label].sweep) > 1 for label in labels),
            chosen=cell.chosen,
            attention=tuple(_attention(cell, behind, recorded.with_maps)),
            maps=tuple(_small_maps(report, behind, recorded.with_maps)),
            was_trained=any(behind[label].steps for label in labels),
        )


def _attention(
    cell: ComparisonCell, behind: Mapping[str, ComparedMethod], with_maps: Collection[UUID]
) -> Iterator[AttentionChoice]:
    for row in ordered_rows(cell):
        recorded = next((job for job in behind[row.label].jobs if job in with_maps), None)
        if recorded is not None:
            yield AttentionChoice(row.method, recorded)


def _small_maps(
    report: Report, behind: Mapping[str, ComparedMethod], with_maps: Collection[UUID]
) -> Iterator[SmallMap]:
    recorded = [
        (line, job) for line in report.rows for job in behind[line.label].jobs if job in with_maps
    ]
    if not recorded:
        return
    best, changed_by = recorded[0]
    yield SmallMap.of(changed_by, changed_by, None)
    yield SmallMap.of(changed_by, changed_by, best)
    for line, job in recorded:
        if line.tag == "fails" and line is not best:
            yield SmallMap.of(job, changed_by, line)
            return


def _used(method: ComparedMethod, axis: BudgetAxis) -> int:
    return method.parameters if axis == PARAMETERS else method.context_tokens


def _rows(
    report: Report,
    cell: ComparisonCell,
    axis: BudgetAxis,
    behind: Mapping[str, ComparedMethod],
    metrics: Mapping[str, MethodMetric],
    seconds: Mapping[UUID, float],
) -> Iterator[RowView]:
    rows = {row.label: row for row in cell.rows}
    for line in report.rows:
        method = behind[line.label]
        limit = cell.budget if method.role == "method" else None
        gap = None if limit is None else limit - _used(method, axis)
        taken = sum(seconds.get(job, 0.0) for job in method.jobs) or None
        yield RowView(line, rows[line.label], method, gap, metrics.get(line.label), taken)


def _findings(cell: ComparisonCell) -> Iterator[FindingView]:
    names = {row.label: row.method for row in cell.rows}
    for finding, title in FINDING_TITLES.items():
        pairs = tuple(
            PairView(names[pair.first], names[pair.second], pair, verdict)
            for verdict in cell.verdicts
            if verdict.finding.replace("worse", "better") == finding
            for pair in (better_first(verdict),)
        )
        if pairs:
            yield FindingView(finding, title, pairs)


def _retention(table: TableComparison) -> RetentionTable | None:
    changes = {method.label: method.changes for method in table.forgetting}
    kept = {method.label: method.tasks for method in table.retention}
    measured = (*(one for row in changes.values() for one in row),
                *(one for row in kept.values() for one in row))  # fmt: skip
    tasks = [*_distinct(one.task for one in measured)]
    labels = task_labels(tasks)
    rows = tuple(
        (label, tuple(
            RetentionCell(_on(task, changes.get(label, ())), _on(task, kept.get(label, ())))
            for task in tasks
        ))
        for label in dict.fromkeys((*changes, *kept))
    )  # fmt: skip
    reasons = dict.fromkeys(
        f"{labels[tasks.index(one.task)]}: {one.reason}"
        for row in kept.values()
        for one in row
        if one.reason is not None
    )
    return RetentionTable(tuple(labels), rows, tuple(reasons)) if tasks else None


def _drift(table: TableComparison) -> Iterator[tuple[str, str, TextDrift]]:
    """Yield the rows of the drift table: method, texts and figures."""
    every = [(row.label, one) for row in table.retention for one in row.drift]
    labels = task_labels([one.task for _, one in every])
    yield from ((label, text, one) for (label, one), text in zip(every, labels, strict=True))


def _distinct(tasks: Iterable[dict[str, object]]) -> Iterator[dict[str, object]]:
    seen: list[dict[str, object]] = []
    for task in tasks:
        if task not in seen:
            seen.append(task)
            yield task


def _on(task: dict[str, object], measured: Sequence[Measured]) -> Measured | None:
    return next((one for one in measured if one.task == task), None)
