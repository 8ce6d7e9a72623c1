"""The job spec: what a user may ask for, before and after every `auto` is decided."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast, get_args
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from adaptlab.plugins.adaptation import Adaptation
from adaptlab.specs.budget import BudgetVector
from adaptlab.values import AUTO, Auto, Name, Value
from adaptlab.weights.model_folder import ModelFile
from adaptlab.wording import in_short

SPEC_VERSION = 2
LARGEST_SEED = 2**31 - 1
MOST_TRIALS = 64

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Seeds = (
    Annotated[int, Field(ge=1, le=64)]
    | Annotated[tuple[Seed, ...], Field(min_length=1, max_length=64)]
)
LearningRate = Annotated[float, Field(gt=0, le=10)]
WeightDecay = Annotated[float, Field(ge=0, le=10)]
InitialScale = Annotated[float, Field(gt=0, le=100)]
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
    if isinstance(value, int) and not isinstance(value, bool):
        return {"trainable_parameters": value}
    if isinstance(value, BudgetSpec | Mapping):
        return cast("object", value)
    raise PydanticCustomError(
        "budget_type",
        'Input should be a whole number or a mapping such as {"fraction_of_base": 0.01}, not {it}',
        {"it": in_short(value)},
    )


Budget = Annotated[
    BudgetSpec, BeforeValidator(_budget_from_number, json_schema_input_type=BudgetSpec | int)
]


Precision = Literal["float32", "float64", "bfloat16"]
"""Of the arithmetic; with bfloat16 the weights and the optimiser's state stay float32."""


class EarlyStopping(Value):
    """When a replicate stops before the last step, for each on its own.

    After `patience` validations in a row whose loss was not at least `min_delta` (nats) below the
    lowest so far. Every replicate then ends with its weights of the validation that counted as its
    best, also one that went on to the last step.
    """

    patience: int = Field(default=3, ge=1, le=1000)
    min_delta: float = Field(default=0.0, ge=0, le=1e6)


class TrainingSpec(Value):
    """The steps of gradient descent, the same for every replicate of a job.

    `validations` is how often on the way the validation split is scored, at even distances.
    `accumulation` is the number of equal parts in which a batch goes through the model: more of
    them need less memory and give the same gradient.
    """

    steps: int = Field(default=2000, ge=1, le=1_000_000)
    batch_size: int = Field(default=64, ge=1, le=4096)
    learning_rate: LearningRate | Auto = AUTO
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_fraction: float = Field(default=0.05, ge=0, le=1)
    weight_decay: WeightDecay | Auto = AUTO
    gradient_clip: float = Field(default=1.0, gt=0, le=1e6)
    precision: Precision = "float32"
    validations: int = Field(default=10, ge=0, le=1000)
    accumulation: int = Field(default=1, ge=1, le=4096)
    early_stopping: EarlyStopping | None = None


Selection = Literal["per_seed", "pooled"]
"""Which trial is kept: for every seed its own best, or the one that is best over all seeds."""


class Halving(Value):
    """Successive halving: the worst trials stop on the way, at each of `rungs` comparisons.

    Comparison k of n stands after the share keepⁿ⁺¹⁻ᵏ of all steps; of the trials still trained
    the share `keep`, rounded up, goes on, by the rule that chooses the trial at the end.
    """

    rungs: int = Field(ge=1, le=16)
    keep: float = Field(default=0.5, gt=0, lt=1)


class TuningSpec(Value):
    """What is tried for every seed; the best on the validation split is kept.

    The trials are the product of learning rates, `weight_decays` and `initial_scales`. Without
    `learning_rates` there are as many rates as `trials` asks for, log-spaced over
    `learning_rate_range` or, without it, the method's own range. `trials` may be left to follow
    from the lists; a number that they cannot make is refused. With `selection` per_seed every seed
    keeps its own best trial; with pooled all seeds keep the one with the best mean accuracy, to
    which a diverged replicate contributes 0.
    """

    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)] | Auto = AUTO
    learning_rates: (
        Annotated[tuple[LearningRate, ...], Field(min_length=1, max_length=MOST_TRIALS)] | None
    ) = None
    learning_rate_range: tuple[LearningRate, LearningRate] | None = None
    weight_decays: Annotated[tuple[WeightDecay, ...], Field(max_length=MOST_TRIALS)] = ()
    initial_scales: Annotated[tuple[InitialScale, ...], Field(max_length=MOST_TRIALS)] = ()
    selection: Selection = "per_seed"
    validation_samples: int = Field(default=640, ge=1, le=100_000)
    halving: Halving | None = None


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


SelfFence = Literal["ride_through", "strict"]


class ResourcesSpec(Value):
    """Where, how urgently and for how long a job may run.

    With `self_fence: strict` a worker that cannot reach the server stops the run before its lease
    ends, for jobs that hold something which must not be used by two at a time. Otherwise the run
    rides an outage through, since whatever a lost run writes is refused.
    """

    queue: Queue = "cpu"
    max_seconds: int = Field(default=3600, ge=1, le=7 * 24 * 3600)
    priority: int = Field(default=5, ge=0, le=9)
    self_fence: SelfFence = "ride_through"


AllChecks = Literal["all"]


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


class ImportSpec(Value):
    """Take a published model from a folder as a base model; it can be used under `name`.

    `folder` is `ALIAS/SUB/PATH` below one of the server's model roots. Without evaluation tasks
    nothing is scored: an imported model has no task of its own.
    """

    kind: Literal["import"] = "import"
    name: Name
    folder: Annotated[str, Field(min_length=1, max_length=1024)]
    evaluation: EvaluationSpec = EvaluationSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


