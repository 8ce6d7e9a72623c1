"""Comparisons: the tables of a study, or of any jobs, with warnings, verdicts and diagnoses."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.comparability import SettingDifference, comparability
from adaptlab.comparison import Comparison, compare
from adaptlab.statistics import Scores
from adaptlab.study_plan import SkippedCell
from adaptlab.table_comparison import table_warnings
from adaptlab_services import studies
from adaptlab_services.comparison_diagnoses import diagnoses
from adaptlab_services.comparison_groups import ComparedTable, check_pairs, tables_of_jobs
from adaptlab_services.comparison_rows import (
    Row,
    compared_jobs,
    compared_method,
    forgetting,
    missing_scores,
)
from adaptlab_services.comparison_views import (
    JobComparison,
    MissingScores,
    StudyComparison,
    StudyName,
    TableComparison,
)
from adaptlab_services.errors import NotFound
from adaptlab_services.scored_jobs import ScoredJob, scored_jobs
from adaptlab_services.study_views import StudyCell, StudyView

DEFAULT_LEVEL = 0.95
DEFAULT_MARGIN = 0.01
MOST_JOBS = 200
"""Jobs that can be compared without a study."""
MOST_KEPT = 4
"""Computed tables that are kept: seven seconds for 30 methods at 32 budgets, with 10 seeds."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """The confidence level of intervals, and the difference below which methods count as alike."""

    level: float = DEFAULT_LEVEL
    margin: float = DEFAULT_MARGIN


def of_study(
    session: Session, study: str, strictness: Strictness = Strictness()
) -> StudyComparison:
    """The comparison of a study by id or name, as far as it has scores; raises `NotFound`."""
    view = studies.get(session, study)
    tables = compared(tables_of_study(session, view), strictness)
    return StudyComparison(
        study=StudyName(id=view.id, name=view.name, state=view.state, terminal=view.terminal),
        warnings=table_warnings(tables),
        level=strictness.level,
        margin=strictness.margin,
        tables=tables,
    )


def of_jobs(
    session: Session, job_ids: Sequence[UUID], strictness: Strictness = Strictness()
) -> JobComparison:
    """The comparison of any adaptations, one table a task, as far as they have scores.

    Jobs that differ in nothing but their seeds are one row. Raises `NotFound` for a job that is
    not there and `InvalidSpec` for one that adapts nothing, and for more pairs than are tested.
    """
    jobs = scored_jobs(session, job_ids)
    for job_id in job_ids:
        if job_id not in jobs:
            raise NotFound("job", job_id)
    grouped = tables_of_jobs(tuple(jobs.values()))
    check_pairs(grouped)
    tables = compared(grouped, strictness)
    return JobComparison(
        warnings=table_warnings(tables),
        level=strictness.level,
        margin=strictness.margin,
        tables=tables,
    )


def tables_of_study(session: Session, view: StudyView) -> tuple[ComparedTable, ...]:
    """What a study has measured, in its order; a base model without any cell has no table."""
    jobs = scored_jobs(session, {job.id for cell in view.cells for job in cell.jobs})
    return tuple(_tables_of_study(view, jobs))


def _tables_of_study(view: StudyView, jobs: Mapping[UUID, ScoredJob]) -> Iterator[ComparedTable]:
    for base_model, task in dict.fromkeys((cell.base_model, cell.task) for cell in view.cells):
        cells = [cell for cell in view.cells if (cell.base_model, cell.task) == (base_model, task)]
        skipped = [one for one in view.skipped if one.base_model == base_model]
        methods = [*dict.fromkeys(cell.method for cell in cells)]
        rows = sorted(_rows(cells, jobs), key=lambda row: methods.index(row.method))
        yield ComparedTable(base_model, task, tuple(rows), tuple(map(_skipped, skipped)))


def _rows(cells: Sequence[StudyCell], jobs: Mapping[UUID, ScoredJob]) -> Iterator[Row]:
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
        yield Row(cell.method, budget, cell.role, tuple(jobs[job.id] for job in cell.jobs))


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
    return tuple(_table(table, len(tables), strictness) for table in tables)


def _table(table: ComparedTable, tables: int, strictness: Strictness) -> TableComparison:
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
    return _computed(
        table.task,
        scores,
        reference.method if reference else None,
        strictness,
        tables,
        comparability(compared_jobs(table.rows)),
    )


@functools.lru_cache(maxsize=MOST_KEPT)
def _computed(
    task: str,
    scores: tuple[Scores, ...],
    reference: str | None,
    strictness: Strictness,
    tables: int,
    differences: tuple[SettingDifference, ...],
) -> Comparison:
    """Kept, because a page and its charts ask for the same."""
    return compare(
        task,
        scores,
        reference=reference,
        margin=strictness.margin,
        level=strictness.level,
        tables=tables,
        differences=differences,
    )


def reference_of(rows: Sequence[Row]) -> Row | None:
    """The scored reference that trains the most: what can be learned, and what it costs.

    Of two, the one that starts from the base model as all that are measured against it do.
    """
    scored = [r for r in rows if r.role == "reference" and r.parameters and r.evaluations()]
    return max(scored, key=lambda row: (row.parameters, not row.starts_anew), default=None)
