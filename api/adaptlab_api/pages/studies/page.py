"""The list of studies, and one study with its progress and comparison."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.plugins.sizing import BudgetAxis
from adaptlab.specs.resolved import UnreadSpec, read_resolved
from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_answers.studies import StudyCell, StudyJobView, StudyView
from adaptlab_api.pages.comparisons import tables as comparison_tables
from adaptlab_api.pages.recipes.page import report_of
from adaptlab_api.pages.rendering.annotation_form import form_of
from adaptlab_api.pages.rendering.formats import budget, integer, pretty
from adaptlab_api.pages.studies.extending import MoreSeeds, offered_seeds, with_cost
from adaptlab_api.pages.studies.question import question_on_page
from adaptlab_api.requests.dependencies import Units
from adaptlab_db.job_states import JOB_STATES, TERMINAL_STATES
from adaptlab_services.comparisons.comparison_inputs import DEFAULT_LEVEL, DEFAULT_MARGIN
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import StudyQuestion
from adaptlab_services.comparisons.stored_comparison import MethodEffort, StoredComparison
from adaptlab_services.errors import Absent
from adaptlab_services.jobs import jobs as job_service
from adaptlab_services.jobs import rights
from adaptlab_services.jobs.estimates import estimate
from adaptlab_services.querying.list_conditions import Archived
from adaptlab_services.studies import studies, study_sharing
from adaptlab_services.studies.studies import Rules

STUDIES_PAGE = 50
LIST_POLL, STUDY_POLL = 5, 4
COMPUTING_POLL = 2
LARGE_STUDY, LARGE_STUDY_POLL = 32, 15  # cells; seconds
MOST_STUDIES_OF_JOB = 20
MOST_ROWS = 400
"""Limit on the rows of tables on one page, if there are several tables."""


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The numbers of jobs of a study, ended and by state."""

    ended: int
    total: int
    states: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """The claims that a study's theory checks measured, and how many hold."""

    holding: int
    measured: int


@dataclass(frozen=True, slots=True)
class CellRow:
    """One method at all budgets; a skipped cell is None."""

    method: str
    cells: tuple[StudyCell | None, ...]


@dataclass(frozen=True, slots=True)
class CellGrid:
    """The cells of one task and base model: methods down, budgets across."""

    base_model: str
    task: str
    budgets: tuple[int, ...]
    rows: tuple[CellRow, ...]


def study_list(
    session: Session, page_token: str | None, *, only_archived: bool = False
) -> dict[str, object]:
    """Return the values of the list; raise `InvalidSpec` for a wrong token."""
    archived: Archived = "only" if only_archived else "exclude"
    page = studies.page(session, page_size=STUDIES_PAGE, page_token=page_token, archived=archived)
    following = page.next_page_token
    of_these = {"archived": "only"} if only_archived else {}
    running = any(not study.terminal for study in page.data)
    return {
        "rows": [(study, job_counts(study.jobs)) for study in page.data],
        "following": following and f"/studies?{urlencode({**of_these, 'page_token': following})}",
        "first": f"/studies?{urlencode(of_these)}" if page_token else None,
        "only_archived": only_archived,
        "has_archived": not page.data
        and bool(studies.page(session, page_size=1, archived="only").data),
        "poll": LIST_POLL if running or not page_token else None,
    }


