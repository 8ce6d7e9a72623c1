"""What a run reports: frozen values that cross from the trainer to the database and the client."""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.measurements.theory_report import Check
from adaptlab.plugins.splits import Split
from adaptlab.values import Value

ReplicateStatus = Literal["completed", "stopped", "diverged", "eliminated"]
"""Stopped is early stopping: the replicate is as good as one that went on to the last step.
Eliminated is successive halving: its trial was among the worst and cannot be chosen."""
AttentionSource = Literal["base", "adapted"]

METRICS = ("train_loss", "validation_loss", "validation_accuracy", "rung_accuracy")
"""The curves that a training has."""
LARGEST_LOSS = 1e30
"""A larger loss counts as diverged: its square, and sums of such, are still finite numbers."""


def is_loss(value: float) -> bool:
    """Return True if a loss is finite and at most `LARGEST_LOSS`, so that training can go on."""
    return math.isfinite(value) and abs(value) <= LARGEST_LOSS


class Allocation(Value):
    """The batch job of a lab's scheduler in which a worker ran; what it did not tell is None.

    `restart_count` is how often the scheduler has requeued the batch job, which keeps its id.
    """

    scheduler: Literal["slurm"]
    job_id: str
    array_job_id: str | None = None
    array_task_id: str | None = None
    restart_count: int = 0
    cluster: str | None = None
    partition: str | None = None
    nodes: str | None = None


class Environment(Value):
    """Where and how a run was computed; stored with every attempt.

    `allocation` is None for a worker outside of batch jobs.
    """

    device: str
    precision: str
    compiled: bool
    threads: int
    torch_version: str
    code_version: str
    python_version: str
    platform: str
    allocation: Allocation | None = None


class MetricPoint(Value):
    """One value of one curve; a loss that is not finite is reported as None."""

    replicate: int
    name: str
    step: int
    value: float | None


class ReplicateResult(Value):
    """One seed and trial: how its training ended and whether the trial was chosen for its seed.

    `validation_accuracy` is None when the job has one trial a seed or the replicate diverged; of
    an eliminated one it is that with which it was. `steps` are those that it made.
    """

    replicate: int
    seed: int
    trial: int
    learning_rate: float
    weight_decay: float
    initial_scale: float
    status: ReplicateStatus
    selected: bool
    final_loss: float | None
    validation_accuracy: float | None
    steps: int


class Evaluation(Value):
    """Exact-match scores of one replicate on one task; `outcomes` packs one bit an item.

    `attached` is false for a score of the base model on its own. Bits are packed as by
    `numpy.packbits` (big-endian), written as hexadecimal.
    """

    replicate: int
    seed: int
    task: dict[str, object]
    split: Split
    attached: bool = True
    correct: int
    total: int
    outcomes: str

    @property
    def accuracy(self) -> float:
        """The fraction of items with every answer token right."""
        return self.correct / self.total


class AttentionSummary(Value):
    """One head of one layer, over the recorded samples; all figures computed in float64.

    `entropy` is the mean over query rows in nats, over content columns renormalised to one;
    `learned_mass` the mean attention on learned positions; `divergence` the mean Jensen-Shannon
    divergence (nats) from the base's relative attention; `relative_deviation` the largest
    absolute difference from it (paper, equation 6: zero for a prefix in the first layer).
    """

    layer: int
    head: int
    entropy: float
    learned_mass: float
    divergence: float
    relative_deviation: float


class AttentionMap(Value):
    """The attention patterns of one replicate on the recorded samples.

    The array is float16 of shape [sample, layer, head, query, key]; the first
    `learned_positions` keys are learned, the rest are content at the base's own positions.
    `tokens` holds what stood at each content position, `target_start` the first query row that
    produces an answer token.
    """

    replicate: int
    seed: int
    source: AttentionSource
    shape: tuple[int, ...]
    axes: tuple[str, ...] = ("sample", "layer", "head", "query", "key")
    learned_positions: int
    target_start: int
    tokens: tuple[tuple[int, ...], ...]
    predictions: tuple[tuple[int, ...], ...]
    summaries: tuple[AttentionSummary, ...]


class Checkpoint(Value):
    """The trained tensors of one selected replicate, as one safetensors file."""

    replicate: int
    seed: int
    kind: Literal["base_model", "adapter"]
    parameters: int
    tensors: dict[str, tuple[int, ...]]


class Usage(Value):
    """What a run took: seconds of its phases and the largest memory of its process.

    `peak_memory_bytes` is that of the device's allocator on a GPU and of the process on a CPU;
    `base_memory_bytes` is what the process held before the run. `training_steps` are those since
    the run began or went on; `passes` is into how many parts the replicates of a step had to be
    divided at most, because they did not fit in memory at once.
    """

    training_seconds: float
    training_steps: int
    passes: int = 1
    evaluation_seconds: float
    peak_memory_bytes: int
    base_memory_bytes: int


class Finished(Value):
    """The last event of a run that came to its end."""

    event: Literal["finished"] = "finished"
    usage: Usage


class Started(Value):
    """The first event of a run."""

    event: Literal["started"] = "started"
    environment: Environment
    replicates: int


class Progress(Value):
    """How many of the training steps are done."""

    event: Literal["progress"] = "progress"
    phase: Literal["training", "evaluating"]
    step: int
    total: int


class Metrics(Value):
    """A batch of curve points."""

    event: Literal["metrics"] = "metrics"
    points: tuple[MetricPoint, ...]


class ReplicatesDecided(Value):
    """How every replicate ended; the trials that were chosen are marked."""

    event: Literal["replicates"] = "replicates"
    replicates: tuple[ReplicateResult, ...]


class Evaluated(Value):
    """One finished evaluation."""

    event: Literal["evaluated"] = "evaluated"
    evaluation: Evaluation


class AttentionCaptured(Value):
    """Attention patterns, as a `.npy` file at `path` in the run's scratch folder."""

    event: Literal["attention"] = "attention"
    attention: AttentionMap
    path: Path


class CheckpointWritten(Value):
    """Trained tensors, as a safetensors file at `path` in the run's scratch folder."""

    event: Literal["checkpoint"] = "checkpoint"
    checkpoint: Checkpoint
    path: Path


class TheoryChecked(Value):
    """What one theory check says; `place` counts the reports of a run from 0."""

    event: Literal["theory"] = "theory"
    place: int = Field(ge=0)
    check: Check


class TrainingSaved(Value):
    """The state of the training after a step, as a safetensors file in the scratch folder."""

    event: Literal["saved"] = "saved"
    step: int
    path: Path


Event = Annotated[
    Started
    | Progress
    | TrainingSaved
    | Metrics
    | ReplicatesDecided
    | Evaluated
    | AttentionCaptured
    | CheckpointWritten
    | TheoryChecked
    | Finished,
    Field(discriminator="event"),
]
