"""Comparisons: the tables of a study, or of any jobs, with warnings, verdicts and diagnoses."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.comparisons.comparability import comparability
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.comparisons.table_comparison import MissingScores, TableComparison
from adaptlab.studies.study_plan import SkippedCell
from adaptlab_answers.comparisons import JobComparison, StudyComparison, StudyName
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
from adaptlab_services.comparisons.comparison_rows import (
    Row,
    base_warnings,
    chance_of,
    compared_jobs,
    compared_method,
    forgetting,
    missing_scores,
    unread_warnings,
)
from adaptlab_services.errors import NotFound
from adaptlab_services.results.scored_jobs import ScoredJob, scored_jobs
from adaptlab_services.studies import studies

MOST_JOBS = 200
"""Jobs that can be compared without a study."""


@dataclass(frozen=True, slots=True)
class ReadTables:
    """The tables of a comparison with all that was measured."""

    study: StudyName | None
    tables: tuple[ComparedTable, ...]
    strictness: Strictness

    def inputs(self) -> ComparisonInputs:
        """What names what is computed from these."""
        tables = tuple(map(TableInputs.of, self.tables))
        return ComparisonInputs(self.study, tables, self.strictness)


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """The comparison of a study, by id or name."""

    study: str
    strictness: Strictness = AS_USUAL

    def inputs(self, session: Session) -> ComparisonInputs:
        """What it would be computed from now, without what was measured; raises `NotFound`."""
        view = studies.get(session, self.study)
        return ComparisonInputs(_name(view), study_tables(view), self.strictness)

    def read(self, session: Session) -> ReadTables:
        """All that was measured; raises `NotFound`."""
        view = studies.get(session, self.study)
        return ReadTables(_name(view), tables_of_study(session, view), self.strictness)


@dataclass(frozen=True, slots=True)
class JobsQuestion:
    """The comparison of any adaptations, one table a task.

    Jobs that differ in nothing but their seeds are one row.
    """

    job_ids: tuple[UUID, ...]
    strictness: Strictness = AS_USUAL

    def inputs(self, session: Session) -> ComparisonInputs:
        """What it would be computed from now; raises as `read` does."""
        return self.read(session).inputs()

    def read(self, session: Session) -> ReadTables:
        """All that was measured.

        Raises `NotFound` for a job that is not there and `InvalidSpec` for one that adapts nothing,
        and for more pairs than are tested.
        """
        jobs = scored_jobs(session, self.job_ids)
        for job_id in self.job_ids:
            if job_id not in jobs:
                raise NotFound("job", job_id)
        grouped = tables_of_jobs(tuple(jobs.values()))
        check_pairs(grouped)
        return ReadTables(None, grouped, self.strictness)


Question = StudyQuestion | JobsQuestion


def of_study(session: Session, study: str, strictness: Strictness = AS_USUAL) -> StudyComparison:
    """The comparison of a study by id or name, computed here and now; raises `NotFound`.

    The plain path, which holds the transaction: `ComparisonRuns` is for servers.
    """
    found = computed(StudyQuestion(study, strictness).read(session))
    assert isinstance(found, StudyComparison)
    return found


def of_jobs(
    session: Session, job_ids: Sequence[UUID], strictness: Strictness = AS_USUAL
) -> JobComparison:
    """The comparison of any adaptations, computed here and now; raises as `JobsQuestion.read`."""
    return computed(JobsQuestion(tuple(job_ids), strictness).read(session))


def computed(read: ReadTables) -> JobComparison:
    """The comparison of what was read."""
    return read.inputs().comparison(compared(read.tables, read.strictness))


def _name(view: StudyView) -> StudyName:
    return StudyName(id=view.id, name=view.name, state=view.state, terminal=view.terminal)


def tables_of_study(session: Session, view: StudyView) -> tuple[ComparedTable, ...]:
    """What a study has measured, in its order; a base model without any cell has no table."""
    jobs = scored_jobs(session, {job.id for cell in view.cells for job in cell.jobs})
    return tuple(_measured(table, jobs) for table in study_tables(view))


def _measured(table: TableInputs, jobs: Mapping[UUID, ScoredJob]) -> ComparedTable:
    rows = tuple(
        Row(row.method, row.budget, row.role, tuple(jobs[job.id] for job in row.jobs))
        for row in table.rows
    )
    return ComparedTable(table.base_model, table.task, rows, table.skipped)


def study_tables(view: StudyView) -> tuple[TableInputs, ...]:
    """The tables of a study and the jobs in their rows."""
    cells: dict[tuple[str, str], list[StudyCell]] = defaultdict(list)
    for cell in view.cells:
        cells[cell.base_model, cell.task].append(cell)
    return tuple(_placed(view, *place, own) for place, own in cells.items())


def _placed(view: StudyView, base_model: str, task: str, cells: Sequence[StudyCell]) -> TableInputs:
    skipped = [one for one in view.skipped if one.base_model == base_model]
    methods = {method: n for n, method in enumerate(dict.fromkeys(one.method for one in cells))}
    rows = sorted(_rows(cells), key=lambda row: methods[row.method])
    return TableInputs(base_model, task, tuple(rows), tuple(map(_skipped, skipped)))


def _rows(cells: Sequence[StudyCell]) -> Iterator[InputRow]:
    """One row a cell, but one alone for a method that is the same at every budget.

    So are references, and methods of fixed size that every budget has room for: they stand beside
    every budget, and their tests count once.
    """
    budgets = {cell.budget for cell in cells}
    placed: dict[str, set[tuple[UUID, ...]]] = defaultdict(set)
    counts = Counter(cell.method for cell in cells)
    for cell in cells:
        placed[cell.method].add(tuple(job.id for job in cell.jobs))
    told: set[str] = set()
    for cell in cells:
        everywhere = len(placed[cell.method]) == 1 and counts[cell.method] == len(budgets) > 1
        is_alone = cell.role == "reference" or everywhere
        if is_alone and cell.method in told:
            continue
        told.add(cell.method)
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
        text=f"{cell.method}{at} was left out: {why}",
    )


def compared(
    tables: Sequence[ComparedTable], strictness: Strictness
) -> tuple[TableComparison, ...]:
    """What the scores of each table say; the promises are shared out over all of them."""
    return tuple(compared_table(table, len(tables), strictness) for table in tables)


def compared_table(table: ComparedTable, tables: int, strictness: Strictness) -> TableComparison:
    """What the scores of one of so many tables say."""
    reference = reference_of(table.rows)
    comparison = _comparison(table, reference, tables, strictness)
    missing = [one for row in table.rows for one in missing_scores(row)]
    forgotten = (forgetting(row) for row in table.rows)
    return TableComparison(
        base_model=table.base_model,
        task=table.task,
        comparison=comparison,
        diagnoses=tuple(diagnoses(table.rows, comparison, reference)) if comparison else (),
        missing=(*missing, *table.skipped),
        forgetting=tuple(one for one in forgotten if one is not None),
        methods=tuple(map(compared_method, table.rows)),
    )


def _comparison(
    table: ComparedTable, reference: Row | None, tables: int, strictness: Strictness
) -> Comparison | None:
    scores = tuple(found for row in table.rows if (found := row.scores()) is not None)
    if not scores:
        return None
    return compare(
        table.task,
        scores,
        reference=reference.method if reference else None,
        margin=strictness.margin,
        level=strictness.level,
        tables=tables,
        differences=comparability(compared_jobs(table.rows)),
        of_bases=(*base_warnings(table.rows), *unread_warnings(table.rows)),
        chance=chance_of(table.rows[0]),
    )


def reference_of(rows: Sequence[Row]) -> Row | None:
    """The scored reference that trains the most: what can be learned, and what it costs.

    Of two, the one that starts from the base model as all that are measured against it do.
    """
    scored = [r for r in rows if r.role == "reference" and r.parameters and r.evaluations()]
    return max(scored, key=lambda row: (row.parameters, not row.starts_anew), default=None)
