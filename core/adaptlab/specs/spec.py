"""Job specs, as submitted and with every `auto` replaced."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast, get_args
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from adaptlab.plugins.adaptation import Adaptation
from adaptlab.plugins.sizing import PARAMETERS, TOKENS, BudgetAxis
from adaptlab.specs.budget import BudgetVector
from adaptlab.values import AUTO, Auto, Name, Queue, Value
from adaptlab.weights.hub_name import FetchedDataset, HubOrigin
from adaptlab.weights.model_file import ModelFile
from adaptlab.wording import value_excerpt

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
HIGHEST_SCALE = 100
InitialScale = Annotated[float, Field(gt=0, le=HIGHEST_SCALE)]
Label = Annotated[str, Field(max_length=256)]
LabelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
MOST_LABELS = 32
Labels = Annotated[dict[LabelName, Label], Field(max_length=MOST_LABELS)]


class Choice(Value):
    """A plug-in by name, with its options as further members.

    They are checked against the plug-in's own schema; see `/v1/methods`, `/v1/tasks` and
    `/v1/families`.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: Annotated[str, Field(max_length=63)]


def _named(value: object) -> object:
    """Return a bare name as `{name: …}`."""
    return {"name": value} if isinstance(value, str) else value


NamedChoice = Annotated[Choice, BeforeValidator(_named, json_schema_input_type=Choice | str)]


class BudgetSpec(Value):
    """A limit on trainable parameters or on context tokens.

    Trainable parameters are a number or a share of the base model. `context_tokens` sizes prefixes,
    soft prompts, suffixes and hard prompts by the positions that they take. Give one of the three.
    """

    trainable_parameters: int | None = Field(default=None, ge=1, le=10**12)
    fraction_of_base: float | None = Field(default=None, gt=0, le=1)
    context_tokens: int | None = Field(default=None, ge=1, le=10**6)

    @property
    def axis(self) -> BudgetAxis:
        """What the budget limits."""
        return PARAMETERS if self.context_tokens is None else TOKENS


def _budget_from_number(value: object) -> object:
    """Return `96` as `{trainable_parameters: 96}`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"trainable_parameters": value}
    if isinstance(value, BudgetSpec | Mapping):
        return cast("object", value)
    raise PydanticCustomError(
        "budget_type",
        'Input should be a whole number or a mapping such as {"fraction_of_base": 0.01}, not {it}',
        {"it": value_excerpt(value)},
    )


Budget = Annotated[
    BudgetSpec, BeforeValidator(_budget_from_number, json_schema_input_type=BudgetSpec | int)
]


Precision = Literal["float32", "float64", "bfloat16", "tf32", "auto"]
"""The precision of the arithmetic; with bfloat16, weights and optimiser state stay in float32.

With tf32, a GPU also rounds the factors of a training step's matrix products to ten binary digits,
which is faster. All else is float32. It needs a GPU of NVIDIA's Ampere generation or later.

With auto, the worker chooses bfloat16 where it measures that products are faster in it, and float32
elsewhere. What it chose is in the attempt's environment.
"""


BaseWeights = Literal["stored", "nf4"]
"""The form in which an adaptation holds the frozen matrices of its base model.

