"""Reports of a run, from the trainer to the database and the client."""

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from adaptlab.plugins.splits import Split
from adaptlab.runs.phases import Phase
from adaptlab.runs.theory_report import Check
from adaptlab.values import Value

if TYPE_CHECKING:
    from adaptlab.plugins.metric import Metric

ReplicateStatus = Literal["completed", "stopped", "diverged", "eliminated"]
"""`stopped` means early stopping; the replicate is as valid as a completed one. `eliminated` means
successive halving; the trial was among the worst and cannot be selected."""
AttentionSource = Literal["base", "adapted"]

LARGEST_LOSS = 1e30
"""A larger loss counts as diverged. Up to this value, squares and their sums are finite."""
LEAST_LOSS = -1.0
"""A loss can be negative only by rounding."""
_LOSS, _SHARE = (LEAST_LOSS, LARGEST_LOSS), (0.0, 1.0)


def rung_curve(metric: str) -> str:
    """Return the curve of a metric by which trials are chosen."""
    return f"rung_{metric}"


def validation_curve(metric: "Metric") -> str:
    """Return the curve of a metric that early stopping follows."""
    return f"validation_{metric.name}"


@cache
def curves() -> Mapping[str, tuple[float, float]]:
    """Return the curves of a training, with the limits of their values."""
    found = {"train_loss": _LOSS, "validation_loss": _LOSS}
    found |= dict.fromkeys(("validation_accuracy", "rung_accuracy"), _SHARE)
    from adaptlab.plugins.metric import metrics  # loads the plug-ins, as answers need not

    for metric in metrics():
        if metric.is_share:
            found[validation_curve(metric)] = _SHARE
        found[rung_curve(metric.name)] = metric.limits
    return MappingProxyType(found)


def is_loss(value: float) -> bool:
    """Return True if a loss is finite and at most `LARGEST_LOSS`."""
    return math.isfinite(value) and abs(value) <= LARGEST_LOSS


class Allocation(Value):
    """The batch job of a scheduler in which a worker ran.

    Members that the scheduler did not report are null. `restart_count` is how many times the
    scheduler has requeued the batch job, which keeps its id.
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
    """The hardware and software of a run, stored with every attempt.

    `bfloat16_cost` is the time of a matrix product of the model in bfloat16 divided by that in
    float32, and `product_gflops` the billions of operations per second of that in float32, both
    measured on a CPU when the run began. `allocation` is null for a worker outside of
    batch jobs.
    """

    device: str
    precision: str
    bfloat16_cost: float | None = Field(
        default=None,
        exclude_if=lambda cost: cost is None,  # as recorded by earlier versions
    )
    product_gflops: float | None = Field(default=None, exclude_if=lambda speed: speed is None)
    compiled: bool
    threads: int
    torch_version: str
    code_version: str
    python_version: str
    platform: str
    allocation: Allocation | None = None


class MetricPoint(Value):
    """One point of a curve; `value` is null for a loss that is not finite."""

    replicate: int
    name: str
    step: int
    value: float | None


class FoundPrompt(Value):
    """The tokens that a search has found, and what the search took.

    `log_perplexity` is the mean loss in nats of all tokens after the first, each predicted by the
    base model alone from those before. It is null for a single token, for a prompt that is longer
    than the model's context, and for a model that predicts no next token.
    """

    tokens: tuple[int, ...]
    words: tuple[str, ...]
    log_perplexity: float | None
    forward_passes: int
    backward_passes: int


class ReplicateResult(Value):
    """The outcome of training for one seed and trial.

    `selected` is true if its seed keeps the trial. `validation_accuracy` is null if the job has one
    trial per seed or the replicate diverged. For an eliminated replicate it is the accuracy at that
    rung. `validation_metric` is the task's `metric` on the same items, by which its trials are
    chosen; null if that is accuracy or exact match. Of perplexity, lower is better. `steps` is the
    number of steps that the replicate was trained for. `prompt` is what a method that chooses
    tokens has found, null for replicates that are not selected.
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
    validation_metric: float | None = None
    steps: int
    prompt: FoundPrompt | None = None


