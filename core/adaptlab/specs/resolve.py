"""Resolution of specs: plug-ins checked, `auto` replaced, budget solved."""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.method import Method
from adaptlab.plugins.task import Task
from adaptlab.specs.base_models import (
    BaseModelFacts,
    carrying_problems,
    starting_problems,
    text_problems,
)
from adaptlab.specs.budget import Solution, budget_vector, whole_model
from adaptlab.specs.captured_attention import resolve_attention
from adaptlab.specs.choices import configured, resolve_task
from adaptlab.specs.job_tasks import at_most, evaluation_tasks, placed_tasks, task_problems
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.quantised import POINTER, quantisation_problems
from adaptlab.specs.resolved import NO_TRAINING, ResolvedAdapt, ResolvedImport, ResolvedPretrain
from adaptlab.specs.seeds import listed_seeds, starting_replicates
from adaptlab.specs.sized_method import on_task, sized_method
from adaptlab.specs.spec import AdaptSpec, ImportSpec, ModelFolder, PretrainSpec
from adaptlab.specs.trials import plain_training, tuned_training
from adaptlab.values import AUTO


@overload
def resolve(
    spec: PretrainSpec, base: None, datasets: Datasets = NO_DATASETS
) -> ResolvedPretrain: ...
@overload
def resolve(
    spec: AdaptSpec,
    base: BaseModelFacts,
    datasets: Datasets = NO_DATASETS,
    solution: Solution | None = None,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedAdapt: ...
@overload
def resolve(
    spec: PretrainSpec | AdaptSpec,
    base: BaseModelFacts | None,
    datasets: Datasets = NO_DATASETS,
    solution: Solution | None = None,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedPretrain | ResolvedAdapt: ...
def resolve(
    spec: PretrainSpec | AdaptSpec,
    base: BaseModelFacts | None,
    datasets: Datasets = NO_DATASETS,
    solution: Solution | None = None,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedPretrain | ResolvedAdapt:
    """Return the job of a spec.

    Args:
        spec: the spec as submitted.
        base: the base model of an adaptation, None for pretraining.
        datasets: the uploaded datasets that tasks may name.
        solution: the method at its budget, if the caller has already solved for it.
        others: the facts of the base models in `evaluation.base_models`, in order.

    Raises:
        InvalidSpec: the spec cannot run; the problems have pointers into the spec.
    """
    if isinstance(spec, PretrainSpec):
        return _resolve_pretraining(spec, datasets)
    if base is None:
        raise ValueError("An adaptation is resolved against the facts of its base model.")
    if spec.adapter is not None:
        raise ValueError("An imported adapter is resolved by `resolve_adapter`.")
    return _resolve_adaptation(spec, base, datasets, solution, others=others)


def resolve_import(
    spec: ImportSpec, family: Family, folder: ModelFolder, datasets: Datasets = NO_DATASETS
) -> ResolvedImport:
    """Return the import of a spec, for the model of `family` in `folder`."""
    chosen = placed_tasks(spec.evaluation, datasets)
    evaluated = evaluation_tasks(None, chosen)
    _refuse(task_problems(None, chosen, family))
    samples = at_most(spec.evaluation.samples, "test", evaluated)
    return ResolvedImport(
        model_folder=folder,
        family=family,
        budget=whole_model(family_shape(family)),
        evaluation_tasks=evaluated,
        evaluation_samples=samples,
        evaluation_shown=min(spec.evaluation.shown, samples),
    )


def resolve_adapter(
    spec: AdaptSpec,
    base: BaseModelFacts,
    method: Method,
    folder: ModelFolder,
    datasets: Datasets = NO_DATASETS,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedAdapt:
    """Return the evaluation of an adapter in a folder.

    The adapter was read as `method`.

    Raises:
        InvalidSpec: the spec cannot run, or has settings of a training.
    """
    _refuse(_settings_of_training(spec))
    cost = budget_vector(method, family_shape(base.family), None)
    single = spec.model_copy(update={"seeds": 1}) if spec.seeds == AUTO else spec
    solution = Solution(method, cost)
    return _resolve_adaptation(single, base, datasets, solution, folder, others)


def _resolve_pretraining(spec: PretrainSpec, datasets: Datasets) -> ResolvedPretrain:
    task = resolve_task(spec.task, "/task", datasets)
    _refuse(_adaptation_only(spec, task))
    chosen = placed_tasks(spec.evaluation, datasets)
    evaluated = evaluation_tasks(task, chosen)
    family = _resolved_family(spec, (task, *evaluated))
    _refuse(task_problems(task, chosen, family))
    shape, seeds = family_shape(family), listed_seeds(spec.seeds)
    samples = at_most(spec.evaluation.samples, "test", evaluated)
    return ResolvedPretrain(
        family=family,
        task=task,
        budget=whole_model(shape),
        training=plain_training(spec.training, family),
        validation_samples=at_most(640, "validation", (task,)),
        seeds=seeds,
        evaluation_tasks=evaluated,
        evaluation_samples=samples,
        evaluation_shown=min(spec.evaluation.shown, samples),
        attention=resolve_attention(spec.capture, task, shape),
    )


def _adaptation_only(spec: PretrainSpec, task: Task) -> Iterator[Problem]:
    """Yield the first setting that only adaptations have."""
    if task.classes() is not None:
        detail = (
            "A base model answers with tokens. Pretrain with `score: label_words`, and train a "
            "head when the model is adapted."
        )
        yield Problem("/task/score", "head_without_base", detail)
    elif spec.training.base_weights != "stored":
        detail = "A pretraining has no frozen base model. Leave base_weights out."
        yield Problem(POINTER, "no_base", detail, allowed=("stored",))


def _resolved_family(spec: PretrainSpec, tasks: Sequence[Task]) -> Family:
    choice = configured(FAMILIES.get(spec.family.name, "/family/name"), spec.family, "/family")
    _refuse(choice.problems())
    return choice.resolved(
        max(task.vocabulary() for task in tasks), max(task.sequence_length() for task in tasks)
    )


def _resolve_adaptation(
    spec: AdaptSpec,
    base: BaseModelFacts,
    datasets: Datasets,
    solution: Solution | None,
    adapter: ModelFolder | None = None,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedAdapt:
    task = resolve_task(spec.task, "/task", datasets)
    chosen = placed_tasks(spec.evaluation, datasets)
    evaluated = evaluation_tasks(task, chosen)
    _refuse(task_problems(task, chosen, base.family))
    if adapter is not None and task.classes() is not None:
        detail = "An imported adapter has no head for classes. Use `score: label_words`."
        raise InvalidSpec(Problem("/task/score", "no_head_in_adapter", detail))
    solution = on_task(spec, solution or sized_method(spec, task, base.family), task, base.family)
    method, shape = solution.method, family_shape(base.family, task.classes())
    _refuse(text_problems(base, method, (task, *evaluated)))
    if adapter is None:
        _refuse(starting_problems(base, method))
    _refuse(method.search_problems(task, base.family))
    _refuse(carrying_problems(base, method, (task, *evaluated), others))
    if spec.training.base_weights == "nf4":
        is_published, is_carried = base.is_published, bool(others)
        _refuse(
            quantisation_problems(method, shape, is_published=is_published, is_carried=is_carried)
        )
    seeds = listed_seeds(base.replicates if spec.seeds == AUTO else spec.seeds)
    base_tasks = _base_tasks(base, task)
    scored = (*evaluated, *(other for other in base_tasks if other not in evaluated))
    samples = at_most(spec.evaluation.samples, "test", scored)
    validated = at_most(spec.tuning.validation_samples, "validation", (task,))
    return ResolvedAdapt(
        base_model=base.name,
        base_digest=base.digest,
        family=base.family,
        task=task,
        method=method,
        adapter=adapter,
        budget=solution.budget,
        training=NO_TRAINING
        if adapter is not None
        else tuned_training(spec.training, spec.tuning, method, shape),
        selection=spec.tuning.selection,
        validation_samples=0 if adapter is not None else validated,
        seeds=seeds,
        base_replicates=starting_replicates(spec.base_replicates, len(seeds), base.replicates),
        evaluation_tasks=evaluated,
        base_tasks=base_tasks,
        evaluation_samples=samples,
        evaluation_shown=min(spec.evaluation.shown, samples),
        evaluation_bases=tuple(other.as_other() for other in others),
        mode=spec.evaluation.mode,
        attention=resolve_attention(spec.capture, task, shape),
    )


def _base_tasks(base: BaseModelFacts, task: Task) -> tuple[Task, ...]:
    """Return the tasks that may be forgotten, a mixture by its parts."""
    if base.task is None or task.classes() is not None:  # they need the head that is replaced
        return ()
    return base.task.parts()


def _settings_of_training(spec: AdaptSpec) -> Iterator[Problem]:
    """Yield a problem for each member that an imported adapter does not have."""
    for name in ("method", "budget", "training", "tuning"):
        if name in spec.model_fields_set and getattr(spec, name) is not None:
            detail = (
                f"An adapter that is imported is not trained, so {name} does not apply. Leave out "
                f"{name} or adapter."
            )
            yield Problem(f"/{name}", "given_with_adapter", detail)
    if spec.seeds != AUTO and len(listed_seeds(spec.seeds)) != 1:
        detail = "An imported adapter is one replicate. Leave seeds out, or give one seed."
        yield Problem("/seeds", "not_one_seed", detail, nearest=(1,))


def _refuse(problems: Iterable[Problem]) -> None:
    """Raise `InvalidSpec` if there are problems."""
    if listed := tuple(problems):
        raise InvalidSpec(*listed)