With `stored` they have the precision of the arithmetic. With `nf4` those of a published model's
blocks have four bits per number, and are read as floats for each product (QLoRA). That needs a GPU.
"""


class EarlyStopping(Value):
    """Early stopping, decided for each replicate on its own.

    A replicate stops after `patience` consecutive validations without an improvement. A loss is an
    improvement if it is more than `min_delta` nats below the lowest so far. If the task's `metric`
    is `macro_f1` or `token_f1`, that is compared first, from 0 to 1: it has to be more than
    `min_delta` above the best so far, or not below it with such a lower loss. Every replicate ends
    with the weights of its best validation, even if it was trained to the last step.
    """

    patience: int = Field(default=3, ge=1, le=1000)
    min_delta: float = Field(default=0.0, ge=0, le=1e6)


class TrainingSpec(Value):
    """Settings of gradient descent for all replicates of a job.

    `validations` is how many times the validation split is scored during training, at even
    intervals. `accumulation` is the number of equal parts in which a batch passes through the
    model. More parts need less memory and give the same gradient.
    """

    steps: int = Field(default=2000, ge=1, le=1_000_000)
    batch_size: int = Field(default=64, ge=1, le=4096)
    learning_rate: LearningRate | Auto = AUTO
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_fraction: float = Field(default=0.05, ge=0, le=1)
    weight_decay: WeightDecay | Auto = AUTO
    gradient_clip: float = Field(default=1.0, gt=0, le=1e6)
    precision: Precision = "float32"
    base_weights: BaseWeights = "stored"
    validations: int = Field(default=10, ge=0, le=1000)
    accumulation: int = Field(default=1, ge=1, le=4096)
    early_stopping: EarlyStopping | None = None


Selection = Literal["per_seed", "pooled"]
"""The trial that is kept: the best one of each seed, or the best one over all seeds."""


class Halving(Value):
    """Successive halving: the worst trials stop at each of `rungs` rungs.

    Rung k of n is after the share keepⁿ⁺¹⁻ᵏ of all steps. There the share `keep` of the remaining
    trials, rounded up, continues. They are selected by the same rule as at the end.
    """

    rungs: int = Field(ge=1, le=16)
    keep: float = Field(default=0.5, gt=0, lt=1)


class TuningSpec(Value):
    """Trials per seed, of which the best on the validation split is kept.

    The trials are the product of learning rates, `weight_decays` and `initial_scales`. Without
    `learning_rates`, rates are log-spaced over `learning_rate_range` or the method's own range, and
    their number follows from `trials`. If `trials` is `auto`, it follows from the lists; a number
    that contradicts them is rejected.

    With `selection: per_seed`, every seed keeps its own best trial. With `pooled`, all seeds keep
    the trial with the best mean accuracy, to which a diverged replicate contributes 0.
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


MOST_SHOWN = 200
"""The most test items of a task whose texts are recorded."""


MOST_SAMPLES = 100_000


class EvaluationSpec(Value):
    """Tasks to score on test items after training, by default the job's own.

    Watched tasks, such as `benchmark`, are scored beside it; others take its place.

    Of the first `shown` items of every task, prompt, expected answer and the answers of the first
    replicate are recorded as text; 0 records none. There are never more than `samples`.
    """

    tasks: Annotated[tuple[NamedChoice, ...], Field(max_length=16)] = ()
    samples: int = Field(default=3200, ge=1, le=MOST_SAMPLES)
    shown: int = Field(default=4, ge=0, le=MOST_SHOWN)


MOST_OTHER_BASES = 8


Mode = Literal["always_on", "routed"]


class AdaptEvaluationSpec(EvaluationSpec):
    """Tasks to score after an adaptation, also on other base models.

    What the method has found is carried to each of `base_models` and scored there on the evaluation
    tasks, next to that base model alone. Only tokens can be carried, and they are carried by their
    text. A seed that starts from replicate k of its own base is scored on replicate k, modulo their
    number, of another.

    `mode` is how the adaptation is used: `always_on`, or `routed` to requests of the new task. Old
    tasks then meet the base alone, so there is no retention to measure, and no method is dominated
    by it.
    """

    base_models: Annotated[tuple[Name, ...], Field(max_length=MOST_OTHER_BASES)] = ()
    mode: Mode = Field(default="always_on", exclude_if=lambda mode: mode == "always_on")


Tokens = Annotated[
    tuple[Annotated[int, Field(ge=0, le=10**6)], ...], Field(min_length=1, max_length=4096)
]


class AttentionSpec(Value):
    """Inputs whose attention is recorded: `inputs`, or the first test items."""

    samples: int = Field(default=4, ge=0, le=64)
    inputs: Annotated[tuple[Tokens, ...], Field(max_length=64)] = ()


class CaptureSpec(Value):
    """Recordings besides scores."""

    attention: AttentionSpec | None = None


SelfFence = Literal["ride_through", "strict"]


