"""What the server answers: frozen values that take members and states they do not know yet."""

from datetime import datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from adaptlab.results import MetricPoint

T = TypeVar("T")
Document = dict[str, JsonValue]


class Answer(BaseModel):
    """The base of all answers; members added by a newer server are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Page(Answer, Generic[T]):
    """One page of a list."""

    data: tuple[T, ...]
    next_page_token: str | None = None


class Results(Answer, Generic[T]):
    """What one attempt of a job brought forth."""

    data: tuple[T, ...]
    attempt: int | None = None


class Progress(Answer):
    """Training steps done of those to do."""

    step: int = 0
    total: int = 0
    eta_seconds: float | None = None


class QueuePlace(Answer):
    """Where a job waits; `position` 1 is next."""

    name: str
    priority: int = 0
    position: int | None = None


class WorkerPlace(Answer):
    """Who runs a job."""

    id: str
    host: str | None = None


class Budget(Answer):
    """What an adaptation costs on every axis, next to the trainable parameters asked for."""

    requested: int | None = None
    trainable_parameters: int
    gap: int | None = None
    stored_bytes: int | None = None
    extra_context_tokens: int | None = None
    flops_per_token: int | None = None
    tensors: dict[str, int] = Field(default_factory=dict[str, int])


class JobSummary(Answer):
    """A job without its specs; ask `terminal`, not a list of states, whether it has ended."""

    id: str
    name: str | None = None
    kind: str
    state: str
    terminal: bool
    reason: str | None = None
    error: JsonValue = None
    attempt: int = 0
    attempts_max: int | None = None
    cancel_requested: bool = False
    pause_requested: bool = False
    retry_of: str | None = None
    base_model: str | None = None
    family: str | None = None
    task: str | None = None
    method: str | None = None
    checks: tuple[str, ...] = ()
    budget_requested: int | None = None
    trainable_parameters: int | None = None
    spec_digest: str | None = None
    progress: Progress = Progress()
    queue: QueuePlace | None = None
    worker: WorkerPlace | None = None
    owner: str | None = None
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    heartbeat_at: datetime | None = None

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.terminal and self.state == "succeeded"


class Job(JobSummary):
    """A job with what was asked for, and what that became."""

    spec: Document = Field(default_factory=dict[str, JsonValue])
    resolved_spec: Document = Field(default_factory=dict[str, JsonValue])
    budget: Budget | None = None


class Estimate(Answer):
    """What a run will take; `basis` says how similar the `runs` are from which it is known."""

    seconds: float
    memory_bytes: int
    basis: str
    runs: int = 0
    explanation: str = ""


class Preview(Answer):
    """What a job would be, without making it.

    `base_estimate` is of an inline base model that would have to be made first.
    """

    kind: str
    resolved_spec: Document
    budget: Budget
    spec_digest: str
    estimate: Estimate | None = None
    base_estimate: Estimate | None = None
    warnings: tuple[str, ...] = ()


class JobEvent(Answer):
    """Something that happened to a job; progress between two events has no sequence."""

    sequence: int | None = None
    at: datetime | None = None
    type: str
    data: JsonValue = None


class EventPage(Answer):
    """Events, and the number after which the next ones are."""

    data: tuple[JobEvent, ...]
    next_after: int = 0
    terminal: bool = False


class Curve(Answer):
    """One metric of one replicate; a value that was not finite is None."""

    name: str
    replicate: int
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    total_points: int | None = None

    def points(self) -> tuple[MetricPoint, ...]:
        """The curve as points, for `adaptlab.charts.learning_curves`."""
        return tuple(
            MetricPoint(replicate=self.replicate, name=self.name, step=step, value=value)
            for step, value in zip(self.steps, self.values, strict=True)
        )


class Replicate(Answer):
    """One seed and trial: how it ended after how many `steps`, and whether its seed uses it."""

    replicate: int
    seed: int
    trial: int = 0
    learning_rate: float | None = None
    weight_decay: float | None = None
    initial_scale: float | None = None
    status: str
    selected: bool = False
    final_loss: float | None = None
    validation_accuracy: float | None = None
    steps: int | None = None


class Usage(Answer):
    """What a run took; the memory is the process's on a CPU and the tensors' on a GPU."""

    training_seconds: float
    training_steps: int
    passes: int = 1
    evaluation_seconds: float
    peak_memory_bytes: int
    base_memory_bytes: int


class Attempt(Answer):
    """One try at a job; earlier ones stay for the record."""

    attempt: int
    host: str | None = None
    started_at: datetime | None = None
    first_step_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    reason: str | None = None
    environment: Document | None = None
    usage: Usage | None = None


class TheoryCheck(Answer):
    """What one theory check says; `measured` may be `bound` ("at most", "at least") `tolerance`."""

    name: str
    claim: str
    measured: float
    tolerance: float
    bound: str
    verdict: str
    details: Document = Field(default_factory=dict[str, JsonValue])

    @property
    def holds(self) -> bool:
        """Whether the claim was borne out."""
        return self.verdict == "holds"


class Evaluation(Answer):
    """Exact-match scores of one replicate on one task; the base's own where not `attached`."""

    id: int | str | None = None
    replicate: int
    seed: int
    task: Document
    split: str
    attached: bool = True
    correct: int
    total: int
    accuracy: float

    @property
    def task_name(self) -> str:
        """The name of the task that was scored."""
        return str(self.task.get("name", ""))


