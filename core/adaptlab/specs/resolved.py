"""Resolved specs as values, one class per kind of job.

`ResolvedSpec` is their JSON form, which is stored, returned by the API and sent to workers. Only
the functions in this module convert between the two.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, AliasPath, Field, TypeAdapter, ValidationError

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.adaptation import Adaptation
from adaptlab.plugins.dataset import AnyReference
from adaptlab.plugins.family import AnyFamily
from adaptlab.plugins.method import AnyMethod
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import AnyTask
from adaptlab.plugins.theory_check import AnyTheoryCheck, MeasuredAdaptation
from adaptlab.specs.budget import BudgetVector
from adaptlab.specs.spec import (
    AttentionSpec,
    EvaluationBase,
    Mode,
    ModelFolder,
    Precision,
    ResolvedSpec,
    ResolvedTraining,
    Selection,
    Trial,
)
from adaptlab.specs.task_groups import task_groups
from adaptlab.validation import validation_problems
from adaptlab.values import Value

CheckpointKind = Literal["base_model", "adapter"]

UNTRAINED = Trial(learning_rate=0, weight_decay=0)
"""The single trial of a job that trains nothing."""


class _Job(Value):
    """The common members of all kinds of jobs.

    A member that a kind does not have is a constant of its class: `None` or empty.
    """

    family: AnyFamily
    budget: BudgetVector


class _Scored(_Job):
    """A job whose model is scored on test items of `evaluation_tasks`."""

    evaluation_tasks: tuple[AnyTask, ...]
    evaluation_samples: int
    evaluation_shown: int = 0


class _Trained(_Scored):
    """A job that trains a task, once for every seed and trial."""

    task: AnyTask
    training: ResolvedTraining
    validation_samples: int
    seeds: tuple[int, ...]
    attention: AttentionSpec | None

    model_folder: ClassVar[None] = None
    checks: ClassVar[tuple[AnyTheoryCheck, ...]] = ()
    adaptations: ClassVar[tuple[MeasuredAdaptation, ...]] = ()

    @property
    def trains(self) -> bool:
        """False for an imported adapter, which has no training steps."""
        return self.training.steps > 0

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials that every seed is trained with."""
        return self.training.trials

    @property
    def precision(self) -> Precision:
        """The precision of the arithmetic."""
        return self.training.precision

    @property
    def test_items(self) -> int:
        """The test items of the job's own task that are scored."""
        return self.task.at_most("test", self.evaluation_samples)

    @property
    def quantises(self) -> bool:
        """True if the base's matrices have four bits per number."""
        return self.training.base_weights == "nf4"


class _Untrained(Value):
    """A job that trains nothing and measures a single replicate."""

    task: ClassVar[None] = None
    method: ClassVar[None] = None
    adapter: ClassVar[None] = None
    training: ClassVar[None] = None
    trains: ClassVar[bool] = False
    attention: ClassVar[None] = None
    trials: ClassVar[tuple[Trial, ...]] = (UNTRAINED,)
    precision: ClassVar[Precision] = "float32"
    quantises: ClassVar[bool] = False
    base_tasks: ClassVar[tuple[AnyTask, ...]] = ()


class ResolvedPretrain(_Trained):
    """The training of a base model from scratch."""

    kind: Literal["pretrain"] = "pretrain"
    checkpoint_kind: ClassVar[CheckpointKind] = "base_model"
    base_model: ClassVar[None] = None
    base_digest: ClassVar[None] = None
    method: ClassVar[None] = None
    adapter: ClassVar[None] = None
    selection: ClassVar[Selection] = "per_seed"
    base_replicates: ClassVar[tuple[int, ...]] = ()
    base_tasks: ClassVar[tuple[AnyTask, ...]] = ()


class OtherBase(Value):
    """Another base model on which an adaptation is evaluated.

    See `EvaluationBase`, its JSON form.
    """

    name: str
    digest: str
    family: AnyFamily
    replicates: int
    folder: ModelFolder | None = None