class ResourcesSpec(Value):
    """Queue, time limit and priority of a job.

    With `self_fence: strict`, a worker that cannot reach the server stops the run before its lease
    expires. Use it for jobs with a resource that two runs must not use at the same time. By
    default the run continues during an outage, because writes without a valid lease are rejected.
    """

    queue: Queue = "cpu"
    max_seconds: int = Field(default=3600, ge=1, le=7 * 24 * 3600)
    priority: int = Field(default=5, ge=0, le=9)
    self_fence: SelfFence = "ride_through"


AllChecks = Literal["all"]


class PretrainSpec(Value):
    """Pretraining of a base model, which is available as `name` afterwards."""

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
    """Import of a published model as a base model called `name`.

    `folder` is `ALIAS/SUB/PATH` below one of the server's model roots, `uploaded/NAME`, or
    `hub:ORGANISATION/NAME@REVISION`. If the project has not fetched that model, it is fetched into
    the model folder `name`, and the job waits. An imported model has no task of its own, so nothing
    is scored without evaluation tasks.
    """

    kind: Literal["import"] = "import"
    name: Name
    folder: Annotated[str, Field(min_length=1, max_length=1024)]
    evaluation: EvaluationSpec = EvaluationSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


def _kind_of_base(value: object) -> str:
    """Return the union member of a base: a name, an import or a pretraining."""
    if isinstance(value, str):
        return "name"
    if isinstance(value, dict):
        kind: object = value.get("kind")  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] - not validated yet
        return "import" if kind == "import" else "pretrain"
    return "import" if isinstance(value, ImportSpec) else "pretrain"


BaseSpec = PretrainSpec | ImportSpec
"""The spec of a job that creates a base model."""

AnyBase = Annotated[
    Annotated[Name, Tag("name")]
    | Annotated[PretrainSpec, Tag("pretrain")]
    | Annotated[ImportSpec, Tag("import")],
    Discriminator(_kind_of_base),
]


class AdaptSpec(Value):
    """Adaptation of a base model to a task, within a parameter budget.

    With an `adapter` instead of a `method`, an adapter that PEFT has saved is evaluated and nothing
    is trained: `budget`, `training` and `tuning` do not apply, and there is one seed. It is
    `ALIAS/SUB/PATH`, a folder below one of the server's model roots.

    `base_replicates` is the replicate of the base that each seed starts from. With `auto`, seeds
    take the replicates in turn, beginning with the first.
    """

    kind: Literal["adapt"] = "adapt"
    base_model: AnyBase
    task: NamedChoice
    method: NamedChoice | None = None
    adapter: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    budget: Budget = BudgetSpec()
    training: TrainingSpec = TrainingSpec()
    tuning: TuningSpec = TuningSpec()
    seeds: Seeds | Auto = AUTO
    base_replicates: Annotated[tuple[Seed, ...], Field(max_length=64)] | Auto = AUTO
    evaluation: AdaptEvaluationSpec = AdaptEvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


class TheorySpec(Value):
    """Measurement of claims of the theory, each with tolerance and verdict.

    `checks` are theory checks by name, with their options. `all` runs every possible check; without
    a `base_model` these are the checks that build their own models. Checks of a base model measure
    its first replicate or, if they say so, the first `replicates`.

    `adaptation` is the id of an adapt job, or several ids of jobs on one base model, which is then
    measured. Of each job, the selected trials of the first `replicates` seeds are measured. `seed`
    determines everything random.
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
        """The ids of the jobs whose adaptations are measured, without repetition."""
        ids = self.adaptation
        jobs = ids if isinstance(ids, tuple) else () if ids is None else (ids,)
        return tuple(dict.fromkeys(jobs))


AnySpec = PretrainSpec | ImportSpec | AdaptSpec | TheorySpec
JobSpec = Annotated[AnySpec, Field(discriminator="kind")]


class Trial(Value):
    """The hyperparameters of one trial.

    `initial_scale` multiplies the random initial values of the method's tensors.
    """

    learning_rate: float
    weight_decay: float
    initial_scale: float = 1.0


class ResolvedTraining(Value):
    """Settings of training with every `auto` replaced.

    Every seed is trained once with each of `trials`. With `halving`, the worst trials stop early.
    """

    steps: int
    batch_size: int
    trials: tuple[Trial, ...]
    schedule: Literal["cosine", "constant"]
    warmup_fraction: float
    gradient_clip: float
    precision: Precision
    base_weights: BaseWeights = "stored"
    validations: int = 0
    accumulation: int = 1
    early_stopping: EarlyStopping | None = None
    halving: Halving | None = None

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The peak learning rate of every trial."""
        return tuple(trial.learning_rate for trial in self.trials)


