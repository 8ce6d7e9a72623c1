"""The inputs of a comparison's tables, and digests that identify results."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import UUID

from adaptlab.code_version import code_version
from adaptlab.comparisons.table_comparison import MissingScores, TableComparison, table_warnings
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.plugins.task import TASKS
from adaptlab.studies.study_plan import Role
from adaptlab_answers.comparisons import JobComparisonView, StudyComparisonView, StudyName
from adaptlab_answers.studies import StudyJobView
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.comparisons.comparison_rows import ComparedRow, live_text
from adaptlab_services.results import scored_jobs
from adaptlab_services.results.scored_jobs import ScoredJob

DEFAULT_LEVEL = 0.95
DEFAULT_MARGIN = 0.01
OPEN = "open"
"""State of every job that has not ended: it has no measurements yet."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """The confidence level of intervals, and the margin of equal methods."""

    level: float = DEFAULT_LEVEL
    margin: float = DEFAULT_MARGIN


AS_USUAL = Strictness()


@dataclass(frozen=True, slots=True)
class InputJob:
    """A job of a row; after its end, id and state identify its measurements."""

    id: UUID
    state: str
    reason: str | None
    error: str | None
    step: int
    total_steps: int
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, job: StudyJobView | ScoredJob) -> "InputJob":
        """Return the input for a job of a study or of the results."""
        fields = (job.id, job.state, job.reason, job.error, job.step, job.total_steps)
        return cls(*fields, seeds=job.seeds)


@dataclass(frozen=True, slots=True)
class InputRow:
    """One method at one budget; `budget` is None for the same at every budget."""

    method: str
    budget: int | None
    role: Role
    jobs: tuple[InputJob, ...]

    @classmethod
    def of(cls, row: ComparedRow) -> "InputRow":
        """Return the input for a row whose results were read."""
        return cls(row.method, row.budget, row.role, tuple(map(InputJob.of, row.jobs)))


Places = Mapping[tuple[str, int | None, UUID], tuple[InputRow, InputJob]]
"""The jobs of a table with their rows, by method, budget and job."""


@dataclass(frozen=True, slots=True)
class TableInputs:
    """The rows of one table, and the cells without a row.

    `answers` are those of the study's question by budget, if it has one.
    """

    base_model: str
    task: str
    rows: tuple[InputRow, ...]
    skipped: tuple[MissingScores, ...] = ()
    axis: BudgetAxis = PARAMETERS
    answers: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, table: ComparedTable) -> "TableInputs":
        """Return the inputs of a table whose results were read."""
        rows = tuple(map(InputRow.of, table.rows))
        place = (table.base_model, table.task)
        return cls(*place, rows, table.skipped, table.axis, table.answers)

    def digest(self, strictness: Strictness) -> str:
        """Return the digest that identifies the table computed by this code.

        Ended jobs cannot change, and open jobs have no measurements. A table is therefore computed
        again when one of its jobs ends, or when a plug-in is installed or removed: without its
        plug-ins, the spec of a job cannot be read.
        """
        rows = [
            [row.method, row.budget, row.role, [[str(job.id), _state(job)] for job in row.jobs]]
            for row in self.rows
        ]
        settings = [strictness.level, strictness.margin]
        plug_ins = [registry.names() for registry in (FAMILIES, METHODS, TASKS)]
        code = [statistics_version(), plug_ins]
        place = [self.base_model, self.task, self.axis, *map(list, self.answers)]
        document = json.dumps([*code, *settings, *place, rows])
        return hashlib.sha256(document.encode()).hexdigest()

    def brought_up_to_date(self, table: TableComparison) -> TableComparison:
        """Return a computed table with the open jobs' state and skipped cells."""
        places = {(r.method, r.budget, job.id): (r, job) for r in self.rows for job in r.jobs}
        missing = [_up_to_date(gap, places) for gap in table.missing if gap.state != "skipped"]
        return table.model_copy(update={"missing": (*missing, *self.skipped)})


@dataclass(frozen=True, slots=True)
class ComparisonInputs:
    """The tables of one comparison; `study` is None for chosen jobs."""

    study: StudyName | None
    tables: tuple[TableInputs, ...]
    strictness: Strictness

    def digests(self) -> tuple[str, ...]:
        """Return the digests of the computed tables, in order."""
        return tuple(table.digest(self.strictness) for table in self.tables)

    def comparison(self, computed: Iterable[TableComparison]) -> JobComparisonView:
        """Return the comparison of these tables, computed in the same order."""
        tables = tuple(
            inputs.brought_up_to_date(table)
            for inputs, table in zip(self.tables, computed, strict=True)
        )
        comparison = JobComparisonView(
            warnings=table_warnings(tables),
            level=self.strictness.level,
            margin=self.strictness.margin,
            tables=tables,
        )
        if self.study is None:
            return comparison
        return StudyComparisonView(study=self.study, **dict(comparison))


@cache
def statistics_version() -> str:
    """Return the version of core, with a digest of the sources for tables."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.glob("comparison*.py")), Path(scored_jobs.__file__)):
        digest.update(path.read_bytes())
    return f"{code_version()}+{digest.hexdigest()[:12]}"


def _state(job: InputJob) -> str:
    return job.state if job.state in TERMINAL_STATES else OPEN


def _up_to_date(missing: MissingScores, places: Places) -> MissingScores:
    if missing.job is None:
        return missing
    row, job = places[missing.method, missing.budget, missing.job]
    if job.state in TERMINAL_STATES:
        return missing
    text = live_text(row.method, row.budget, job, is_alone=len(row.jobs) == 1)
    now = {"state": job.state, "reason": job.reason, "text": text}
    return missing.model_copy(update=now)