def study_page(
    units: Units, runs: ComparisonRuns, rules: Rules, name: str, first_table: int = 0
) -> dict[str, object]:
    """Return the values of one study, with tables from the first one on.

    `rules` are those of the estimate for more seeds. Raises `Absent` without such a study
    or table.
    """
    with units() as session:
        study = studies.get(session, name)
        may_change = rights.may_change_study(session, study.id)
        may_delete = rights.may_delete(session, study.project)
        may_share = study_sharing.may_share(session, study.id)
        report = report_of(session, study)
    answer = runs.answer(units, StudyQuestion(str(study.id), view=study))
    progress = answer if isinstance(answer, ComparisonProgress) else None
    stored = None if isinstance(answer, ComparisonProgress) else answer
    numbers = shown_tables(stored, first_table) if stored else range(0)
    jobs = _jobs(study)
    tables = comparison_tables.shown_tables(units, stored, numbers) if stored else ()
    return {
        "study": study,
        "may_change": may_change,
        "may_delete": may_delete,
        "may_share": may_share,
        "annotation": form_of(study.labels, study.notes),
        "counts": job_counts(study.jobs),
        "steps": (sum(job.step for job in jobs), sum(job.total_steps for job in jobs)),
        "facts": study_facts(study, stored, jobs),
        "first_score": None if _has_ended(jobs) else _seconds_to_first_score(units, study),
        "grids": cell_grids(study),
        "claims": claim_counts(study),
        "question": question_on_page(study),
        "report": report,
        "progress": progress,
        "tables": tables,
        "more_seeds": _offers(units, study, tables, rules) if may_change else {},
        "shown": numbers,
        "all_tables": stored.inputs.tables if stored else (),
        "charts": f"/studies/{quote(str(study.id), safe='')}/charts?",
        "curves": f"/studies/{quote(str(study.id), safe='')}/curves?",
        "level": DEFAULT_LEVEL,
        "margin": DEFAULT_MARGIN,
        "spec_json": pretty(study.spec),
        "poll": _poll_seconds(study, jobs) if progress is None else COMPUTING_POLL,
    }


def _has_ended(jobs: Sequence[StudyJobView]) -> bool:
    return all(job.terminal for job in jobs)


def _seconds_to_first_score(units: Units, study: StudyView) -> float | None:
    """Return the expected time of the first jobs that have not ended."""
    bases = {base.name: base.job for base in study.base_models}
    waiting = [
        (cell.base_model, job) for cell in study.cells for job in cell.jobs if not job.terminal
    ]
    if not waiting:
        return None
    base_model, first = waiting[0]
    base = bases.get(base_model)
    chain = [job.id for job in (base, first) if job is not None and not job.terminal]
    with units() as session:
        return sum(_seconds_left(session, job_id) for job_id in chain)


def _seconds_left(session: Session, job_id: UUID) -> float:
    job = job_service.get(session, job_id)
    if job.progress.eta_seconds is not None:
        return job.progress.eta_seconds
    spec = read_resolved(job.resolved_spec)
    return 0.0 if isinstance(spec, UnreadSpec) else estimate(session, spec, job.queue.name).seconds


def _offers(
    units: Units,
    study: StudyView,
    tables: Sequence[comparison_tables.TableView],
    rules: Rules,
) -> Mapping[int | None, MoreSeeds]:
    """Return the seeds that would settle an ended study, with their cost."""
    if not study.terminal:
        return {}
    offers = offered_seeds(study, tables)
    with units() as session:
        return with_cost(session, study, offers, rules)


def shown_tables(stored: StoredComparison, first: int) -> range:
    """Return the numbers of the tables on a page; raises `Absent`."""
    rows = [len(table.rows) for table in stored.inputs.tables]
    if first and first >= len(rows):
        raise Absent("table", first)
    last = first + 1
    while last < len(rows) and sum(rows[first : last + 1]) <= MOST_ROWS:
        last += 1
    return range(first, min(last, len(rows)))


def studies_of_job(session: Session, job_id: UUID) -> tuple[str, ...]:
    """Return the names of the newest studies of a job."""
    page = studies.page(session, job_id=job_id, page_size=MOST_STUDIES_OF_JOB, archived="include")
    return tuple(study.name for study in page.data)


def job_counts(states: Mapping[str, int]) -> JobCounts:
    """Return the numbers of jobs, with states in their usual order."""
    ended = sum(states.get(state, 0) for state in TERMINAL_STATES)
    shown = tuple((state, states[state]) for state in JOB_STATES if states.get(state))
    return JobCounts(ended, sum(states.values()), shown)


