"""From a spec to what will run: plug-ins checked, every `auto` decided, the budget solved."""

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from pydantic import ValidationError

from adaptlab.budget import BudgetVector, Solution, budget_vector, solve
from adaptlab.dataset import NO_DATASETS, DatasetReference, Datasets
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.family import FAMILIES, Family
from adaptlab.halving import halving_problems
from adaptlab.method import METHODS, Method
from adaptlab.shapes import ModelShape
from adaptlab.spec import (
    AdaptSpec,
    AttentionSpec,
    BudgetSpec,
    Choice,
    Halving,
    ImportSpec,
    ModelFolder,
    PretrainSpec,
    ResolvedSpec,
    ResolvedTraining,
    TrainingSpec,
    Trial,
)
from adaptlab.splits import EVERY_SPLIT, Split
from adaptlab.task import TASKS, Task
from adaptlab.trials import resolve_trials, training_problems
from adaptlab.validation import validation_problems
from adaptlab.values import AUTO, Value

P = TypeVar("P", bound=Value)


class BaseModelFacts(Value):
    """What resolving an adaptation needs to know about its base model.

    `task` is what it was pretrained on, None where that is not known.
    """

    name: str
    digest: str
    family: dict[str, object]
    task: dict[str, object] | None
    replicates: int


def resolve(
    spec: PretrainSpec | AdaptSpec,
    base: BaseModelFacts | None,
    datasets: Datasets = NO_DATASETS,
    solution: Solution | None = None,
) -> ResolvedSpec:
    """The job that `spec` asks for; raises `InvalidSpec` with pointers into the spec.

    `base` describes the base model of an adaptation and is None for pretraining; `datasets` are
    what tasks may name. `solution` is the method of an adaptation at its budget, where the caller
    has solved it already.
    """
    if isinstance(spec, PretrainSpec):
        return _resolve_pretraining(spec, datasets)
    if base is None:
        raise ValueError("An adaptation is resolved against the facts of its base model.")
    return _resolve_adaptation(spec, base, datasets, solution)


def resolve_import(
    spec: ImportSpec, family: Family, folder: ModelFolder, datasets: Datasets = NO_DATASETS
) -> ResolvedSpec:
    """The import that `spec` asks for, of the model of `family` that was found in `folder`."""
    shape = family.shape()
    evaluated = _evaluation_tasks(spec, None, datasets)
    _check_fits(None, evaluated, shape)
    return ResolvedSpec(
        kind="import",
        base_model=None,
        base_digest=None,
        model_folder=folder,
        family=family.model_dump(mode="json"),
        task=None,
        method=None,
        budget=whole_model(shape),
        training=NO_TRAINING,
        validation_samples=0,
        seeds=(0,),
        base_replicates=(),
        evaluation_tasks=tuple(t.model_dump(mode="json") for t in evaluated),
        evaluation_samples=spec.evaluation.samples,
        attention=None,
    )


def spec_digest(resolved: ResolvedSpec) -> str:
    """The SHA-256 of the canonical JSON of everything that decides the result.

    The budget does not: what it costs follows from the method, and two limits under which a method
    comes out the same are one training.
    """
    jobs = {"__all__": {"job"}}  # equal specs make equal adaptations, whichever job did
    deciding = resolved.model_dump(mode="json", exclude={"budget": True, "adaptations": jobs})
    for later in ("checks", "adaptations"):
        if not deciding[later]:  # so that jobs from before there were any keep their digests
            del deciding[later]
    canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def resolve_task(
    choice: Choice,
    pointer: str,
    datasets: Datasets = NO_DATASETS,
    *,
    splits: tuple[Split, ...] = EVERY_SPLIT,
) -> Task:
    """The task that `choice` names, with its knobs checked and its dataset looked up.

    It has items in all of `splits`.
    """
    task = configured(TASKS.get(choice.name, f"{pointer}/name"), choice, pointer)
    task = task.settled(datasets)
    if faults := task.problems() or task.split_problems(splits):
        raise InvalidSpec(*(replace(fault, pointer=pointer + fault.pointer) for fault in faults))
    return task


def resolve_method(choice: Choice, pointer: str = "/method") -> Method:
    """The method that `choice` names, with its knobs checked but not yet sized."""
    return configured(METHODS.get(choice.name, f"{pointer}/name"), choice, pointer)


def configured(plug_in: type[P], choice: Choice, pointer: str) -> P:
    """The plug-in's own configuration, with its complaints pointed into the spec."""
    try:
        return plug_in.model_validate_json(choice.model_dump_json(), strict=True)
    except ValidationError as error:
        given = choice.model_dump(mode="json")
        schema = plug_in.model_json_schema
        raise InvalidSpec(*validation_problems(error.errors(), given, pointer, schema)) from error


