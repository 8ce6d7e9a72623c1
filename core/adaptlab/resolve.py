"""From a spec to what will run: plug-ins checked, every `auto` decided, the budget solved."""

import hashlib
import json
from typing import TypeVar

from pydantic import ValidationError

from adaptlab.budget import BudgetVector, budget_vector, solve
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.family import FAMILIES, Family
from adaptlab.method import METHODS, Method
from adaptlab.shapes import ModelShape
from adaptlab.spec import (
    AdaptSpec,
    AttentionSpec,
    BudgetSpec,
    Choice,
    PretrainSpec,
    ResolvedSpec,
    ResolvedTraining,
    TrainingSpec,
    Trial,
)
from adaptlab.task import TASKS, Task
from adaptlab.validation import validation_problems
from adaptlab.values import AUTO, Value

P = TypeVar("P", bound=Value)


class BaseModelFacts(Value):
    """What resolving an adaptation needs to know about its base model."""

    name: str
    digest: str
    family: dict[str, object]
    task: dict[str, object]
    replicates: int


def resolve(spec: PretrainSpec | AdaptSpec, base: BaseModelFacts | None) -> ResolvedSpec:
    """The job that `spec` asks for; raises `InvalidSpec` with pointers into the spec.

    `base` describes the base model of an adaptation and is None for pretraining.
    """
    if isinstance(spec, PretrainSpec):
        return _resolve_pretraining(spec)
    if base is None:
        raise ValueError("An adaptation is resolved against the facts of its base model.")
    return _resolve_adaptation(spec, base)


def spec_digest(resolved: ResolvedSpec) -> str:
    """The SHA-256 of the canonical JSON of everything that decides the result."""
    canonical = json.dumps(resolved.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def resolve_task(choice: Choice, pointer: str) -> Task:
    """The task that `choice` names, with its knobs checked."""
    return configured(TASKS.get(choice.name, f"{pointer}/name"), choice, pointer)


def resolve_method(choice: Choice, pointer: str = "/method") -> Method:
    """The method that `choice` names, with its knobs checked but not yet sized."""
    return configured(METHODS.get(choice.name, f"{pointer}/name"), choice, pointer)


def configured(plug_in: type[P], choice: Choice, pointer: str) -> P:
    """The plug-in's own configuration, with its complaints pointed into the spec."""
    try:
        return plug_in.model_validate_json(choice.model_dump_json(), strict=True)
    except ValidationError as error:
        given = choice.model_dump(mode="json")
        raise InvalidSpec(*validation_problems(error.errors(), given, pointer)) from error


def family_shape(family: dict[str, object]) -> ModelShape:
    """The shape of a resolved family configuration."""
    return load_family(family).shape()


def load_family(family: dict[str, object]) -> Family:
    """A family configuration as it was stored."""
    return FAMILIES.get(str(family["name"])).model_validate(family)


def load_task(task: dict[str, object]) -> Task:
    """A task configuration as it was stored."""
    return TASKS.get(str(task["name"])).model_validate(task)


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


def _resolve_pretraining(spec: PretrainSpec) -> ResolvedSpec:
    task = resolve_task(spec.task, "/task")
    evaluated = _evaluation_tasks(spec, task)
    choice = configured(FAMILIES.get(spec.family.name, "/family/name"), spec.family, "/family")
    if faults := choice.problems():
        raise InvalidSpec(*faults)
    family = choice.resolved(
        max(t.vocabulary() for t in evaluated), max(t.sequence_length() for t in evaluated)
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
        budget=_whole_model(shape),
        training=_training(
            spec.training, (family.default_learning_rate,), family.default_weight_decay
        ),
        validation_samples=640,
        seeds=_seeds(spec.seeds),
        base_replicates=(),
        evaluation_tasks=tuple(t.model_dump(mode="json") for t in evaluated),
        evaluation_samples=spec.evaluation.samples,
        attention=_attention(spec, task, shape),
    )


def _resolve_adaptation(spec: AdaptSpec, base: BaseModelFacts) -> ResolvedSpec:
    shape = family_shape(base.family)
    task = resolve_task(spec.task, "/task")
    evaluated = _evaluation_tasks(spec, task)
    _check_fits(task, evaluated, shape)
    limit = budget_limit(spec.budget, shape)
    method = solve(resolve_method(spec.method), shape, limit)
    seeds = _seeds(base.replicates if spec.seeds == AUTO else spec.seeds)
    return ResolvedSpec(
        kind="adapt",
        base_model=base.name,
        base_digest=base.digest,
        family=base.family,
        task=task.model_dump(mode="json"),
        method=method.model_dump(mode="json"),
        budget=budget_vector(method, shape, limit),
        training=_training(
            spec.training,
            method.learning_rates(spec.tuning.trials),
            method.default_weight_decay,
        ),
        validation_samples=spec.tuning.validation_samples,
        seeds=seeds,
        base_replicates=tuple(index % base.replicates for index in range(len(seeds))),
        evaluation_tasks=tuple(t.model_dump(mode="json") for t in evaluated),
        evaluation_samples=spec.evaluation.samples,
        attention=_attention(spec, task, shape),
    )


def _evaluation_tasks(spec: PretrainSpec | AdaptSpec, task: Task) -> tuple[Task, ...]:
    """The tasks to score, the job's own when none is named, each with its own knobs."""
    chosen = tuple(
        resolve_task(choice, f"/evaluation/tasks/{index}")
        for index, choice in enumerate(spec.evaluation.tasks)
    )
    return chosen or (task,)


def _check_fits(task: Task, evaluated: tuple[Task, ...], shape: ModelShape) -> None:
    others = {f"/evaluation/tasks/{index}": other for index, other in enumerate(evaluated)}
    faults: list[Problem] = []
    for pointer, asked in {"/task": task, **others}.items():
        if asked == task and pointer != "/task":
            continue
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
    training: TrainingSpec, automatic_rates: tuple[float, ...], automatic_decay: float
) -> ResolvedTraining:
    rates = automatic_rates if training.learning_rate == AUTO else (training.learning_rate,)
    decay = automatic_decay if training.weight_decay == AUTO else training.weight_decay
    return ResolvedTraining(
        steps=training.steps,
        batch_size=training.batch_size,
        trials=tuple(Trial(learning_rate=rate, weight_decay=decay) for rate in rates),
        schedule=training.schedule,
        warmup_fraction=training.warmup_fraction,
        gradient_clip=training.gradient_clip,
        precision=training.precision,
        validations=training.validations,
    )


def _seeds(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


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
        if len(tokens) != task.input_length() or max(tokens) >= task.vocabulary():
            raise InvalidSpec(
                Problem(
                    pointer=f"/capture/attention/inputs/{index}",
                    code="not_an_input",
                    detail=(
                        f"An input of {task.name} has {task.input_length()} tokens "
                        f"below {task.vocabulary()}."
                    ),
                )
            )
    return attention


def _whole_model(shape: ModelShape) -> BudgetVector:
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
