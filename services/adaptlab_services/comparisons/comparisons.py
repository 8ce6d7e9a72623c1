"""Comparisons of studies or of any jobs: tables, verdicts and diagnoses."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.comparisons.comparability import comparability
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.comparisons.metric_order import MetricRow
from adaptlab.comparisons.row_names import first_in_sentence
from adaptlab.comparisons.table_comparison import MissingScores, TableComparison, with_reports
from adaptlab.studies.study_plan import SkippedCell
from adaptlab_answers.comparisons import JobComparisonView, StudyComparisonView, StudyName
from adaptlab_answers.studies import StudyCell, StudyView
from adaptlab_services.comparisons.comparison_diagnoses import diagnoses
from adaptlab_services.comparisons.comparison_groups import (
    ComparedTable,
    check_pairs,
    tables_of_jobs,
)
from adaptlab_services.comparisons.comparison_inputs import (
    AS_USUAL,
    ComparisonInputs,
    InputJob,
    InputRow,
    Strictness,
    TableInputs,
)
from adaptlab_services.comparisons.comparison_retention import frontiers, kept, of_groups
from adaptlab_services.comparisons.comparison_rows import (
    ComparedRow,
    alone_of,
    base_warnings,
    carried,
    chance_of,
    compared_jobs,
    compared_method,
    constant_of,
    forgetting,
    metric,
    missing_scores,
    unread_warnings,
)
from adaptlab_services.comparisons.seen_seeds import with_seen
from adaptlab_services.errors import Absent
from adaptlab_services.results.scored_jobs import ScoredJob, scored_jobs
from adaptlab_services.studies import studies

MOST_JOBS = 200
"""Limit on jobs in a comparison without a study."""


@dataclass(frozen=True, slots=True)
class ReadTables:
    """The tables of a comparison with their measurements."""

    study: StudyName | None
    tables: tuple[ComparedTable, ...]
    strictness: Strictness

    def inputs(self) -> ComparisonInputs:
        """Return the inputs that identify the computed tables."""
        tables = tuple(map(TableInputs.of, self.tables))
        return ComparisonInputs(self.study, tables, self.strictness)


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """The comparison of a study, by id or name."""

    study: str
    strictness: Strictness = AS_USUAL
    view: StudyView | None = field(default=None, compare=False)
    """The study, if it was just read."""

    def inputs(self, session: Session) -> ComparisonInputs:
        """Return the current inputs, without measurements; raises `Absent`."""
        view = self.view or studies.get(session, self.study)
        return ComparisonInputs(_name(view), study_tables(view), self.strictness)

    def read(self, session: Session) -> ReadTables:
        """Read all measurements; raises `Absent`."""
        view = studies.get(session, self.study)
        tables = with_seen(session, tables_of_study(session, view))
        return ReadTables(_name(view), tables, self.strictness)


@dataclass(frozen=True, slots=True)
class JobsQuestion:
    """The comparison of any adaptations, with one table per task.

    Jobs that differ only in their seeds form one row.
    """

    job_ids: tuple[UUID, ...]
    strictness: Strictness = AS_USUAL

    def inputs(self, session: Session) -> ComparisonInputs:
        """Return the current inputs; raises what `read` raises."""
        return self.read(session).inputs()

    def read(self, session: Session) -> ReadTables:
        """Read all measurements.

        Raises:
            Absent: a job does not exist.
            InvalidSpec: a job is not an adaptation, or there are too many pairs of rows.
        """
        jobs = scored_jobs(session, self.job_ids)
        for job_id in self.job_ids:
            if job_id not in jobs:
                raise Absent("job", job_id)
        grouped = tables_of_jobs(tuple(jobs.values()))
        check_pairs(grouped)
        return ReadTables(None, with_seen(session, grouped), self.strictness)


Question = StudyQuestion | JobsQuestion


def of_study(
    session: Session, study: str, strictness: Strictness = AS_USUAL
) -> StudyComparisonView:
    """Compute the comparison of a study by id or name; raises `Absent`.

    This simple version holds the transaction while it computes. Servers use `ComparisonRuns`.
    """
    comparison = computed(StudyQuestion(study, strictness).read(session))
    assert isinstance(comparison, StudyComparisonView)
    return comparison


def of_jobs(
    session: Session, job_ids: Sequence[UUID], strictness: Strictness = AS_USUAL
) -> JobComparisonView:
    """Compute the comparison of any adaptations, as `of_study` does.

    Raises what `JobsQuestion.read` raises.
    """
    return computed(JobsQuestion(tuple(job_ids), strictness).read(session))


def computed(read: ReadTables) -> JobComparisonView:
    """Compute the comparison of these tables."""
    return read.inputs().comparison(compared(read.tables, read.strictness))


def _name(view: StudyView) -> StudyName:
    return StudyName(id=view.id, name=view.name, state=view.state, terminal=view.terminal)


def tables_of_study(session: Session, view: StudyView) -> tuple[ComparedTable, ...]:
    """Return a study's tables with measurements, in the study's order.

    A base model without any cell has no table.
    """
    jobs = scored_jobs(session, {job.id for cell in view.cells for job in cell.jobs})
    return tuple(_measured(table, jobs) for table in study_tables(view))


def _measured(table: TableInputs, jobs: Mapping[UUID, ScoredJob]) -> ComparedTable:
    rows = tuple(
        ComparedRow(row.method, row.budget, row.role, tuple(jobs[job.id] for job in row.jobs))
        for row in table.rows
    )
    place = (table.base_model, table.task)
    return ComparedTable(*place, rows, table.skipped, table.axis, table.answers)


def study_tables(view: StudyView) -> tuple[TableInputs, ...]:
    """Return the tables of a study, with the jobs of their rows."""
    cells: dict[tuple[str, str], list[StudyCell]] = defaultdict(list)
    for cell in view.cells:
        cells[cell.base_model, cell.task].append(cell)
    return tuple(_placed(view, *place, own) for place, own in cells.items())


def _placed(view: StudyView, base_model: str, task: str, cells: Sequence[StudyCell]) -> TableInputs:
    skipped = [cell for cell in view.skipped if cell.base_model == base_model]
    methods = {method: n for n, method in enumerate(dict.fromkeys(cell.method for cell in cells))}
    rows = sorted(_rows(cells), key=lambda row: methods[row.method])
    left_out = tuple(map(_skipped, skipped))
    answers = tuple(_answers(view, base_model, task))
    return TableInputs(base_model, task, tuple(rows), left_out, view.budget_axis, answers)


def _answers(view: StudyView, base_model: str, task: str) -> Iterator[tuple[int, str]]:
    """Yield the answers of the study's question in one table, by budget."""
    for table in () if view.question is None else view.question.tables:
        if (table.place.base_model, table.place.task) == (base_model, task):
            yield table.place.budget, table.sentence


