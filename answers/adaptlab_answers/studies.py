"""Studies, made and planned."""

from typing import Literal
from uuid import UUID

from adaptlab.measurements.theory_report import Check, Finding
from adaptlab.reproductions.recipe import RecipeRef
from adaptlab.specs.budget import BudgetVector
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study_plan import PlacedMethod, SkippedCell
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.jobs import Estimate
from adaptlab_answers.moments import Moment

StudyState = Literal["running", "succeeded", "incomplete", "cancelled"]


CellState = Literal["running", "succeeded", "missing"]


class StudyLinks(Value):
    """Where to go from a study."""

    self: str
    jobs: str
    comparison: str
    cancel: str
    extend: str
    clone: str


class StudySummary(Value):
    """A study in a list: `running` until all its jobs have ended, then whether all succeeded.

    `jobs` counts its jobs by state.
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
    links: StudyLinks

    @property
    def succeeded(self) -> bool:
        """Return True if every job has ended as it should."""
        return self.state == "succeeded"


class StudyJobView(Value):
    """A job of a study; `reused` if it was there before, with the seeds that it trains."""

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
    """A base model of a study and the job that makes it."""

    name: str
    job: StudyJobView


class StudyCell(PlacedMethod):
    """One method at one budget on one task and base model.

    It is `missing` when a job of it has ended without success. Seeds that came later are a further
    job; a method that comes out the same at several budgets has the same jobs in each.
    """

    state: CellState
    jobs: tuple[StudyJobView, ...]


class StudyCheckView(Value):
    """A job of a theory check of a study: what it measures, and what it found.

    `method` is whose adaptations it measures, None if it measures none; `task` and `budget` are
    theirs if they are of one cell. `verdict` is `holds` if every claim does, and None until then.
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
    """A study: its spec as it is now, its cells, its checks, and the methods that fit nowhere."""

    spec: JsonObject
    base_models: tuple[StudyBase, ...]
    cells: tuple[StudyCell, ...]
    checks: tuple[StudyCheckView, ...]
    skipped: tuple[SkippedCell, ...]


class PlannedJobView(Value):
    """A job that a study would have; `reused` is the job that has run it, or does already."""

    spec_digest: str
    resolved_spec: ResolvedSpec
    budget: BudgetVector
    replicates: int
    passes: int
    reused: UUID | None
    estimate: Estimate | None


class PlannedCell(PlacedMethod):
    """One method at one budget on one task and base model, and the digests of its jobs.

    `gap` is what the method leaves of the budget, below zero for a reference that is over it.
    """

    gap: int
    jobs: tuple[str, ...]


class PlannedCheckView(Value):
    """A job of a theory check of a planned study, and the digest of that job.

    `method` is whose adaptations it measures, None if it measures none; `task` and `budget` are
    theirs if they are of one cell.
    """

    label: str
    base_model: str | None
    task: str | None
    method: str | None
    budget: int | None
    job: str


class PlannedBase(Value):
    """A base model of a planned study; `is_new` if it has to be made first."""

    name: str
    is_new: bool


class StudyPreview(Value):
    """What a study would be; nothing is stored. `passes` and `seconds` are of what is not reused.

    A pass of the engine trains all seeds and trials of a job, and a new base model is one as well;
    a device with too little memory for that takes more. `seconds` adds up what all of them take
    one after the other.
    """

    object: Literal["study.preview"] = "study.preview"
    name: str
    base_models: tuple[PlannedBase, ...]
    jobs: tuple[PlannedJobView, ...]
    cells: tuple[PlannedCell, ...]
    checks: tuple[PlannedCheckView, ...]
    skipped: tuple[SkippedCell, ...]
    new_jobs: int
    reused_jobs: int
    passes: int
    seconds: float
    warnings: tuple[str, ...]