def family_shape(family: dict[str, object]) -> ModelShape:
    """The shape of a resolved family configuration; others that ask for it get the same one."""
    loaded = load_family(family)
    return _shape_of(type(loaded), loaded.model_dump_json())


@lru_cache(maxsize=32)  # half a megabyte of the deepest; many jobs adapt the same base model
def _shape_of(family: type[Family], configuration: str) -> ModelShape:
    return family.model_validate_json(configuration).shape()


def load_family(family: dict[str, object]) -> Family:
    """A family configuration as it was stored."""
    return FAMILIES.get(str(family["name"])).model_validate(family)


def load_task(task: dict[str, object]) -> Task:
    """A task configuration as it was stored."""
    return TASKS.get(str(task["name"])).model_validate(task)


def datasets_of(resolved: ResolvedSpec) -> tuple[DatasetReference, ...]:
    """The uploaded datasets whose content the job's tasks need, each once."""
    documents = (*(() if resolved.task is None else (resolved.task,)), *resolved.scored_tasks)
    needed = (one for document in documents for one in load_task(document).datasets())
    return tuple({one.digest: one for one in needed}.values())


def load_method(method: dict[str, object]) -> Method:
    """A method configuration as it was stored."""
    return METHODS.get(str(method["name"])).model_validate_json(json.dumps(method))


def budget_limit(budget: BudgetSpec, shape: ModelShape) -> int | None:
    """The largest number of trainable parameters that `budget` allows on this model."""
    if budget.trainable_parameters is not None and budget.fraction_of_base is not None:
        raise InvalidSpec(
            Problem(
                pointer="/budget",
                code="ambiguous_budget",
                detail="Give either trainable_parameters or fraction_of_base, not both.",
                allowed=("trainable_parameters", "fraction_of_base"),
            )
        )
    if budget.fraction_of_base is not None:
        return int(budget.fraction_of_base * shape.parameters)
    return budget.trainable_parameters


def _resolve_pretraining(spec: PretrainSpec, datasets: Datasets) -> ResolvedSpec:
    task = resolve_task(spec.task, "/task", datasets)
    evaluated = _evaluation_tasks(spec, task, datasets)
    choice = configured(FAMILIES.get(spec.family.name, "/family/name"), spec.family, "/family")
    if faults := choice.problems():
        raise InvalidSpec(*faults)
    family = choice.resolved(
        max(t.vocabulary() for t in (task, *evaluated)),
        max(t.sequence_length() for t in (task, *evaluated)),
    )
    shape = family.shape()
    _check_fits(task, evaluated, shape)
    return ResolvedSpec(
        kind="pretrain",
        base_model=None,
        base_digest=None,
        family=family.model_dump(mode="json"),
        task=task.model_dump(mode="json"),
        method=None,
        budget=whole_model(shape),
        training=_training(spec.training, (_single_trial(spec.training, family),)),
        validation_samples=640,
        seeds=_seeds(spec.seeds),
        base_replicates=(),
        evaluation_tasks=tuple(t.model_dump(mode="json") for t in evaluated),
        evaluation_samples=spec.evaluation.samples,
        attention=_attention(spec, task, shape),
    )


def _resolve_adaptation(
    spec: AdaptSpec, base: BaseModelFacts, datasets: Datasets, solution: Solution | None
) -> ResolvedSpec:
    shape = family_shape(base.family)
    task = resolve_task(spec.task, "/task", datasets)
    evaluated = _evaluation_tasks(spec, task, datasets)
    _check_fits(task, evaluated, shape)
    if solution is None:
        solution = _solution(spec, shape)
    method = solution.method
    seeds = _seeds(base.replicates if spec.seeds == AUTO else spec.seeds)
    return ResolvedSpec(
        kind="adapt",
        base_model=base.name,
        base_digest=base.digest,
        family=base.family,
        task=task.model_dump(mode="json"),
        method=method.model_dump(mode="json"),
        budget=solution.budget,
        training=_training(
            spec.training,
            resolve_trials(spec.training, spec.tuning, method, shape),
            spec.tuning.halving,
        ),
        selection=spec.tuning.selection,
        validation_samples=spec.tuning.validation_samples,
        seeds=seeds,
        base_replicates=_base_replicates(spec, len(seeds), base.replicates),
        evaluation_tasks=tuple(t.model_dump(mode="json") for t in evaluated),
        base_tasks=_own_tasks(base),
        evaluation_samples=spec.evaluation.samples,
        attention=_attention(spec, task, shape),
    )


def _solution(spec: AdaptSpec, shape: ModelShape) -> Solution:
    limit = budget_limit(spec.budget, shape)
    method = solve(resolve_method(spec.method), shape, limit)
    return Solution(method, budget_vector(method, shape, limit))


def _own_tasks(base: BaseModelFacts) -> tuple[dict[str, object], ...]:
    """What the base was pretrained on, a mixture by its parts; none where that is not known."""
    if base.task is None:
        return ()
    return tuple(part.model_dump(mode="json") for part in load_task(base.task).parts())


