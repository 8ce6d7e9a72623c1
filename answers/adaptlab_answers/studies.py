"""Studies and their previews."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.runs.theory_report import Check, Finding
from adaptlab.specs.budget import BudgetVector
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study_plan import PlacedMethod, SkippedCell
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.jobs import Estimate
from adaptlab_answers.links import Link
from adaptlab_answers.moments import Moment
from adaptlab_answers.questions import QuestionCost, QuestionView

StudyState = Literal["running", "succeeded", "incomplete", "cancelled"]
CellState = Literal["running", "succeeded", "missing"]


class StudyLinks(Value):
    """Links of a study."""

    self: Link
    jobs: Link
    comparison: Link
    cancel: Link
    extend: Link
    clone: Link


class StudySummary(Value):
    """A study as listed, without its cells.

    It is `running` until all its jobs have ended, then `succeeded` if all of them did. `jobs`
    counts its jobs by state. `tasks` are the labels of its tasks, as in its tables. `archived_at`
    is set for a study that lists leave out.
    """

    id: UUID
    object: Literal["study"] = "study"
    name: str
    state: StudyState
    terminal: bool
    jobs: dict[str, int]
    owner: str
    project: str
    recipe: RecipeRef | None
    created_at: Moment
    extended_at: Moment | None
    cancelled_at: Moment | None
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    notes: str | None = None
    archived_at: Moment | None = None
    tasks: tuple[str, ...] = ()
    links: StudyLinks

    @property
    def succeeded(self) -> bool:
        """True if all jobs have succeeded."""
        return self.state == "succeeded"


class StudyJobView(Value):
    """A job of a study with its seeds; `reused` if it is older than the study."""

    id: UUID
    state: str
    terminal: bool
    reason: str | None
    error: str | None
    reused: bool
    seeds: tuple[int, ...]
    step: int
    total_steps: int


class StudyBase(Value):
    """A base model of a study and the job that creates it."""

    name: str
    job: StudyJobView


class StudyCell(PlacedMethod):
    """One method at one budget on one task and base model.

    It is `missing` if one of its jobs has ended without success. Seeds added later are a further
    job. If a method has the same configuration at several budgets, these cells share their jobs.
    """

    state: CellState
    jobs: tuple[StudyJobView, ...]


class StudyCheckView(Value):
    """A theory check of a study, with its job and its reports.

    `method` is the method whose adaptations it measures, or null if it measures none. `task` and
    `budget` are set if these adaptations belong to one cell. `verdict` is `holds` if every claim
    holds, and null until there are reports.
    """

    label: str
    base_model: str | None
    task: str | None
    method: str | None
    budget: int | None
    job: StudyJobView
    verdict: Finding | None
    reports: tuple[Check, ...]


class StudyView(StudySummary):
    """A study with its current spec, its cells and its theory checks.

    `budget_axis` is what the budgets limit. `skipped` lists the methods that do not fit a budget.
    `question` is set if the study plans its own runs; its cells then have the jobs that count as
    evidence.

    A study that another project shares has its name in `shared_from`. `shared_with` are the
    projects that can read this one, for members of its project.
    """

    shared_from: str | None = None
    shared_with: tuple[str, ...] = ()
    spec: JsonObject
    budget_axis: BudgetAxis = PARAMETERS
    base_models: tuple[StudyBase, ...]
    cells: tuple[StudyCell, ...]
    checks: tuple[StudyCheckView, ...]
    skipped: tuple[SkippedCell, ...]
    question: QuestionView | None = None


class DeletedStudy(Value):
    """A study that was deleted.

    `kept_jobs` counts the jobs of the study that still exist.
    """

    id: UUID
    object: Literal["deleted_study"] = "deleted_study"
    name: str
    deleted_jobs: int
    kept_jobs: int


class PlannedJobView(Value):
    """A job that a study would have.

    `reused` is the id of an existing job with the same spec, or null.
    """

    spec_digest: str
    resolved_spec: ResolvedSpec
    budget: BudgetVector
    replicates: int
    passes: int
    reused: UUID | None
    estimate: Estimate | None


class PlannedCell(PlacedMethod):
    """One method at one budget on one task and base model.

    `jobs` are the digests of its jobs. `gap` is the unused budget. It is negative for a reference
    that exceeds the budget. `demonstrations` are those before questions, or null.
    """

    gap: int
    demonstrations: int | None
    jobs: tuple[str, ...]


class PlannedCheckView(Value):
    """A theory check of a planned study, with the digest of its job.

    `method` is the method whose adaptations it measures, or null if it measures none. `task` and
    `budget` are set if these adaptations belong to one cell.
    """

    label: str
    base_model: str | None
    task: str | None
    method: str | None
    budget: int | None
    job: str


class PlannedBase(Value):
    """A base model of a planned study; `is_new` if it must be created first."""

    name: str
    is_new: bool


class StudyPreview(Value):
    """The study that a spec would create; nothing is stored.

    `passes` and `seconds` exclude reused jobs. One pass trains all seeds and trials of a job, or a
    new base model; a device with too little memory needs more passes. `seconds` is the time for
    all passes one after another. Of a study with a question, `passes` and `seconds` are those that
    it begins with, and `question` has the cost of all.
    """

    object: Literal["study.preview"] = "study.preview"
    name: str
    budget_axis: BudgetAxis = PARAMETERS
    base_models: tuple[PlannedBase, ...]
    jobs: tuple[PlannedJobView, ...]
    cells: tuple[PlannedCell, ...]
    checks: tuple[PlannedCheckView, ...]
    skipped: tuple[SkippedCell, ...]
    new_jobs: int
    reused_jobs: int
    passes: int
    seconds: float
    question: QuestionCost | None = None
    warnings: tuple[str, ...]