UPLOADED = "uploaded"
"""The alias of folders whose files are stored by the server; no model root can have it."""


class StoredModelFile(Value):
    """A file of an uploaded model folder, stored as the artifact `sha256`."""

    name: str
    sha256: str


class ModelFolder(Value):
    """The folder of an imported model or adapter, with its files.

    It is below a model root, or an uploaded one: then `stored` has all files that a worker needs.
    `origin` is where these were fetched, if they were. Until then `stored` is empty, and the
    digests in `files` are those that the hub has announced.
    """

    folder: str
    files: tuple[ModelFile, ...]
    stored: tuple[StoredModelFile, ...] = ()
    origin: HubOrigin | None = None

    @property
    def is_coming(self) -> bool:
        """True for a folder whose files have yet to be fetched."""
        return self.origin is not None and not self.stored


Kind = Literal["pretrain", "import", "adapt", "theory"]
StoredKind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*get_args(Kind)]})]
"""A kind as stored, possibly by another version with other kinds."""


class EvaluationBase(Value):
    """Another base model on which an adaptation is evaluated.

    `replicates` is the number that it has, and `folder` that of an imported model.
    """

    name: str
    digest: str
    family: dict[str, object]
    replicates: int
    folder: ModelFolder | None = None


class TaskGroup(Value):
    """A group of standard tasks, whose scores lm-eval averages.

    `tasks` are their places in `evaluation_tasks`. If `weight_by_size`, they weigh by their items;
    otherwise they are equal.
    """

    name: str
    metric: str
    weight_by_size: bool
    tasks: tuple[int, ...]


class ResolvedSpec(Value):
    """A job with every `auto` replaced, and the cost of its adaptation.

    `family`, `task`, `method`, `evaluation_tasks`, `base_tasks` and `checks` are complete plug-in
    configurations. `base_replicates` has, for each of `seeds`, the replicate of the base that it
    starts from; it is empty for pretraining. `base_tasks` are the tasks of the base's pretraining,
    scored to measure forgetting, and empty if they are unknown. `evaluation_groups` are groups of
    the evaluation tasks that have a score of their own.

    An import has a `model_folder` instead of a `task`, and no training steps. The adaptation of an
    imported `adapter` has none either; `method` describes the adapter. Theory checks have
    `checks` and no training steps. Without a base model, `family` is the family in which they build
    models. `adaptations` are measured by theory checks, with the seeds that are listed for each.
    `evaluation_bases` are other base models on which an adaptation is evaluated as well, and `mode`
    is how it is used. `dataset_origins` are the datasets of its tasks that were fetched from a hub;
    their digests alone decide the result.
    """

    # One JSON form for every kind, also if this version lacks a plug-in: it is stored, returned by
    # the API and sent to workers. `adaptlab.specs.resolved` converts it to values and back.
    spec_version: int = SPEC_VERSION
    kind: StoredKind
    base_model: str | None
    base_digest: str | None
    model_folder: ModelFolder | None = None
    adapter: ModelFolder | None = None
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
    evaluation_groups: tuple[TaskGroup, ...] = Field(
        default=(),
        exclude_if=lambda groups: not groups,
    )
    base_tasks: tuple[dict[str, object], ...] = ()
    evaluation_samples: int
    evaluation_shown: int = 0
    evaluation_bases: tuple[EvaluationBase, ...] = ()
    mode: Mode = Field(default="always_on", exclude_if=lambda mode: mode == "always_on")
    attention: AttentionSpec | None
    dataset_origins: tuple[FetchedDataset, ...] = Field(
        default=(),
        exclude_if=lambda origins: not origins,
    )