def _kind_of_base(value: object) -> str:
    """A text names a base model; an inline spec is of pretraining unless it says otherwise."""
    if isinstance(value, str):
        return "name"
    if isinstance(value, dict):
        kind: object = value.get("kind")  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] - not validated yet
        return "import" if kind == "import" else "pretrain"
    return "import" if isinstance(value, ImportSpec) else "pretrain"


BaseSpec = PretrainSpec | ImportSpec
"""The spec of a job that makes a base model."""

AnyBase = Annotated[
    Annotated[Name, Tag("name")]
    | Annotated[PretrainSpec, Tag("pretrain")]
    | Annotated[ImportSpec, Tag("import")],
    Discriminator(_kind_of_base),
]


class AdaptSpec(Value):
    """Adapt a base model to a task with one method, within a parameter budget.

    `base_replicates` says from which replicate of the base each seed starts; `auto` takes them in
    turn, the first seed from the first.
    """

    kind: Literal["adapt"] = "adapt"
    base_model: AnyBase
    task: NamedChoice
    method: NamedChoice
    budget: Budget = BudgetSpec()
    training: TrainingSpec = TrainingSpec()
    tuning: TuningSpec = TuningSpec()
    seeds: Seeds | Auto = AUTO
    base_replicates: Annotated[tuple[Seed, ...], Field(max_length=64)] | Auto = AUTO
    evaluation: EvaluationSpec = EvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


class TheorySpec(Value):
    """Measure claims of the theory, each with its tolerance and a verdict.

    `checks` are theory checks by name, with their knobs; `all` are those that can be done, which
    without a `base_model` are the ones that build their own models. Of a base model the first
    replicate is measured. `adaptation` is the id of an adapt job, or several of one base model,
    which then is the one that is measured; of each the chosen replicates of its first seeds, as
    many as `replicates`. `seed` draws everything that is random.
    """

    kind: Literal["theory"] = "theory"
    checks: Annotated[tuple[NamedChoice, ...], Field(min_length=1, max_length=32)] | AllChecks = (
        "all"
    )
    base_model: Name | None = None
    adaptation: UUID | Annotated[tuple[UUID, ...], Field(min_length=1, max_length=16)] | None = None
    replicates: Annotated[int, Field(ge=1, le=64)] | Literal["all"] = "all"
    seed: Seed = 0
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])

    @property
    def adaptations(self) -> tuple[UUID, ...]:
        """The ids of the jobs whose adaptations are measured, each once."""
        given = self.adaptation
        several = given if isinstance(given, tuple) else () if given is None else (given,)
        return tuple(dict.fromkeys(several))


AnySpec = PretrainSpec | ImportSpec | AdaptSpec | TheorySpec
JobSpec = Annotated[AnySpec, Field(discriminator="kind")]


class Trial(Value):
    """What one trial of a seed is trained with.

    `initial_scale` multiplies the random initial values of the method's tensors.
    """

    learning_rate: float
    weight_decay: float
    initial_scale: float = 1.0


class ResolvedTraining(Value):
    """Training with every `auto` decided; every seed is trained once with each of `trials`.

    With `halving`, the worst of them not to the last step.
    """

    steps: int
    batch_size: int
    trials: tuple[Trial, ...]
    schedule: Literal["cosine", "constant"]
    warmup_fraction: float
    gradient_clip: float
    precision: Precision
    validations: int = 0
    accumulation: int = 1
    early_stopping: EarlyStopping | None = None
    halving: Halving | None = None

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The peak learning rate of every trial."""
        return tuple(trial.learning_rate for trial in self.trials)


class ModelFolder(Value):
    """Where an imported model is read from, below a model root, and what was found there."""

    folder: str
    files: tuple[ModelFile, ...]


Kind = Literal["pretrain", "import", "adapt", "theory"]
StoredKind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*get_args(Kind)]})]
"""As it was stored: a version that has another kind may have stored it."""


class ResolvedSpec(Value):
    """A job as it will run: what every `auto` became, and what the adaptation costs.

    `family`, `task`, `method`, `evaluation_tasks` and `base_tasks` are complete plug-in
    configurations; `seeds` has one entry a seed, `base_replicates` the replicate of the base that
    each starts from (empty for pretraining). `base_tasks` are what the base was pretrained on,
    scored to see what is forgotten; none where that is not known.
    An import has a `model_folder` instead of a `task`, and no steps of training. Theory checks
    have `checks`, complete plug-in configurations, and no training either; without a base model
    their family is the one in which they build their own. `adaptations` are those that they
    measure, with the seeds that they measure of each.
    """

    # As JSON, one form for every kind: what is stored, answered and sent to workers, also where
    # this version lacks a plug-in. `adaptlab.specs.resolved` reads it into values and writes it.
    spec_version: int = SPEC_VERSION
    kind: StoredKind
    base_model: str | None
    base_digest: str | None
    model_folder: ModelFolder | None = None
    checks: tuple[dict[str, object], ...] = ()
    adaptations: tuple[Adaptation, ...] = ()
    family: dict[str, object]
    task: dict[str, object] | None
    method: dict[str, object] | None
    budget: BudgetVector
    training: ResolvedTraining
    selection: Selection = "per_seed"
    validation_samples: int
    seeds: tuple[int, ...]
    base_replicates: tuple[int, ...]
    evaluation_tasks: tuple[dict[str, object], ...]
    base_tasks: tuple[dict[str, object], ...] = ()
    evaluation_samples: int
    attention: AttentionSpec | None