NO_TRAINING = ResolvedTraining(
    steps=0,
    batch_size=0,
    trials=(Trial(learning_rate=0, weight_decay=0),),
    schedule="constant",
    warmup_fraction=0,
    gradient_clip=0,
    precision="float32",
)
"""Of an import: its one replicate is what stands in the folder. Of theory checks as well."""


def _evaluation_tasks(
    spec: PretrainSpec | ImportSpec | AdaptSpec, task: Task | None, datasets: Datasets
) -> tuple[Task, ...]:
    """The tasks to score, the job's own when none is named, each with its own knobs."""
    chosen = tuple(
        resolve_task(choice, f"/evaluation/tasks/{index}", datasets, splits=("test",))
        for index, choice in enumerate(spec.evaluation.tasks)
    )
    return chosen or (() if task is None else (task,))


def _check_fits(task: Task | None, evaluated: tuple[Task, ...], shape: ModelShape) -> None:
    own = {} if task is None else {"/task": task}
    others = {
        f"/evaluation/tasks/{index}": other
        for index, other in enumerate(evaluated)
        if other != task
    }
    faults: list[Problem] = []
    for pointer, asked in {**own, **others}.items():
        for what, needed, available in (
            ("vocabulary", asked.vocabulary(), shape.vocabulary),
            ("context", asked.sequence_length(), shape.context),
        ):
            if needed > available:
                detail = f"{asked.name} needs a {what} of {needed}; the model has {available}."
                faults.append(Problem(pointer, f"{what}_too_small", detail, nearest=(available,)))
    if faults:
        raise InvalidSpec(*faults)


def _training(
    training: TrainingSpec, trials: tuple[Trial, ...], halving: Halving | None = None
) -> ResolvedTraining:
    """The training as asked for, with what is tried for every seed."""
    halved = halving_problems(training.steps, len(trials), halving)
    if faults := (*training_problems(training), *halved):
        raise InvalidSpec(*faults)
    return ResolvedTraining(
        trials=trials,
        halving=halving,
        **training.model_dump(exclude={"learning_rate", "weight_decay"}),
    )


def _single_trial(training: TrainingSpec, family: Family) -> Trial:
    """Pretraining tries nothing: the rate and decay as given, or the family's own."""
    rate, decay = training.learning_rate, training.weight_decay
    return Trial(
        learning_rate=family.default_learning_rate if rate == AUTO else rate,
        weight_decay=family.default_weight_decay if decay == AUTO else decay,
    )


def _seeds(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


def _base_replicates(spec: AdaptSpec, seeds: int, available: int) -> tuple[int, ...]:
    """The replicate of the base that each seed starts from."""
    chosen = spec.base_replicates
    if chosen == AUTO:
        return tuple(index % available for index in range(seeds))
    if len(chosen) != seeds:
        detail = f"There are {len(chosen)} replicates of the base for {seeds} seeds; give one each."
        raise InvalidSpec(Problem("/base_replicates", "not_one_a_seed", detail, nearest=(seeds,)))
    for index, replicate in enumerate(chosen):
        if replicate >= available:
            detail = f"The base model has {available} replicates, counted from 0, no {replicate}."
            pointer = f"/base_replicates/{index}"
            raise InvalidSpec(
                Problem(pointer, "no_such_replicate", detail, nearest=(available - 1,))
            )
    return chosen


def _attention(
    spec: PretrainSpec | AdaptSpec, task: Task, shape: ModelShape
) -> AttentionSpec | None:
    """The capture as asked for; given inputs must be questions of the task."""
    attention = spec.capture.attention
    if attention and not (shape.layers and shape.heads):
        detail = (
            f"This {shape.family} has no attention, or not as many heads in every layer, as a map "
            "needs; leave the capture out."
        )
        raise InvalidSpec(Problem("/capture/attention", "no_attention_to_capture", detail))
    for index, tokens in enumerate(attention.inputs if attention else ()):
        if len(tokens) != task.input_length() or max(tokens) >= task.input_alphabet():
            raise InvalidSpec(
                Problem(
                    pointer=f"/capture/attention/inputs/{index}",
                    code="not_an_input",
                    detail=(
                        f"An input of {task.name} has {task.input_length()} tokens "
                        f"below {task.input_alphabet()}."
                    ),
                )
            )
    return attention


def whole_model(shape: ModelShape) -> BudgetVector:
    """What a model costs of which everything is trained."""
    tensors = {name: tensor.size for name, tensor in shape.tensors.items()}
    return BudgetVector(
        requested=None,
        trainable_parameters=shape.parameters,
        gap=None,
        stored_bytes=4 * shape.parameters,
        extra_context_tokens=0,
        flops_per_token=shape.forward_flops_per_token(),
        tensors=tensors,
    )