def _rows(cells: Sequence[StudyCell]) -> Iterator[InputRow]:
    """Yield one row per cell, or one for the same jobs at every budget.

    Such rows are references, and methods of fixed size that fit every budget. They have no budget
    of their own, so their tests count once.
    """
    budgets = {cell.budget for cell in cells}
    placed: dict[str, set[tuple[UUID, ...]]] = defaultdict(set)
    counts = Counter(cell.method for cell in cells)
    for cell in cells:
        placed[cell.method].add(tuple(job.id for job in cell.jobs))
    seen: set[str] = set()
    for cell in cells:
        is_one = len(placed[cell.method]) == 1
        everywhere = is_one and counts[cell.method] == len(budgets) > 1
        is_alone = cell.role == "reference" or everywhere or (cell.role == "control" and is_one)
        if is_alone and cell.method in seen:
            continue
        seen.add(cell.method)
        budget = None if is_alone else cell.budget
        yield InputRow(cell.method, budget, cell.role, tuple(map(InputJob.of, cell.jobs)))


def _skipped(cell: SkippedCell) -> MissingScores:
    at = "" if cell.budget is None else f" at {cell.budget:,}"
    why = " ".join(problem.detail for problem in cell.problems)
    return MissingScores(
        method=cell.method,
        budget=cell.budget,
        state="skipped",
        reason=cell.problems[0].code if cell.problems else None,
        seeds=(),
        job=None,
        text=f"{first_in_sentence(f'{cell.method}{at}')} was left out: {why}",
    )


def compared(
    tables: Sequence[ComparedTable], strictness: Strictness
) -> tuple[TableComparison, ...]:
    """Compute the tables, each with its own error rate."""
    return tuple(compared_table(table, strictness) for table in tables)


def compared_table(table: ComparedTable, strictness: Strictness) -> TableComparison:
    """Compute one table, whose controls are not compared."""
    every, controls = table.rows, [row for row in table.rows if row.role == "control"]
    table = replace(table, rows=tuple(row for row in every if row.role != "control"))
    reference = reference_of(table.rows)
    comparison = _comparison(table, reference, strictness)
    missing = [gap for row in table.rows for gap in missing_scores(row)]
    forgotten = (forgetting(row) for row in table.rows)
    ordered = _ordered_by_metric(comparison)
    metrics = (metric(row, strictness.level, ordered.get(row.label)) for row in table.rows)
    found = TableComparison(
        base_model=table.base_model,
        task=table.task,
        comparison=comparison,
        diagnoses=tuple(diagnoses(every, comparison, reference)) if comparison else (),
        missing=(*missing, *table.skipped),
        forgetting=tuple(change for change in forgotten if change is not None),
        methods=tuple(map(compared_method, table.rows)),
        controls=tuple(map(compared_method, controls)),
        carried=tuple(one for row in table.rows for one in carried(row)),
        metrics=tuple(one for one in metrics if one is not None),
        seen=table.seen,
        retention=tuple(one for row in table.rows if (one := kept(row, strictness.level))),
        frontiers=frontiers(table.rows, comparison),
        groups=tuple(one for row in table.rows if (one := of_groups(row, strictness.level))),
    )
    return with_reports(found)


def _ordered_by_metric(comparison: Comparison | None) -> dict[str, MetricRow]:
    """Return the rows of a table's orders by the task's metric, by label."""
    cells = () if comparison is None else comparison.cells
    orders = (cell.by_metric for cell in cells if cell.by_metric is not None)
    return {row.label: row for order in orders for row in order.rows}


def _comparison(
    table: ComparedTable, reference: ComparedRow | None, strictness: Strictness
) -> Comparison | None:
    if not (scores := table.scores()):
        return None
    return compare(
        table.task,
        scores,
        axis=table.axis,
        reference=reference.method if reference else None,
        margin=strictness.margin,
        level=strictness.level,
        differences=comparability(compared_jobs(table.rows)),
        of_bases=(*base_warnings(table.rows), *unread_warnings(table.rows)),
        chance=chance_of(table.rows[0]),
        alone=alone_of(table.rows),
        constant=constant_of(table.rows[0]),
        answers=dict(table.answers),
    )


def reference_of(rows: Sequence[ComparedRow]) -> ComparedRow | None:
    """Return the scored reference with the most trainable parameters, if any.

    It shows what can be learned, and at what cost. Of two equally large ones, the one that starts
    from the base model is returned, like the methods that are compared with it.
    """
    scored = [r for r in rows if r.role == "reference" and r.parameters and r.evaluations()]
    return max(scored, key=lambda row: (row.parameters, not row.starts_from_scratch), default=None)