class Confusion(Value):
    """The number of items by their right label and by the given one.

    `counts[i][j]` items with the right label `labels[i]` were answered with `labels[j]`.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def majority(self) -> float | None:
        """Return the share of the most common right label, None without items.

        It is the accuracy of always giving that label.
        """
        right = [sum(row) for row in self.counts]
        return max(right) / total if (total := sum(right)) else None


FloorKind = Literal[
    "guessing", "constant_answer", "copied_prompt", "most_common_answer", "base_alone"
]


class MetricFloor(Value):
    """The best value of a metric that can be had without adaptation."""

    value: float
    kind: FloorKind


class Measure(Value):
    """The value of a metric on the items of an evaluation.

    `statistics` are those of every item from whose sums it follows, packed as by
    `item_statistics` and in base64. `floor` is what needs no skill; that of an adapted model
    can be the base alone. Both are null in results of earlier versions. Values with different
    signatures are not compared; null is that of version 1.
    """

    metric: str
    value: float
    statistics: str | None = None
    floor: MetricFloor | None = None
    signature: str | None = None


class Evaluation(Value):
    """The exact-match score of one replicate on one task.

    `base_model` is another base model on which it was measured, null for the job's own. `attached`
    is false for a score of the base model alone. `outcomes` has one bit per item, packed
    as by `numpy.packbits` (big-endian) and written as hexadecimal digits. `confusion` is null
    unless the task chooses among 2 to 32 labels. `loss` is the mean cross-entropy of the tokens of
    the right answers in nats, each after the right ones before it; null if the task chooses.
    `measures` has the task's metric, if it has one.
    `clusters` has the number of each item's group, from 0 as groups occur; empty unless the task
    names groups.
    """

    replicate: int
    seed: int
    task: dict[str, object]
    split: Split
    attached: bool = True
    correct: int
    total: int
    outcomes: str
    clusters: tuple[int, ...] = ()
    confusion: Confusion | None = None
    loss: float | None = None
    measures: tuple[Measure, ...] = ()
    base_model: str | None = None

    def statistics_of(self, metric: str | None) -> str | None:
        """Return the packed statistics of a metric, None if they are not kept."""
        return next((one.statistics for one in self.measures if one.metric == metric), None)

    @property
    def accuracy(self) -> float:
        """The share of items with every counted token correct."""
        return self.correct / self.total

    @property
    def majority(self) -> float | None:
        """The accuracy of always giving the items' most common label, if known."""
        return None if self.confusion is None else self.confusion.majority()

    @property
    def effective_items(self) -> float | None:
        """The items that count if all of a group are alike, None without groups.

        It is N² / Σ n² for N items in groups of n.
        """
        sizes = Counter(self.clusters).values()
        return self.total**2 / sum(size**2 for size in sizes) if sizes else None


class Excerpt(Value):
    """The start of a text, and the number of characters of the whole text."""

    text: str
    characters: int

    @property
    def is_shortened(self) -> bool:
        """True if the text goes on."""
        return len(self.text) < self.characters


class AnswerText(Excerpt):
    """An answer as text.

    `label` is the value of the answer's field that the text stands for, null unless the task
    chooses among labels.
    """

    label: str | None = None


class ShownItem(Value):
    """A test item as text, as the model reads it.

    `item` is its place among the test items of its task, from 0. `line` is that of its record in
    the dataset, from 1, and null for generated items.
    """

    item: int
    line: int | None = None
    prompt: Excerpt
    expected: AnswerText


class AttentionSummary(Value):
    """Attention of one head over the recorded samples, computed in float64.

    - `entropy` is the mean entropy of query rows in nats, over content columns rescaled to sum to
      one.
    - `learned_mass` is the mean attention on learned positions.
    - `divergence` is the mean Jensen-Shannon divergence in nats from the base's relative attention.
    - `relative_deviation` is the largest absolute difference from the base's relative attention. It
      is zero for a prefix in the first layer (paper, equation 6).
    """

    layer: int
    head: int
    entropy: float
    learned_mass: float
    divergence: float
    relative_deviation: float


class SampleText(Value):
    """A recorded text or image and its answer, token by token.

    `words` are the tokens of the content as text; of an image they are the class token and the
    patches, as shade and place. `target_start` is the first query row that produces a token of the
    answer. `expected` and `predicted` are the tokens of the right and of the given answer as text,
    or a class.
    """

    words: tuple[str, ...]
    target_start: int
    expected: tuple[str, ...]
    predicted: tuple[str, ...]


