"""The job spec: what a user may ask for, before and after every `auto` is decided."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from adaptlab.budget import BudgetVector
from adaptlab.values import AUTO, Auto, Name, Value

SPEC_VERSION = 2
LARGEST_SEED = 2**31 - 1

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Seeds = (
    Annotated[int, Field(ge=1, le=64)]
    | Annotated[tuple[Seed, ...], Field(min_length=1, max_length=64)]
)
LearningRate = Annotated[float, Field(gt=0, le=10)]
Label = Annotated[str, Field(max_length=256)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
Labels = Annotated[dict[LabelName, Label], Field(max_length=32)]
Queue = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]


class Choice(Value):
    """A plug-in by name, with the knobs that it declares beside it.

    Further members are checked against the plug-in's own declaration; see `/v1/methods`,
    `/v1/tasks` and `/v1/families`.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: Annotated[str, Field(max_length=63)]


def _named(value: object) -> object:
    """A bare name is short for `{name: …}`."""
    return {"name": value} if isinstance(value, str) else value


NamedChoice = Annotated[Choice, BeforeValidator(_named, json_schema_input_type=Choice | str)]


class BudgetSpec(Value):
    """A limit on trainable parameters, as a number or as a share of the base model."""

    trainable_parameters: int | None = Field(default=None, ge=1, le=10**12)
    fraction_of_base: float | None = Field(default=None, gt=0, le=1)


def _budget_from_number(value: object) -> object:
    """`budget: 96` is short for `budget: {trainable_parameters: 96}`."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return {"trainable_parameters": value} if is_number else value


Budget = Annotated[
    BudgetSpec, BeforeValidator(_budget_from_number, json_schema_input_type=BudgetSpec | int)
]


Precision = Literal["float32", "float64", "bfloat16"]
"""Of the arithmetic; with bfloat16 the weights and the optimiser's state stay float32."""


class TrainingSpec(Value):
    """The steps of gradient descent, the same for every replicate of a job.

    `validations` is how often on the way the validation split is scored, at even distances.
    """

    steps: int = Field(default=2000, ge=1, le=1_000_000)
    batch_size: int = Field(default=64, ge=1, le=4096)
    learning_rate: LearningRate | Auto = AUTO
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_fraction: float = Field(default=0.05, ge=0, le=1)
    weight_decay: Annotated[float, Field(ge=0, le=10)] | Auto = AUTO
    gradient_clip: float = Field(default=1.0, gt=0, le=1e6)
    precision: Precision = "float32"
    validations: int = Field(default=10, ge=0, le=1000)


class TuningSpec(Value):
    """Learning rates tried for every seed; the best on the validation split is kept."""

    trials: int = Field(default=1, ge=1, le=64)
    validation_samples: int = Field(default=640, ge=1, le=100_000)


class EvaluationSpec(Value):
    """Tasks scored on fresh test items after training; empty means the job's own task."""

    tasks: Annotated[tuple[NamedChoice, ...], Field(max_length=16)] = ()
    samples: int = Field(default=3200, ge=1, le=100_000)


Tokens = Annotated[
    tuple[Annotated[int, Field(ge=0, le=10**6)], ...], Field(min_length=1, max_length=4096)
]


class AttentionSpec(Value):
    """Which inputs have their attention recorded: the first test items, or the given ones."""

    samples: int = Field(default=4, ge=0, le=64)
    inputs: Annotated[tuple[Tokens, ...], Field(max_length=64)] = ()


class CaptureSpec(Value):
    """What is recorded besides scores."""

    attention: AttentionSpec | None = None


class ResourcesSpec(Value):
    """Where, how urgently and for how long a job may run."""

    queue: Queue = "cpu"
    max_seconds: int = Field(default=3600, ge=1, le=7 * 24 * 3600)
    priority: int = Field(default=5, ge=0, le=9)


class PretrainSpec(Value):
    """Train a base model from scratch; it can be used under `name` when it is done."""

    kind: Literal["pretrain"] = "pretrain"
    name: Name
    family: NamedChoice
    task: NamedChoice
    training: TrainingSpec = TrainingSpec()
    seeds: Seeds = 1
    evaluation: EvaluationSpec = EvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


class AdaptSpec(Value):
    """Adapt a base model to a task with one method, within a parameter budget."""

    kind: Literal["adapt"] = "adapt"
    base_model: Name | PretrainSpec
    task: NamedChoice
    method: NamedChoice
    budget: Budget = BudgetSpec()
    training: TrainingSpec = TrainingSpec()
    tuning: TuningSpec = TuningSpec()
    seeds: Seeds | Auto = AUTO
    evaluation: EvaluationSpec = EvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


JobSpec = Annotated[PretrainSpec | AdaptSpec, Field(discriminator="kind")]


class Trial(Value):
    """What one trial of a seed is trained with.

    `initial_scale` multiplies the random initial values of the method's tensors.
    """

    learning_rate: float
    weight_decay: float
    initial_scale: float = 1.0


class ResolvedTraining(Value):
    """Training with every `auto` decided; every seed is trained once with each of `trials`."""

    steps: int
    batch_size: int
    trials: tuple[Trial, ...]
    schedule: Literal["cosine", "constant"]
    warmup_fraction: float
    gradient_clip: float
    precision: Precision
    validations: int = 0

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The peak learning rate of every trial."""
        return tuple(trial.learning_rate for trial in self.trials)


class ResolvedSpec(Value):
    """A job as it will run: what every `auto` became, and what the adaptation costs.

    `family`, `task`, `method` and `evaluation_tasks` are complete plug-in configurations;
    `seeds` has one entry a seed, `base_replicates` the replicate of the base that each starts
    from (empty for pretraining).
    """

    spec_version: int = SPEC_VERSION
    kind: Literal["pretrain", "adapt"]
    base_model: str | None
    base_digest: str | None
    family: dict[str, object]
    task: dict[str, object]
    method: dict[str, object] | None
    budget: BudgetVector
    training: ResolvedTraining
    validation_samples: int
    seeds: tuple[int, ...]
    base_replicates: tuple[int, ...]
    evaluation_tasks: tuple[dict[str, object], ...]
    evaluation_samples: int
    attention: AttentionSpec | None
