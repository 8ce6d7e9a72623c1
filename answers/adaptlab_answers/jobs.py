"""Jobs, their estimates and their events."""

from typing import ClassVar, Literal
from uuid import UUID

from adaptlab.runs.phases import Phase
from adaptlab.specs.budget import BudgetVector
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.hub import FetchProgress
from adaptlab_answers.links import Link
from adaptlab_answers.moments import Moment

Basis = Literal["kind", "family", "products", "any", "default"]


class Estimate(Value):
    """The expected time and memory of a run.

    `seconds` is the time from a worker's claim to the end of the attempt. `memory_bytes` is the
    trainer's peak memory on a CPU, or that of its tensors on a GPU. `basis` is the group of
    earlier runs behind the estimate: `kind` (same family and its configuration, method, task,
    precision and queue), `family`, `products` (none, but an import of the family measured the speed
    of a matrix product), `any` run on the queue, or `default` rates without a run.
    `runs` counts them, and `explanation` is the same as a sentence.

    `stored_bytes` is the size of the checkpoints of all seeds, and `saved_bytes` that of a saved
    state of the training, which is stored until the job ends. Both are counted, not measured.
    """

    seconds: float
    memory_bytes: int
    stored_bytes: int
    saved_bytes: int
    basis: Basis
    runs: int
    explanation: str


class StepsAndParts(Value):
    """Steps of the training and parts of a later phase; see `RunProgress`."""

    step: int
    total: int
    phase: Phase | None = None
    phase_done: int | None = None
    phase_total: int | None = None

    @property
    def parts(self) -> tuple[int, int]:
        """Return the steps or parts done in the present phase, and all of them."""
        if self.phase_done is None or not self.phase_total:
            return self.step, self.total
        return self.phase_done, self.phase_total


class RunProgress(StepsAndParts):
    """Training steps done and in total, and what a running job does now.

    `phase` is null for jobs that do not run. Of a phase after training, `phase_done` parts of
    `phase_total` are done, where the worker tells them: answers in `evaluating`, `answering` (the
    shown items) and `transferring` (to other base models), passes and maps in
    `recording_attention`. `eta_seconds` is the time left of the phase, once a part is done.
    """

    eta_seconds: float | None


class QueuePlace(Value):
    """The queue of a job, and its position in it.

    `position` counts from 1. It is null in lists, for jobs that are not queued, and if more than
    500 jobs are ahead. `unread_roots` are the model roots that the job needs and no live worker of
    the queue can read; it is empty in lists.
    """

    name: str
    priority: int
    position: int | None
    unread_roots: tuple[str, ...] = ()


class WorkerReference(Value):
    """The worker that holds a job."""

    id: UUID
    host: str | None


class JobLinks(Value):
    """Links of a job."""

    self: Link
    events: Link
    metrics: Link
    replicates: Link
    attempts: Link
    evaluations: Link
    answers: Link
    attention: Link
    checkpoints: Link
    theory: Link
    cancel: Link
    pause: Link
    resume: Link
    retry: Link
    base_job: Link | None
    studies: Link


class JobSummary(Value):
    """A job's description and progress, without its specs.

    `state` is waiting, queued, running, paused, succeeded, failed or cancelled. States may be
    added, so programs should test `terminal`. `retry_of` is the job that this one retries, and
    `checks` are the theory checks of a job of kind `theory`.
    `trainable_parameters` is the number of values that training changes in one replicate.
    `dataset` is the name of the dataset with the records of its task, null for tasks without one.
    `accuracy` is the mean over seeds on the test items of its own task, of a job that has
    succeeded. `archived_at` is set for a job that lists leave out.
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
    progress: RunProgress
    queue: QueuePlace
    worker: WorkerReference | None
    owner: str
    project: str
    labels: dict[str, str]
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    heartbeat_at: Moment | None
    accuracy: float | None = None
    notes: str | None = None
    archived_at: Moment | None = None
    dataset: str | None = None

    @property
    def succeeded(self) -> bool:
        """True if the job has succeeded."""
        return self.state == "succeeded"

    @property
    def task_label(self) -> str | None:
        """The task with its dataset, if it has one: `text_completion of capitals`."""
        return self.task if self.dataset is None else f"{self.task} of {self.dataset}"


class JobView(JobSummary):
    """A job with its requested and its resolved spec.

    `spec` is the request without defaults, and can be posted again. In `resolved_spec`, every
    `auto` is replaced by a value.
    `budget` is an alias of `resolved_spec.budget`, and `trainable_parameters` in both is an alias
    of the job's own member of that name. `fetch` is the fetch that a waiting job waits for, or that
    its base model waits for; it is null in lists.
    """

    # A stored spec is returned as accepted and never validated again, because limits change.
    spec: JsonObject
    resolved_spec: ResolvedSpec
    budget: BudgetVector
    links: JobLinks
    fetch: FetchProgress | None = None


class Preview(Value):
    """The job that a spec would create; nothing is stored.

    `base_estimate` is the estimate for pretraining an inline base model that does not exist yet.
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
    """One entry in a job's history; `type` is often the state that it entered."""

    sequence: int
    at: Moment
    type: str
    attempt: int | None
    data: dict[str, object]


class EventPage(Value):
    """Events after a number; the next page begins after `next_after`.

    `terminal` means that no further events will follow.
    """

    data: tuple[EventView, ...]
    next_after: int
    terminal: bool


class ProgressNews(StepsAndParts):
    """Progress, sent between events and without an id."""

    type: ClassVar[Literal["progress"]] = "progress"
    """Like the `type` of an event, so that a loop over both can test it."""
