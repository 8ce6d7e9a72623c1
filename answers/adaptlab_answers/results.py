"""Results of jobs: curves, replicates, attempts, scores and checkpoints."""

from uuid import UUID

from pydantic import Field

from adaptlab.comparisons.group_scores import GroupScore
from adaptlab.comparisons.task_retention import TaskRetention, TextDrift
from adaptlab.runs.events import Confusion, MetricPoint, ReplicateResult, Usage
from adaptlab.runs.theory_report import Check
from adaptlab.values import Value
from adaptlab_answers.links import Link
from adaptlab_answers.moments import Moment


class Curve(Value):
    """One metric of one replicate over the steps.

    Values that were not finite are null. A curve with fewer points than `total_points` was thinned:
    it has the first point, the last one, and every n-th between them.
    """

    name: str
    replicate: int
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    total_points: int

    def points(self) -> tuple[MetricPoint, ...]:
        """Return the points of the curve, for `adaptlab.charts.learning_curves`."""
        return tuple(
            MetricPoint(replicate=self.replicate, name=self.name, step=step, value=value)
            for step, value in zip(self.steps, self.values, strict=True)
        )


class CurvesView(Value):
    """The curves of one attempt."""

    data: tuple[Curve, ...]
    attempt: int


class Replicates(Value):
    """The results of the replicates of one attempt."""

    data: tuple[ReplicateResult, ...]
    attempt: int


class AttemptView(Value):
    """One run of a job by one worker, from claim to end."""

    attempt: int
    worker_id: UUID
    host: str | None
    started_at: Moment
    first_step_at: Moment | None
    ended_at: Moment | None
    outcome: str | None
    reason: str | None
    error: str | None
    environment: dict[str, object] | None
    usage: Usage | None


class Attempts(Value):
    """All attempts of a job, in order."""

    data: tuple[AttemptView, ...]


class EvaluationLinks(Value):
    """Links of an evaluation."""

    outcomes: Link


class EvaluationView(Value):
    """The exact-match score of one replicate on one task.

    `base_model` is another base model on which it was measured, null for the job's own. If it is
    not `attached`, it was measured on the base model alone. `confusion` is null unless the task
    chooses among 2 to 32 labels. `loss` is the mean cross-entropy of the tokens of the right
    answers in nats, each after the right ones before it; null if the task chooses, and in results
    of earlier versions. `measures` has the values of other metrics by name: of the task's `metric`
    and, where labels are counted, of `macro_f1`. `signatures` are the versions by which `measures`
    were computed; values with different ones are not compared. `effective_items` is the number of
    items that count if all of a group are alike, null unless the task names groups by `cluster`.
    """

    id: int
    replicate: int
    seed: int
    task: dict[str, object]
    split: str
    attached: bool
    correct: int
    total: int
    accuracy: float
    confusion: Confusion | None = None
    loss: float | None = None
    measures: dict[str, float] = Field(default_factory=dict)
    signatures: dict[str, str] = Field(default_factory=dict)
    effective_items: float | None = None
    base_model: str | None = None
    links: EvaluationLinks

    @property
    def task_name(self) -> str:
        """The name of the evaluated task."""
        return str(self.task.get("name", ""))


class NotCarriedView(Value):
    """A prompt that another base model cannot read, and the reason."""

    base_model: str
    replicate: int
    seed: int
    reason: str


class Evaluations(Value):
    """The scores of one attempt.

    `not_carried` are prompts that have no score on another base model. `retention` is that of the
    tasks other than the trained one, and says where it was not measured; `drift` is that on
    neutral texts. `groups` are the scores of groups of standard tasks. The three are empty if
    `attached` was asked for.
    """

    data: tuple[EvaluationView, ...]
    attempt: int
    not_carried: tuple[NotCarriedView, ...] = ()
    retention: tuple[TaskRetention, ...] = ()
    drift: tuple[TextDrift, ...] = ()
    groups: tuple[GroupScore, ...] = ()


class TheoryChecks(Value):
    """The theory checks of one attempt, in the order of measurement."""

    data: tuple[Check, ...]
    attempt: int


class Outcomes(Value):
    """The outcomes of an evaluation in item order, eight to a byte in `bits`."""

    evaluation_id: int
    total: int
    bits: bytes

    def booleans(self) -> tuple[bool, ...]:
        """Return the outcomes, beginning with the highest bit of the first byte.

        There are never more than `bits` contains: earlier versions did not check `total`.
        """
        items = range(min(self.total, 8 * len(self.bits)))
        return tuple(bool(self.bits[index >> 3] >> (7 - (index & 7)) & 1) for index in items)


class CheckpointLinks(Value):
    """Links of a checkpoint."""

    content: Link
    job: Link


class CheckpointView(Value):
    """A safetensors file with the shape of every tensor in it."""

    id: int
    job_id: UUID
    replicate: int
    seed: int
    kind: str
    parameters: int
    tensors: dict[str, tuple[int, ...]]
    sha256: str
    size: int
    created_at: Moment
    links: CheckpointLinks


class CheckpointList(Value):
    """The checkpoints of one attempt."""

    data: tuple[CheckpointView, ...]
    attempt: int


class OutcomeList(Value):
    """The outcomes of an evaluation in item order; True is a correct answer."""

    evaluation_id: int
    total: int
    outcomes: tuple[bool, ...]
