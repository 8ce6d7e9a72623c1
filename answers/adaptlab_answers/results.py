"""What jobs have measured: curves, replicates, attempts, scores and checkpoints."""

from uuid import UUID

from adaptlab.measurements.results import MetricPoint, ReplicateResult, Usage
from adaptlab.measurements.theory_report import Check
from adaptlab.values import Value
from adaptlab_answers.moments import Moment


class Curve(Value):
    """One metric of one replicate; a value is null where it was not finite.

    With fewer points than `total_points`, every n-th was kept, and the first and the last.
    """

    name: str
    replicate: int
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    total_points: int

    def points(self) -> tuple[MetricPoint, ...]:
        """The curve as points, for `adaptlab.charts.learning_curves`."""
        return tuple(
            MetricPoint(replicate=self.replicate, name=self.name, step=step, value=value)
            for step, value in zip(self.steps, self.values, strict=True)
        )


class Curves(Value):
    """The curves of one attempt."""

    data: tuple[Curve, ...]
    attempt: int


class Replicates(Value):
    """How every seed and trial of one attempt ended."""

    data: tuple[ReplicateResult, ...]
    attempt: int


class AttemptView(Value):
    """One lease on the job, from claim to end."""

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
    """All attempts of a job, first to last."""

    data: tuple[AttemptView, ...]


class EvaluationLinks(Value):
    """Where to go from an evaluation."""

    outcomes: str


class EvaluationView(Value):
    """The exact-match score of one replicate on one task; the base's own where not `attached`."""

    id: int
    replicate: int
    seed: int
    task: dict[str, object]
    split: str
    attached: bool
    correct: int
    total: int
    accuracy: float
    links: EvaluationLinks

    @property
    def task_name(self) -> str:
        """The name of the task that was scored."""
        return str(self.task.get("name", ""))


class Evaluations(Value):
    """The scores of one attempt."""

    data: tuple[EvaluationView, ...]
    attempt: int


class TheoryChecks(Value):
    """What the theory checks of one attempt say, in the order in which they were measured."""

    data: tuple[Check, ...]
    attempt: int


class Outcomes(Value):
    """Which items of an evaluation were right, in item order; `bits` packs eight to a byte."""

    evaluation_id: int
    total: int
    bits: bytes

    def booleans(self) -> tuple[bool, ...]:
        """The outcomes one by one; the first item is the highest bit of the first byte.

        Never more than there are bits, whatever the total that an earlier version believed.
        """
        items = range(min(self.total, 8 * len(self.bits)))
        return tuple(bool(self.bits[index >> 3] >> (7 - (index & 7)) & 1) for index in items)


class CheckpointLinks(Value):
    """Where to go from a checkpoint."""

    content: str
    job: str


class CheckpointView(Value):
    """One safetensors file: what it holds, and the shape of every tensor in it."""

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


class Checkpoints(Value):
    """The checkpoints of one attempt."""

    data: tuple[CheckpointView, ...]
    attempt: int


class OutcomeList(Value):
    """Which items of an evaluation were right, in item order."""

    evaluation_id: int
    total: int
    outcomes: tuple[bool, ...]
