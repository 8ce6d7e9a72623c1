"""Studies as the server answers them, made and planned."""

from datetime import datetime

from pydantic import Field, JsonValue

from adaptlab_client.answers import Answer, Budget, Document, Estimate, SolvedFault, TheoryCheck


class StudyJob(Answer):
    """A job of a study; `reused` if it was there before, with the seeds that it trains."""

    id: str
    state: str
    terminal: bool
    reason: str | None = None
    error: str | None = None
    reused: bool = False
    seeds: tuple[int, ...] = ()
    step: int = 0
    total_steps: int = 0


class StudyBase(Answer):
    """A base model of a study and the job that makes it."""

    name: str
    job: StudyJob


class PlacedMethod(Answer):
    """One method at one budget on one task and base model; see `adaptlab.study_plan`."""

    base_model: str
    task: str
    method: str
    budget: int
    role: str
    over_budget: bool = False
    trainable_parameters: int


class StudyCell(PlacedMethod):
    """A place of a study and how far its jobs are; `missing` where one of them failed."""

    state: str
    jobs: tuple[StudyJob, ...] = ()


class RecipeRef(Answer):
    """The recipe and the preset that a study was made from."""

    name: str
    preset: str


class StudyCheck(Answer):
    """A job of a theory check, of what `method` has trained if there is one.

    `verdict` is `holds` if every claim does, and None until the job has succeeded.
    """

    label: str
    base_model: str | None = None
    task: str | None = None
    method: str | None = None
    budget: int | None = None
    job: StudyJob
    verdict: str | None = None
    reports: tuple[TheoryCheck, ...] = ()


class SkippedCell(Answer):
    """A method that cannot meet a budget, or that a base model cannot have at any."""

    base_model: str
    method: str
    budget: int | None = None
    problems: tuple[SolvedFault, ...] = ()
    nearest: tuple[int, ...] = ()


class Study(Answer):
    """A study; `jobs` counts its jobs by state, and lists leave spec, cells and checks out."""

    id: str
    name: str
    state: str
    terminal: bool
    jobs: dict[str, int] = Field(default_factory=dict[str, int])
    spec: Document = Field(default_factory=dict[str, JsonValue])
    base_models: tuple[StudyBase, ...] = ()
    cells: tuple[StudyCell, ...] = ()
    checks: tuple[StudyCheck, ...] = ()
    skipped: tuple[SkippedCell, ...] = ()
    owner: str | None = None
    recipe: RecipeRef | None = None
    created_at: datetime | None = None
    extended_at: datetime | None = None
    cancelled_at: datetime | None = None

    @property
    def succeeded(self) -> bool:
        """Whether every job ended well."""
        return self.state == "succeeded"


class PlannedJob(Answer):
    """A job that a study would have, or has already if it is `reused`."""

    spec_digest: str
    resolved_spec: Document
    budget: Budget
    replicates: int
    passes: int
    reused: str | None = None
    estimate: Estimate | None = None


class PlannedCell(PlacedMethod):
    """A place of a planned study, with the digests of its jobs."""

    gap: int
    jobs: tuple[str, ...] = ()


class PlannedCheck(Answer):
    """A job of a theory check of a planned study, by its digest."""

    label: str
    base_model: str | None = None
    task: str | None = None
    method: str | None = None
    budget: int | None = None
    job: str


class PlannedBase(Answer):
    """A base model of a planned study; `is_new` if it has to be made first."""

    name: str
    is_new: bool


class StudyPreview(Answer):
    """What a study would be; `passes` and `seconds` are of what has not been run yet."""

    name: str
    base_models: tuple[PlannedBase, ...] = ()
    jobs: tuple[PlannedJob, ...] = ()
    cells: tuple[PlannedCell, ...] = ()
    checks: tuple[PlannedCheck, ...] = ()
    skipped: tuple[SkippedCell, ...] = ()
    new_jobs: int
    reused_jobs: int
    passes: int
    seconds: float
    warnings: tuple[str, ...] = ()