def study_facts(
    study: StudyView,
    stored: StoredComparison | None,
    jobs: Sequence[StudyJobView],
) -> list[tuple[str, str]]:
    """Return the plan of a study, in words; differing values are ranges.

    Seeds and steps are shown once the comparison is computed.
    """
    tables = stored.methods if stored else ()
    compared = [method for table in tables for method in table.methods]
    trained = [method for method in compared if method.parameters]
    reused = sum(job.reused for job in jobs)
    checks = {check.job.id for check in study.checks}
    passes = sum(not job.reused and job.id not in checks for job in jobs)
    seeds = _values(len(method.seeds) for method in compared)
    budgets = dict.fromkeys(cell.budget for cell in study.cells)
    of_checks = [("Theory checks", integer(len(checks)))] if checks else []
    if not study.cells:
        return [*of_checks, ("Jobs reused", integer(reused))]
    return [
        ("Budgets", _budgets([*budgets], study.budget_axis)),
        ("Seeds × trials", f"{seeds} × {_values(method.trials for method in trained)}"),
        ("Steps × batch", _steps(trained)),
        ("Cells", integer(len(study.cells))),
        *of_checks,
        ("Engine passes", integer(passes)),
        ("Jobs reused", integer(reused)),
    ]


def _budgets(amounts: Sequence[int], axis: BudgetAxis) -> str:
    """Return `512, 4,096`, or `2, 8 context tokens`."""
    *first, last = amounts
    return ", ".join((*map(integer, first), budget(last, axis)))


def claim_counts(study: StudyView) -> ClaimCounts:
    """Return the numbers of claims over all checks of a study."""
    verdicts = [report.verdict for check in study.checks for report in check.reports]
    return ClaimCounts(verdicts.count("holds"), len(verdicts))


def cell_grids(study: StudyView) -> tuple[CellGrid, ...]:
    """Return one grid per task and base model, in the order of the study."""
    places = dict.fromkeys((cell.base_model, cell.task) for cell in study.cells)
    return tuple(_grid(study.cells, base_model, task) for base_model, task in places)


def _poll_seconds(study: StudyView, jobs: Sequence[StudyJobView]) -> int | None:
    """Return the polling interval, or None if no job can change any more."""
    if study.terminal and all(job.terminal for job in jobs):
        return None
    return LARGE_STUDY_POLL if len(study.cells) > LARGE_STUDY else STUDY_POLL


def _grid(cells: Sequence[StudyCell], base_model: str, task: str) -> CellGrid:
    ours = [cell for cell in cells if (cell.base_model, cell.task) == (base_model, task)]
    budgets = tuple(sorted({cell.budget for cell in ours}))
    by_place = {(cell.method, cell.budget): cell for cell in ours}
    rows = tuple(
        CellRow(method, tuple(by_place.get((method, budget)) for budget in budgets))
        for method in dict.fromkeys(cell.method for cell in ours)
    )
    return CellGrid(base_model, task, budgets, rows)


def _jobs(study: StudyView) -> tuple[StudyJobView, ...]:
    """Return every job once, though a reference is in many cells."""
    jobs = [base.job for base in study.base_models]
    jobs += [job for cell in study.cells for job in cell.jobs]
    jobs += [check.job for check in study.checks]
    return tuple({job.id: job for job in jobs}.values())


def _values(values: Iterable[int]) -> str:
    """Return one number, or the range of several."""
    ordered = sorted(set(values))
    if not ordered:
        return integer(None)
    few, many = integer(ordered[0]), integer(ordered[-1])
    return few if few == many else f"{few} to {many}"


def _steps(trained: Sequence[MethodEffort]) -> str:
    batches = _values(method.batch_size for method in trained)
    return f"{_values(method.steps for method in trained)} × {batches}"