class ResolvedAdapt(_Trained):
    """An adaptation of a base model.

    `base_replicates` has, for each seed, the replicate of the base that it starts from.
    `base_tasks` are the tasks of the base's pretraining, empty if they are unknown.
    `evaluation_bases` are other base models on which it is evaluated. `adapter` is the folder of an
    adapter that is evaluated and not trained; `method` is derived from it.
    """

    kind: Literal["adapt"] = "adapt"
    checkpoint_kind: ClassVar[CheckpointKind] = "adapter"
    base_model: str
    base_digest: str | None
    method: AnyMethod
    adapter: ModelFolder | None = None
    selection: Selection = "per_seed"
    base_replicates: tuple[int, ...]
    base_tasks: tuple[AnyTask, ...] = ()
    evaluation_bases: tuple[OtherBase, ...] = ()
    mode: Mode = "always_on"

    def on(self, other: OtherBase) -> "ResolvedAdapt":
        """Return the job as if it had another base model.

        It records no attention and shows no answers.
        """
        changes = {
            "base_model": other.name,
            "base_digest": other.digest,
            "family": other.family,
            "base_replicates": tuple(place % other.replicates for place in self.base_replicates),
            "base_tasks": (),
            "evaluation_bases": (),
            "evaluation_shown": 0,
            "attention": None,
        }
        return self.model_copy(update=changes)


class ResolvedImport(_Untrained, _Scored):
    """The import of a published model from a folder as a base model.

    Its weights stay in the folder; jobs that use it read them there.
    """

    kind: Literal["import"] = "import"
    checkpoint_kind: ClassVar[None] = None
    model_folder: ModelFolder
    base_model: ClassVar[None] = None
    base_digest: ClassVar[None] = None
    checks: ClassVar[tuple[AnyTheoryCheck, ...]] = ()
    adaptations: ClassVar[tuple[MeasuredAdaptation, ...]] = ()
    seeds: ClassVar[tuple[int, ...]] = (0,)
    base_replicates: ClassVar[tuple[int, ...]] = ()


