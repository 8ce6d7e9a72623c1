"""What a table of a comparison is computed from, and the digest that names what was computed."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import UUID

from adaptlab.code_version import code_version
from adaptlab.comparisons.table_comparison import MissingScores, TableComparison, table_warnings
from adaptlab.studies.study_plan import Role
from adaptlab_answers.comparisons import JobComparison, StudyComparison, StudyName
from adaptlab_answers.studies import StudyJobView
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.comparisons.comparison_rows import Row, live_text
from adaptlab_services.results import scored_jobs
from adaptlab_services.results.scored_jobs import ScoredJob

DEFAULT_LEVEL = 0.95
DEFAULT_MARGIN = 0.01
ENDED = ("succeeded", "failed", "cancelled")
OPEN = "open"
"""The state of every job that has not ended: nothing of it is measured yet."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """The confidence level of intervals, and the difference below which methods count as alike."""

    level: float = DEFAULT_LEVEL
    margin: float = DEFAULT_MARGIN


AS_USUAL = Strictness()


@dataclass(frozen=True, slots=True)
class InputJob:
    """A job of a row. Once it has ended, its id and its state name everything it measured."""

    id: UUID
    state: str
    reason: str | None
    error: str | None
    step: int
    total_steps: int
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, job: StudyJobView | ScoredJob) -> "InputJob":
        """The job as a study or as the results know it."""
        known = (job.id, job.state, job.reason, job.error, job.step, job.total_steps)
        return cls(*known, seeds=job.seeds)


@dataclass(frozen=True, slots=True)
class InputRow:
    """One method at one budget; `budget` is None for one that stands beside every budget."""

    method: str
    budget: int | None
    role: Role
    jobs: tuple[InputJob, ...]

    @classmethod
    def of(cls, row: Row) -> "InputRow":
        """The row of a table whose results were read."""
        return cls(row.method, row.budget, row.role, tuple(map(InputJob.of, row.jobs)))


Places = Mapping[tuple[str, int | None, UUID], tuple[InputRow, InputJob]]
"""The jobs of a table with their rows, by method, budget and job."""


@dataclass(frozen=True, slots=True)
class TableInputs:
    """The rows of one table, and what could not be made into a row."""

    base_model: str
    task: str
    rows: tuple[InputRow, ...]
    skipped: tuple[MissingScores, ...] = ()

    @classmethod
    def of(cls, table: ComparedTable) -> "TableInputs":
        """The inputs of a table whose results were read."""
        rows = tuple(map(InputRow.of, table.rows))
        return cls(table.base_model, table.task, rows, table.skipped)

    def digest(self, tables: int, strictness: Strictness) -> str:
        """The name of what is computed from these; other code has other names.

        Jobs that have ended cannot change, and of those that have not nothing is measured, so that
        a table is computed again when one of its jobs ends.
        """
        rows = [
            [row.method, row.budget, row.role, [[str(one.id), _state(one)] for one in row.jobs]]
            for row in self.rows
        ]
        known = [statistics_version(), strictness.level, strictness.margin, tables]
        document = json.dumps([*known, self.base_model, self.task, rows])
        return hashlib.sha256(document.encode()).hexdigest()

    def brought_up_to_date(self, table: TableComparison) -> TableComparison:
        """A computed table with what open jobs do now, and with what was left out."""
        places = {(r.method, r.budget, job.id): (r, job) for r in self.rows for job in r.jobs}
        missing = [_up_to_date(one, places) for one in table.missing if one.state != "skipped"]
        return table.model_copy(update={"missing": (*missing, *self.skipped)})


@dataclass(frozen=True, slots=True)
class ComparisonInputs:
    """The tables of one comparison; `study` is None for jobs that were chosen."""

    study: StudyName | None
    tables: tuple[TableInputs, ...]
    strictness: Strictness

    def digests(self) -> tuple[str, ...]:
        """The names of the computed tables, in order."""
        return tuple(one.digest(len(self.tables), self.strictness) for one in self.tables)

    def comparison(self, computed: Iterable[TableComparison]) -> JobComparison:
        """The comparison of these tables, computed in the same order."""
        tables = tuple(
            inputs.brought_up_to_date(table)
            for inputs, table in zip(self.tables, computed, strict=True)
        )
        found = JobComparison(
            warnings=table_warnings(tables),
            level=self.strictness.level,
            margin=self.strictness.margin,
            tables=tables,
        )
        if self.study is None:
            return found
        return StudyComparison(study=self.study, **dict(found))


@cache
def statistics_version() -> str:
    """The version of the core, and a digest of the sources that make tables of results."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.glob("comparison*.py")), Path(scored_jobs.__file__)):
        digest.update(path.read_bytes())
    return f"{code_version()}+{digest.hexdigest()[:12]}"


def _state(job: InputJob) -> str:
    return job.state if job.state in ENDED else OPEN


def _up_to_date(missing: MissingScores, places: Places) -> MissingScores:
    if missing.job is None:
        return missing
    row, job = places[missing.method, missing.budget, missing.job]
    if job.state in ENDED:
        return missing
    text = live_text(row.method, row.budget, job, is_alone=len(row.jobs) == 1)
    now = {"state": job.state, "reason": job.reason, "text": text}
    return missing.model_copy(update=now)