class Outcomes(Answer):
    """Which items of an evaluation were right, in item order."""

    evaluation_id: int
    total: int
    outcomes: tuple[bool, ...]


class Checkpoint(Answer):
    """Trained tensors, without their bytes."""

    id: int | str
    job_id: str | None = None
    replicate: int
    seed: int
    kind: str
    parameters: int
    tensors: dict[str, tuple[int, ...]] = Field(default_factory=dict[str, tuple[int, ...]])
    sha256: str
    size: int
    created_at: datetime | None = None


class BaseModelEntry(Answer):
    """A base model; `ready` once it can be adapted."""

    name: str
    state: str
    ready: bool = False
    digest: str | None = None
    family: Document = Field(default_factory=dict[str, JsonValue])
    task: Document | None = None
    parameters: int | None = None
    replicates: int | None = None
    job_id: str | None = None
    created_at: datetime | None = None


class DatasetEntry(Answer):
    """Words that tasks may ask; `digest` is the SHA-256 of their canonical content."""

    name: str
    source: str = "imported"
    digest: str = ""
    size: int = 0
    triples: int = 0
    longest: int = 0
    characters: str = ""
    sources: tuple[Document, ...] = ()
    created_at: datetime | None = None


class UploadedChunk(Answer):
    """A chunk of an upload that is there."""

    number: int
    size_bytes: int = 0
    sha256: str = ""


class UploadEntry(Answer):
    """Bytes that are being sent, or were; `received` has the chunks that are there."""

    id: str
    state: str
    size_bytes: int
    sha256: str
    chunk_bytes: int
    chunks: int
    received: tuple[UploadedChunk, ...] = ()
    expires_at: datetime | None = None


class PlugIn(Answer):
    """A task or family that the server knows; `knobs` is the JSON schema of its configuration."""

    name: str
    title: str = ""
    summary: str = ""
    reference: str = ""
    knobs: Document = Field(default_factory=dict[str, JsonValue])


class MethodEntry(PlugIn):
    """An adaptation method that the server knows."""

    formula: str = ""
    first_layer_attention: str | None = None
    size_knob: str | None = None
    is_reference: bool = False
    default_learning_rate: float | None = None
    learning_rate_range: tuple[float, ...] = ()


class SolvedFault(Answer):
    """Why a method cannot meet the budget."""

    pointer: str = ""
    code: str = ""
    detail: str = ""


class Solved(Answer):
    """What one method becomes at the budget, or which budgets would be the nearest."""

    name: str
    feasible: bool
    fixed_size: bool = False
    method: Document | None = None
    budget: Budget | None = None
    problems: tuple[SolvedFault, ...] = ()
    nearest: tuple[int, ...] = ()


class BudgetAnswer(Answer):
    """Every method's configuration at one budget."""

    base_model: str | None = None
    base_parameters: int | None = None
    requested: int | None = None
    data: tuple[Solved, ...]