class ResolvedTheory(_Untrained, _Job):
    """Theory checks of a base model and of `adaptations`.

    Without a base model, `family` is the family in which checks build their own; with one,
    `base_replicates` are those that are measured. `seed` determines everything random.
    """

    kind: Literal["theory"] = "theory"
    checkpoint_kind: ClassVar[None] = None
    base_model: str | None
    base_digest: str | None
    checks: tuple[AnyTheoryCheck, ...]
    adaptations: tuple[MeasuredAdaptation, ...] = ()
    base_replicates: tuple[int, ...]
    seed: Annotated[int, Field(validation_alias=AliasChoices("seed", AliasPath("seeds", 0)))]
    model_folder: ClassVar[None] = None
    evaluation_tasks: ClassVar[tuple[AnyTask, ...]] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed, in a tuple as for the other kinds."""
        return (self.seed,)


Trained = ResolvedPretrain | ResolvedAdapt
"""A job that trains."""

Resolved = ResolvedPretrain | ResolvedImport | ResolvedAdapt | ResolvedTheory


@dataclass(frozen=True, slots=True)
class UnreadSpec:
    """A resolved spec with a plug-in or kind that this installation lacks."""

    document: ResolvedSpec
    problems: tuple[Problem, ...]

    @property
    def text(self) -> str:
        """The missing parts, as sentences."""
        return " ".join(problem.detail for problem in self.problems)


_RESOLVED: TypeAdapter[Resolved] = TypeAdapter(Annotated[Resolved, Field(discriminator="kind")])


def read_resolved(document: ResolvedSpec) -> Resolved | UnreadSpec:
    """Return the job of a stored or received document."""
    try:
        return _RESOLVED.validate_python(document, from_attributes=True)
    except InvalidSpec as error:
        return UnreadSpec(document, error.problems)
    except ValidationError as error:
        members = document.model_dump(mode="json")
        return UnreadSpec(document, validation_problems(error.errors(), members))


def readable(document: ResolvedSpec) -> Resolved:
    """Return the job of a stored or received document.

    Raises:
        InvalidSpec: this installation cannot read it.
    """
    job = read_resolved(document)
    if isinstance(job, UnreadSpec):
        raise InvalidSpec(*job.problems)
    return job


def write_resolved(resolved: Resolved) -> ResolvedSpec:
    """Return the JSON form of a job.

    Members that its kind lacks are 0, null or empty.
    """
    trained = None if resolved.training is None else resolved
    scored = None if isinstance(resolved, ResolvedTheory) else resolved
    return ResolvedSpec(
        kind=resolved.kind,
        base_model=resolved.base_model,
        base_digest=resolved.base_digest,
        model_folder=resolved.model_folder,
        adapter=resolved.adapter,
        checks=tuple(map(as_json, resolved.checks)),
        adaptations=tuple(map(_adaptation, resolved.adaptations)),
        family=as_json(resolved.family),
        task=None if resolved.task is None else as_json(resolved.task),
        method=None if resolved.method is None else as_json(resolved.method),
        budget=resolved.budget,
        training=NO_TRAINING if trained is None else trained.training,
        selection="per_seed" if trained is None else trained.selection,
        validation_samples=0 if trained is None else trained.validation_samples,
        seeds=resolved.seeds,
        base_replicates=resolved.base_replicates,
        evaluation_tasks=tuple(map(as_json, resolved.evaluation_tasks)),
        evaluation_groups=task_groups(resolved.evaluation_tasks),
        base_tasks=tuple(map(as_json, resolved.base_tasks)),
        evaluation_samples=0 if scored is None else scored.evaluation_samples,
        evaluation_shown=0 if scored is None else scored.evaluation_shown,
        evaluation_bases=tuple(map(_evaluation_base, evaluation_bases(resolved))),
        mode=resolved.mode if isinstance(resolved, ResolvedAdapt) else "always_on",
        attention=resolved.attention,
    )


NO_TRAINING = ResolvedTraining(
    steps=0,
    batch_size=0,
    trials=(UNTRAINED,),
    schedule="constant",
    warmup_fraction=0,
    gradient_clip=0,
    precision="float32",
)
"""The training of a job without training steps."""


def evaluation_bases(resolved: Resolved) -> tuple[OtherBase, ...]:
    """Return the other base models on which a job is evaluated."""
    return resolved.evaluation_bases if isinstance(resolved, ResolvedAdapt) else ()


def _evaluation_base(other: OtherBase) -> EvaluationBase:
    return EvaluationBase(
        name=other.name,
        digest=other.digest,
        family=as_json(other.family),
        replicates=other.replicates,
        folder=other.folder,
    )


def _adaptation(measured: MeasuredAdaptation) -> Adaptation:
    return Adaptation.model_validate(measured.model_dump())


def spec_digest(resolved: Resolved | ResolvedSpec) -> str:
    """Return the SHA-256 of everything that determines the result.

    It is computed from canonical JSON without the budget, because the cost follows from the method,
    and without the number of shown items. Two budgets that lead to the same configuration lead to
    the same training.
    """
    document = resolved if isinstance(resolved, ResolvedSpec) else write_resolved(resolved)
    jobs = {"__all__": {"job"}}  # equal specs give equal adaptations, whatever the job's id
    # Shown items are only a record of what was scored; groups and mode say what is made of it.
    # Digests of datasets and folders decide, from wherever their files came.
    names = ("budget", "evaluation_shown", "evaluation_groups", "mode", "dataset_origins")
    only_read = dict.fromkeys(names, True)
    left_out = {**only_read, "adaptations": jobs}
    deciding = document.model_dump(mode="json", exclude=left_out)
    for later in ("checks", "adaptations", "adapter", "evaluation_bases"):
        if not deciding[later]:  # older jobs, which lack these members, keep their digests
            del deciding[later]
    if deciding["training"]["base_weights"] == "stored":  # likewise
        del deciding["training"]["base_weights"]
    for place in ("model_folder", "adapter"):
        folder = deciding.get(place)
        if folder and not folder["stored"]:  # likewise, for folders below model roots
            del folder["stored"]
    others = [other.get("folder") for other in deciding.get("evaluation_bases", ())]
    for folder in filter(None, (deciding.get("model_folder"), deciding.get("adapter"), *others)):
        del folder["origin"]
    canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def seedless_digest(resolved: Resolved | ResolvedSpec) -> str:
    """Return the digest of everything but seeds that determines the result."""
    document = resolved if isinstance(resolved, ResolvedSpec) else write_resolved(resolved)
    return spec_digest(document.model_copy(update={"seeds": (), "base_replicates": ()}))


def scored_tasks(resolved: Resolved) -> tuple[AnyTask, ...]:
    """Return the evaluation tasks and the base's tasks, without repetition."""
    tasks: list[AnyTask] = []
    for task in (*resolved.evaluation_tasks, *resolved.base_tasks):
        if task not in tasks:
            tasks.append(task)
    return tuple(tasks)


def tasks_of(resolved: Resolved) -> tuple[AnyTask, ...]:
    """Return the job's own task, those that are scored, and those of checks."""
    own = () if resolved.task is None else (resolved.task,)
    of_checks = (task for check in resolved.checks for task in check.own_tasks())
    return (*own, *scored_tasks(resolved), *of_checks)


def datasets_of(resolved: Resolved) -> tuple[AnyReference, ...]:
    """Return the uploaded datasets of the job's tasks, without repetition."""
    needed = (dataset for task in tasks_of(resolved) for dataset in task.datasets())
    return tuple({dataset.digest: dataset for dataset in needed}.values())