class AttentionPatterns(Value):
    """The attention patterns of one replicate on the recorded samples.

    The array is float16 of shape [sample, layer, head, query, key]. The first `learned_positions`
    keys are learned; the others are content at the base's own positions. `tokens` are the tokens
    at the content positions. `target_start` is the first query row that produces an answer token.
    `predictions` are the tokens of the given answers, or the place of the given class.

    Samples of texts differ in length. Rows and columns after the tokens of a sample are zero,
    `target_start` is the smallest of all samples, and `texts` has the words of each.
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
    texts: tuple[SampleText, ...] = ()
    summaries: tuple[AttentionSummary, ...]


class Checkpoint(Value):
    """A safetensors file with the trained tensors of a selected replicate."""

    replicate: int
    seed: int
    kind: Literal["base_model", "adapter"]
    parameters: int
    tensors: dict[str, tuple[int, ...]]


class Usage(Value):
    """The time and memory of a run.

    `peak_memory_bytes` is measured by the device's allocator on a GPU and for the process on a CPU.
    `base_memory_bytes` is the memory of the process before the run. `training_steps` counts the
    steps since the run started or resumed. `passes` is the most passes that a step needed because
    its replicates did not fit in memory together. `batch_parts` is the number of parts in which a
    pass took a batch. With `gradient_checkpointing`, blocks were computed again in the backward
    pass, because not even parts fit.
    """

    training_seconds: float
    training_steps: int
    passes: int = 1
    batch_parts: int = 1
    gradient_checkpointing: bool = False
    evaluation_seconds: float
    peak_memory_bytes: int
    base_memory_bytes: int


class Finished(Value):
    """The last event of a completed run."""

    event: Literal["finished"] = "finished"
    usage: Usage


class Started(Value):
    """The first event of a run."""

    event: Literal["started"] = "started"
    environment: Environment
    replicates: int


class Progress(Value):
    """The completed steps of training, or parts of a later phase."""

    event: Literal["progress"] = "progress"
    phase: Phase
    step: int = Field(ge=0, le=2**53)
    total: int = Field(ge=0, le=2**53)


class Metrics(Value):
    """A batch of curve points."""

    event: Literal["metrics"] = "metrics"
    points: tuple[MetricPoint, ...]


class ReplicatesDecided(Value):
    """The outcomes of all replicates, with the selected trials marked."""

    event: Literal["replicates"] = "replicates"
    replicates: tuple[ReplicateResult, ...]


class Evaluated(Value):
    """A finished evaluation."""

    event: Literal["evaluated"] = "evaluated"
    evaluation: Evaluation


class NotCarried(Value):
    """A prompt that cannot be read by another base model, and the reason."""

    event: Literal["not_carried"] = "not_carried"
    base_model: str
    replicate: int
    seed: int
    reason: str


class ItemsShown(Value):
    """The first test items of a scored task as text.

    `task_place` is the task's place among the scored tasks, from 0.
    """

    event: Literal["items"] = "items"
    task_place: int
    task: dict[str, object]
    items: tuple[ShownItem, ...]


class AnswersGiven(Value):
    """The answers of one replicate to the shown items of a task, in order.

    They are those of the base model alone if not `attached`.
    """

    event: Literal["answers"] = "answers"
    task_place: int
    replicate: int
    seed: int
    attached: bool = True
    answers: tuple[AnswerText, ...]


class AttentionCaptured(Value):
    """Attention patterns in the `.npy` file `path` of the scratch folder."""

    event: Literal["attention"] = "attention"
    attention: AttentionPatterns
    path: Path


class CheckpointWritten(Value):
    """Trained tensors in the safetensors file `path` of the scratch folder."""

    event: Literal["checkpoint"] = "checkpoint"
    checkpoint: Checkpoint
    path: Path


class TheoryChecked(Value):
    """The report of a theory check; `place` counts a run's reports from 0."""

    event: Literal["theory"] = "theory"
    place: int = Field(ge=0)
    check: Check


class TrainingSaved(Value):
    """The state of training after a step, as a safetensors file."""

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
    | NotCarried
    | ItemsShown
    | AnswersGiven
    | AttentionCaptured
    | CheckpointWritten
    | TheoryChecked
    | Finished,
    Field(discriminator="event"),
]
