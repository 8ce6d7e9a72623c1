"""Jobs, what they will take, and what happened to them."""

from typing import ClassVar, Literal
from uuid import UUID

from adaptlab.specs.budget import BudgetVector
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.moments import Moment

Basis = Literal["kind", "family", "any", "default"]


class Estimate(Value):
    """What a run will take; `seconds` count from a worker's claim to the end of the attempt.

    `memory_bytes` is the largest memory of the trainer on a CPU and of its tensors on a GPU.
    `basis` says which earlier runs decided it, most similar first: of this kind (family and its
    configuration, method, task, precision, queue), of the family, any on the queue, or none but
    rates that are guessed; `runs` how many. `explanation` says the same in a sentence.
    """

    seconds: float
    memory_bytes: int
    basis: Basis
    runs: int
    explanation: str


class Progress(Value):
    """How far a job is; the estimate is there once the first step of this attempt is done."""

    step: int
    total: int
    eta_seconds: float | None


class QueuePlace(Value):
    """Where a job waits.

    `position` counts from 1. It is told for one queued job at a time, and is null with more than
    500 jobs ahead.
    """

    name: str
    priority: int
    position: int | None


class WorkerReference(Value):
    """The worker that holds a job."""

    id: UUID
    host: str | None


class JobLinks(Value):
    """Where to go from a job."""

    self: str
    events: str
    metrics: str
    replicates: str
    attempts: str
    evaluations: str
    attention: str
    checkpoints: str
    theory: str
    cancel: str
    pause: str
    resume: str
    retry: str
    base_job: str | None
    studies: str


class JobSummary(Value):
    """The summary of a job: what it is and how far it is, without its specs.

    `state` is one of waiting, queued, running, paused, succeeded, failed and cancelled; more may
    be added, so programs ask `terminal`. `retry_of` is the job that this one does anew, `checks`
    are the theory checks that a job of kind `theory` makes.
    """

    id: UUID
    object: Literal["job"] = "job"
    name: str | None
    kind: str
    state: str
    terminal: bool
    reason: str | None
    error: str | None
    cancel_requested: bool
    pause_requested: bool
    retry_of: UUID | None
    attempt: int
    attempts_max: int
    base_model: str | None
    family: str
    task: str | None
    method: str | None
    checks: tuple[str, ...]
    budget_requested: int | None
    trainable_parameters: int
    spec_digest: str
    progress: Progress
    queue: QueuePlace
    worker: WorkerReference | None
    owner: str
    project: str
    labels: dict[str, str]
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    heartbeat_at: Moment | None

    @property
    def succeeded(self) -> bool:
        """Return True if the job has ended as it should."""
        return self.state == "succeeded"


class JobView(JobSummary):
    """One job: what was asked for, what it became, and how far it is.

    `spec` is what was asked for, without the defaults, and can be posted again; `resolved_spec` is
    what every `auto` became.
    """

    # A stored spec is shown as it was accepted, and never validated again: limits change.
    spec: JsonObject
    resolved_spec: ResolvedSpec
    budget: BudgetVector
    links: JobLinks


class Preview(Value):
    """What a creation would make of a spec; nothing is stored.

    `base_estimate` is of the job of an inline base model that would have to be made first.
    """

    object: Literal["job.preview"] = "job.preview"
    kind: str
    resolved_spec: ResolvedSpec
    budget: BudgetVector
    spec_digest: str
    estimate: Estimate
    base_estimate: Estimate | None
    warnings: tuple[str, ...]


class EventView(Value):
    """One thing that happened; `type` is the state that was entered, or another word."""

    sequence: int
    at: Moment
    type: str
    attempt: int | None
    data: dict[str, object]


class EventPage(Value):
    """Events after a number; ask again after `next_after`. `terminal`: no more will come."""

    data: tuple[EventView, ...]
    next_after: int
    terminal: bool


class ProgressNews(Value):
    """The steps done, told between events and without an id."""

    type: ClassVar[Literal["progress"]] = "progress"
    """Beside the types of events, so that a loop over both can ask for it."""

    step: int
    total: int
