"""Resolution of specs: plug-ins checked, `auto` replaced, budget solved."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar, overload

from pydantic import ValidationError

from adaptlab.errors import InvalidSpec, Problem, below
from adaptlab.figures import counted
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.family import FAMILIES, AnyFamily, Family
from adaptlab.plugins.hard_prompt import FluentPromptSearch, HardPrompt
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.images import ImageSize
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.splits import EVERY_SPLIT, Split
from adaptlab.plugins.task import TASKS, AnyTask, Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.specs.budget import BudgetVector, Solution, budget_vector, check_fit, fit, solve
from adaptlab.specs.halving import halving_problems
from adaptlab.specs.quantised import POINTER, quantisation_problems
from adaptlab.specs.resolved import (
    NO_TRAINING,
    OtherBase,
    Resolved,
    ResolvedAdapt,
    ResolvedImport,
    ResolvedPretrain,
)
from adaptlab.specs.spec import (
    AdaptSpec,
    AttentionSpec,
    BudgetSpec,
    Choice,
    Halving,
    ImportSpec,
    ModelFolder,
    PretrainSpec,
    ResolvedTraining,
    TrainingSpec,
    Trial,
)
from adaptlab.specs.trials import resolve_trials, training_problems
from adaptlab.validation import validation_problems
from adaptlab.values import AUTO, Value
from adaptlab.weights.model_folder import TOKENISER

P = TypeVar("P", bound=Value)


class BaseModelFacts(Value):
    """The facts about a base model that resolving an adaptation needs.

    `task` is the task of its pretraining, None if that is unknown. `has_tokeniser` is False if the
    model was imported from a folder without one; texts are bytes for a model that was trained here.
    `folder` is the folder of an imported model. With `is_stored`, its weights are not read there:
    earlier versions stored those of imports, too.
    """

    name: str
    digest: str
    family: AnyFamily
    task: AnyTask | None
    replicates: int
    has_tokeniser: bool = True
    folder: ModelFolder | None = None
    is_stored: bool = False

    @property
    def tokeniser(self) -> str | None:
        """The digest of the tokeniser's file; None for bytes."""
        files = () if self.folder is None else self.folder.files
        return next((file.digest for file in files if file.name == TOKENISER), None)


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
    shape = family_shape(family)
    evaluated = _evaluation_tasks(spec, None, datasets)
    _check_fits(None, evaluated, family)
    samples = _at_most(spec.evaluation.samples, "test", evaluated)
    return ResolvedImport(
        model_folder=folder,
        family=family,
        budget=whole_model(shape),
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
    if problems := tuple(_settings_of_training(spec)):
        raise InvalidSpec(*problems)
    cost = budget_vector(method, family_shape(base.family), None)
    single = spec.model_copy(update={"seeds": 1}) if spec.seeds == AUTO else spec
    solution = Solution(method, cost)
    return _resolve_adaptation(single, base, datasets, solution, folder, others)


def resolve_task(
    choice: Choice,
    pointer: str,
    datasets: Datasets = NO_DATASETS,
    *,
    splits: tuple[Split, ...] = EVERY_SPLIT,
) -> Task:
    """Return the task of a choice, checked, with its dataset looked up.

    The task must have items in all of `splits`.
    """
    task = configured(TASKS.get(choice.name, f"{pointer}/name"), choice, pointer)
    task = task.settled(datasets)
    if problems := task.problems() or task.split_problems(splits):
        raise InvalidSpec(
            *(replace(problem, pointer=pointer + problem.pointer) for problem in problems)
        )
    return task


def resolve_method(choice: Choice, pointer: str = "/method") -> Method:
    """Return the method of a choice, checked but not yet sized."""
    return configured(METHODS.get(choice.name, f"{pointer}/name"), choice, pointer)


def configured(plug_in: type[P], choice: Choice, pointer: str) -> P:
    """Return the plug-in of a choice.

    Raises:
        InvalidSpec: the plug-in does not accept the choice; pointers are into the spec.
    """
    try:
        return plug_in.model_validate_json(choice.model_dump_json(), strict=True)
    except ValidationError as error:
        document = choice.model_dump(mode="json")
        schema = plug_in.model_json_schema
        problems = validation_problems(error.errors(), document, pointer, schema)
        raise InvalidSpec(*problems) from error
    except InvalidSpec as error:  # from a plug-in among its members, with a pointer from there
        raise InvalidSpec(*below(pointer, error.problems)) from error


def family_shape(family: Family, classes: int | None = None) -> ModelShape:
    """Return the shape of a resolved family, from a cache.

    With `classes`, a head for classes is in place of the model's own.
    """
    return _shape_of(family, classes)  # pyright: ignore[reportArgumentType] - frozen, and so hashable


@lru_cache(maxsize=32)  # up to 0.5 MB each; many jobs adapt the same base model
def _shape_of(family: Family, classes: int | None) -> ModelShape:
    return family.shape() if classes is None else family.shape_with_classes(classes)


def model_shape(spec: Resolved) -> ModelShape:
    """Return the shape of a job's model, with the head that its task needs."""
    return family_shape(spec.family, None if spec.task is None else spec.task.classes())


def budget_limit(budget: BudgetSpec, shape: ModelShape) -> int | None:
    """Return the most that `budget` allows on a model, on its axis."""
    members = ("trainable_parameters", "fraction_of_base", "context_tokens")
    if sum(getattr(budget, name) is not None for name in members) > 1:
        raise InvalidSpec(
            Problem(
                pointer="/budget",
                code="ambiguous_budget",
                detail=f"Give only one of {members[0]}, {members[1]} and {members[2]}.",
                allowed=members,
            )
        )
    if budget.fraction_of_base is not None:
        return int(budget.fraction_of_base * shape.parameters)
    return budget.trainable_parameters or budget.context_tokens


def _resolve_pretraining(spec: PretrainSpec, datasets: Datasets) -> ResolvedPretrain:
    task = resolve_task(spec.task, "/task", datasets)
    if task.classes() is not None:
        detail = (
            "A base model answers with tokens. Pretrain with `score: label_words`, and train a "
            "head when the model is adapted."
        )
        raise InvalidSpec(Problem("/task/score", "head_without_base", detail))
    if spec.training.base_weights != "stored":
        detail = "A pretraining has no frozen base model. Leave base_weights out."
        raise InvalidSpec(Problem(POINTER, "no_base", detail, allowed=("stored",)))
    evaluated = _evaluation_tasks(spec, task, datasets)
    choice = configured(FAMILIES.get(spec.family.name, "/family/name"), spec.family, "/family")
    if problems := choice.problems():
        raise InvalidSpec(*problems)
    family = choice.resolved(
        max(t.vocabulary() for t in (task, *evaluated)),
        max(t.sequence_length() for t in (task, *evaluated)),
    )
    shape = family_shape(family)
    _check_fits(task, evaluated, family)
    seeds = _seeds(spec.seeds)
    samples = _at_most(spec.evaluation.samples, "test", evaluated)
    return ResolvedPretrain(
        family=family,
        task=task,
        budget=whole_model(shape),
        training=_training(spec.training, (_single_trial(spec.training, family),)),
        validation_samples=_at_most(640, "validation", (task,)),
        seeds=seeds,
        evaluation_tasks=evaluated,
        evaluation_samples=samples,
        evaluation_shown=min(spec.evaluation.shown, samples),
        attention=_attention(spec, task, shape),
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
    evaluated = _evaluation_tasks(spec, task, datasets)
    _check_fits(task, evaluated, base.family)
    if adapter is not None and task.classes() is not None:
        detail = "An imported adapter has no head for classes. Use `score: label_words`."
        raise InvalidSpec(Problem("/task/score", "no_head_in_adapter", detail))
    shape = family_shape(base.family, task.classes())
    if solution is None:
        solution = _solution(spec, shape, budget_limit(spec.budget, family_shape(base.family)))
    solution = _on_task(spec, solution, task, base.family)
    method = solution.method
    _check_reads(base, method, (task, *evaluated))
    _check_fluency(base.family, method, task)
    _check_carried(base, method, (task, *evaluated), others)
    if spec.training.base_weights == "nf4":
        _check_quantised(base, method, shape, others)
    seeds = _seeds(base.replicates if spec.seeds == AUTO else spec.seeds)
    base_tasks = () if base.task is None else base.task.parts()  # a mixture by its parts
    if task.classes() is not None:
        base_tasks = ()  # they need the head that the task's takes the place of
    scored = (*evaluated, *(other for other in base_tasks if other not in evaluated))
    samples = _at_most(spec.evaluation.samples, "test", scored)
    return ResolvedAdapt(
        base_model=base.name,
        base_digest=base.digest,
        family=base.family,
        task=task,
        method=method,
        adapter=adapter,
        budget=solution.budget,
        training=_tuned_training(spec, method, shape) if adapter is None else NO_TRAINING,
        selection=spec.tuning.selection,
        validation_samples=0
        if adapter is not None
        else _at_most(spec.tuning.validation_samples, "validation", (task,)),
        seeds=seeds,
        base_replicates=_base_replicates(spec, len(seeds), base.replicates),
        evaluation_tasks=evaluated,
        base_tasks=base_tasks,
        evaluation_samples=samples,
        evaluation_shown=min(spec.evaluation.shown, samples),
        evaluation_bases=tuple(map(_other_base, others)),
        attention=_attention(spec, task, shape),
    )


def _check_quantised(
    base: BaseModelFacts, method: Method, shape: ModelShape, others: Sequence[BaseModelFacts]
) -> None:
    """Raise `InvalidSpec` if a method cannot adapt the base in four bits."""
    is_published = base.folder is not None and not base.is_stored
    problems = quantisation_problems(
        method, shape, is_published=is_published, is_carried=bool(others)
    )
    if listed := tuple(problems):
        raise InvalidSpec(*listed)


def _settings_of_training(spec: AdaptSpec) -> Iterator[Problem]:
    """Yield a problem for each member that an imported adapter does not have."""
    for name in ("method", "budget", "training", "tuning"):
        if name in spec.model_fields_set and getattr(spec, name) is not None:
            detail = (
                f"An adapter that is imported is not trained, so {name} does not apply. Leave out "
                f"{name} or adapter."
            )
            yield Problem(f"/{name}", "given_with_adapter", detail)
    if spec.seeds != AUTO and len(_seeds(spec.seeds)) != 1:
        detail = "An imported adapter is one replicate. Leave seeds out, or give one seed."
        yield Problem("/seeds", "not_one_seed", detail, nearest=(1,))


def _tuned_training(spec: AdaptSpec, method: Method, shape: ModelShape) -> ResolvedTraining:
    trials = resolve_trials(spec.training, spec.tuning, method, shape)
    return _training(spec.training, trials, spec.tuning.halving)


def _solution(spec: AdaptSpec, shape: ModelShape, limit: int | None) -> Solution:
    if spec.method is None:
        detail = "Give a method to train, or the folder of an adapter to import."
        raise InvalidSpec(Problem("/method", "missing", detail))
    method = solve(resolve_method(spec.method), shape, limit, spec.budget.axis)
    return Solution(method, budget_vector(method, shape, limit, spec.budget.axis))


def _on_task(spec: AdaptSpec, solution: Solution, task: Task, family: Family) -> Solution:
    """Return the solution with what follows from the task.

    Raises:
        InvalidSpec: the method cannot be used for the task.
        InfeasibleBudget: it needs more for the task than the budget has.
    """
    shape, asked = family_shape(family, task.classes()), solution.budget
    method, needed = solution.method.for_task(task), content_length(family, task)
    if method is not solution.method and spec.method is not None:
        given = resolve_method(spec.method).for_task(task)
        if given.size_is_free():  # the task decides what a size costs
            method = fit(given, shape, asked.requested, asked.axis)
            method = method.fitting(task, family, needed)
    if problems := method.task_problems(task, family, needed):
        raise InvalidSpec(*problems)
    if spec.capture.attention is not None and method.moves_content:
        detail = (
            f"Attention is compared at equal positions, and {method.name} moves the question. Leave"
            " the capture out."
        )
        raise InvalidSpec(Problem("/capture/attention", "question_moves", detail))
    if method is solution.method:
        return solution
    check_fit(method, shape, asked.requested, asked.axis)
    return Solution(method, budget_vector(method, shape, asked.requested, asked.axis))


def _evaluation_tasks(
    spec: PretrainSpec | ImportSpec | AdaptSpec, task: Task | None, datasets: Datasets
) -> tuple[Task, ...]:
    """Return the tasks to score; by default the job's own task."""
    chosen = tuple(
        resolve_task(choice, f"/evaluation/tasks/{index}", datasets, splits=("test",))
        for index, choice in enumerate(spec.evaluation.tasks)
    )
    return chosen or (() if task is None else (task,))


def _at_most(samples: int, split: Split, tasks: tuple[Task, ...]) -> int:
    """Return the number of items to score, no more than any of the tasks has."""
    available = (task.available(split) for task in tasks)
    return min((samples, *(count for count in available if count is not None)))


def _check_fits(task: Task | None, evaluated: tuple[Task, ...], family: Family) -> None:
    shape = family_shape(family)
    own = {} if task is None else {"/task": task}
    others = {
        f"/evaluation/tasks/{index}": other
        for index, other in enumerate(evaluated)
        if other != task
    }
    problems: list[Problem] = []
    for pointer, scored in {**own, **others}.items():
        if unreadable := _unreadable(pointer, scored, family):
            problems.append(unreadable)
            continue
        if scored.classes() is not None:
            problems += _head_problems(pointer, scored, task, family)
        elif task is not None and task.classes() is not None:
            detail = (
                f"The task trains a head for classes, and {scored.name} needs the model's own. "
                "Leave it out."
            )
            problems.append(Problem(pointer, "other_head", detail))
        for noun, needed, available in (
            ("vocabulary", scored.vocabulary(), shape.vocabulary),
            ("context", content_length(family, scored), shape.context),
        ):
            if needed > available:
                detail = f"{scored.name} needs a {noun} of {needed}. The model has {available}."
                problems.append(Problem(pointer, f"{noun}_too_small", detail, nearest=(available,)))
        # The mask is among the tokens of texts, in the place of which answers are filled in.
        fills_in = family.fills_in() and scored.classes() is None
        fills_in = fills_in and not isinstance(scored, TextTask)
        if fills_in and scored.vocabulary() > (mask := family.mask_token()):
            detail = (
                f"{scored.name} has tokens up to {scored.vocabulary() - 1}, and {mask} is the "
                f"model's mask token. Use a task with at most {mask} tokens."
            )
            problems.append(Problem(pointer, "mask_is_a_token", detail, nearest=(mask,)))
    if problems:
        raise InvalidSpec(*problems)


def _head_problems(
    pointer: str, scored: Task, own: Task | None, family: Family
) -> Iterator[Problem]:
    """Yield the reasons why no trained head answers a task."""
    wanted, trained = scored.class_values(), () if own is None else own.class_values()
    if wanted != trained:
        listed = ", ".join(map(repr, trained[:8]))
        here = f"trains one for {listed}" if trained else "trains no head"
        detail = (
            f"{scored.name} is answered by a head for the classes "
            f"{', '.join(map(repr, wanted[:8]))}, in this order. This job {here}. "
            "Leave the task out, or train it."
        )
        yield Problem(pointer, "no_such_head", detail)
    elif not family.can_classify():
        yield Problem(pointer, "no_heads_in_family", _sees_padding(family))


def _sees_padding(family: Family) -> str:
    return (
        f"This {family.name} attends to all positions, and would also attend to what comes behind "
        "a shorter text. Use a causal model or an imported encoder."
    )


def _unreadable(pointer: str, scored: Task, family: Family) -> Problem | None:
    """Return the problem of a task that a model cannot read or answer."""
    if scored.image() != family.image():
        detail = (
            f"The items of {scored.name} are {_read_as(scored.image())}. This {family.name} reads "
            f"{_read_as(family.image())}. Use another model or another task."
        )
        return Problem(pointer, "other_items", detail)
    if scored.classes() is not None:
        return None
    if not family.predicts_tokens():
        detail = (
            f"The model has no head that predicts tokens, which {scored.name} needs. Use "
            "text_classification with `score: head`."
        )
        return Problem(pointer, "no_token_head", detail)
    if not isinstance(scored, TextTask):
        return None
    if family.fills_in():
        return _not_filled_in(pointer, scored, family)
    if scored.text_after():
        detail = (
            "The model continues the prompt and reads nothing after the answer. Leave `after` out, "
            "or use an encoder that fills masks in."
        )
        return Problem(f"{pointer}/after", "nothing_read_after", detail)
    return None


def _not_filled_in(pointer: str, scored: TextTask, family: Family) -> Problem | None:
    """Return the problem of a task that masks behind its texts do not answer."""
    if not family.can_classify():
        return Problem(pointer, "no_words_in_family", _sees_padding(family))
    if not scored.choices():
        detail = (
            f"The model fills in masks instead of continuing a text, so {scored.name} needs a "
            "decoder. Use text_classification, with label words or with `score: head`."
        )
        return Problem(pointer, "no_words_from_encoders", detail)
    if scored.has_own_choices():
        detail = (
            "The model fills in a mask for each token of a label word, and words with fields have "
            "different numbers of tokens. Use words without fields, or a decoder."
        )
        return Problem(f"{pointer}/label/words", "own_words_from_encoders", detail)
    return None


def _read_as(image: ImageSize | None) -> str:
    return "tokens" if image is None else f"images of {image} levels"


def content_length(family: Family, task: Task, length: int | None = None) -> int:
    """Return the positions of the content of an item of `length` tokens.

    By default, it is the longest item.
    """
    length = task.sequence_length() if length is None else length
    if task.classes() is not None:
        return family.positions_of(length)
    return family.content_length(length)


def _check_fluency(family: Family, method: Method, task: Task) -> None:
    """Raise `InvalidSpec` if the base gives prompts no perplexity."""
    if not isinstance(method, FluentPromptSearch) or not method.fluency:
        return
    if not family.predicts_next() or task.classes() is not None:
        detail = (
            "The fluency of a prompt is how well the base model predicts its tokens one after the "
            "other, which this model does not do with this task. Set fluency to 0."
        )
        raise InvalidSpec(Problem("/method/fluency", "no_perplexity", detail, nearest=(0,)))


def _check_reads(base: BaseModelFacts, method: Method, tasks: tuple[Task, ...]) -> None:
    """Raise `InvalidSpec` if the adapted model cannot read the texts."""
    texts = [task for task in tasks if isinstance(task, TextTask)]
    if texts and not base.has_tokeniser:
        detail = (
            f"The folder from which {base.name!r} was imported had no tokenizer.json, so the model "
            f"cannot read the texts of {texts[0].name}. Add the file and import the model again "
            "under another name."
        )
        raise InvalidSpec(Problem("/base_model", "no_tokeniser", detail))
    if texts and method.follows_question():
        detail = (
            f"{method.name} places learned positions after the question, and the questions of "
            f"{texts[0].name} differ in length. Use another method."
        )
        raise InvalidSpec(Problem("/method", "questions_differ_in_length", detail))


def _check_carried(
    base: BaseModelFacts,
    method: Method,
    tasks: tuple[Task, ...],
    others: Sequence[BaseModelFacts],
) -> None:
    """Raise `InvalidSpec` if a method cannot be carried to other bases.

    `tasks` are the job's own and those of its evaluation.
    """
    if not others:
        return
    if not method.carries:
        detail = (
            f"{method.name} trains parameters of its base model, which no other base model has. "
            "Leave evaluation.base_models out, or use a method that finds tokens, such as pez."
        )
        raise InvalidSpec(Problem("/evaluation/base_models", "not_carried", detail))
    problems: list[Problem] = []
    for index, other in enumerate(others):
        pointer = f"/evaluation/base_models/{index}"
        earlier = {one.digest: one.name for one in (*others[:index], base)}
        if other.digest in earlier:
            is_own = other.digest == base.digest
            same = "the job's own" if is_own else f"the same as {earlier[other.digest]}"
            detail = f"The base model {other.name} is {same}. Leave it out."
            problems.append(Problem(pointer, "base_model_twice", detail))
            continue
        try:
            _check_readable(base, other, method, tasks)
        except InvalidSpec as error:
            problems += [
                Problem(pointer, problem.code, f"On {other.name}: {problem.detail}")
                for problem in error.problems
            ]
    if problems:
        raise InvalidSpec(*problems)


def _check_readable(
    base: BaseModelFacts, other: BaseModelFacts, method: Method, tasks: tuple[Task, ...]
) -> None:
    """Raise `InvalidSpec` if another base cannot answer, or lacks tokens."""
    own, *_ = tasks
    if own.classes() is not None:
        detail = "The task trains a head for classes, which no other base model has."
        raise InvalidSpec(Problem("/task/score", "head_not_carried", detail))
    _check_fits(own, tasks[1:], other.family)
    _check_reads(other, method, tasks)
    needed = content_length(other.family, own)
    if problems := method.task_problems(own, other.family, needed):
        raise InvalidSpec(*problems)
    if not isinstance(method, HardPrompt):
        return
    shape, theirs = family_shape(base.family), family_shape(other.family)
    if problems := method.problems(theirs):
        raise InvalidSpec(*problems)
    is_same_text = not isinstance(own, TextTask) or base.tokeniser == other.tokeniser
    if is_same_text and theirs.vocabulary < shape.vocabulary:
        detail = (
            f"It has {theirs.vocabulary:,} tokens, and {method.name} chooses among the "
            f"{shape.vocabulary:,} of {base.name}. Use a base model with at least as many."
        )
        raise InvalidSpec(Problem("", "tokens_missing", detail))


def _other_base(other: BaseModelFacts) -> OtherBase:
    return OtherBase(
        name=other.name,
        digest=other.digest,
        family=other.family,
        replicates=other.replicates,
        folder=other.folder,
    )


def _training(
    training: TrainingSpec, trials: tuple[Trial, ...], halving: Halving | None = None
) -> ResolvedTraining:
    """Return the resolved training with its trials."""
    halved = halving_problems(training.steps, len(trials), halving)
    if problems := (*training_problems(training), *halved):
        raise InvalidSpec(*problems)
    return ResolvedTraining(
        trials=trials,
        halving=halving,
        **training.model_dump(exclude={"learning_rate", "weight_decay"}),
    )


def _single_trial(training: TrainingSpec, family: Family) -> Trial:
    """Return the single trial of pretraining, by default the family's."""
    rate, decay = training.learning_rate, training.weight_decay
    return Trial(
        learning_rate=family.default_learning_rate if rate == AUTO else rate,
        weight_decay=family.default_weight_decay if decay == AUTO else decay,
    )


def _seeds(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


def _base_replicates(spec: AdaptSpec, seeds: int, available: int) -> tuple[int, ...]:
    """Return the replicate of the base that each seed starts from."""
    chosen = spec.base_replicates
    if chosen == AUTO:
        return tuple(index % available for index in range(seeds))
    if len(chosen) != seeds:
        replicates = counted(len(chosen), "base replicate")
        detail = f"The spec has {replicates} for {counted(seeds, 'seed')}. Give one per seed."
        raise InvalidSpec(Problem("/base_replicates", "not_one_a_seed", detail, nearest=(seeds,)))
    for index, replicate in enumerate(chosen):
        if replicate >= available:
            detail = (
                f"There is no replicate {replicate}. The base model has "
                f"{counted(available, 'replicate')}, counted from 0."
            )
            pointer = f"/base_replicates/{index}"
            raise InvalidSpec(
                Problem(pointer, "no_such_replicate", detail, nearest=(available - 1,))
            )
    return chosen


def _attention(
    spec: PretrainSpec | AdaptSpec, task: Task, shape: ModelShape
) -> AttentionSpec | None:
    """Return the checked spec of attention capture."""
    attention = spec.capture.attention
    if attention and not (shape.layers and shape.heads):
        detail = (
            "Attention maps need attention with the same number of heads in every layer, which "
            f"this {shape.family} lacks. Leave the capture out."
        )
        raise InvalidSpec(Problem("/capture/attention", "no_attention_to_capture", detail))
    if attention and isinstance(task, TextTask | ImageTask):
        _check_recorded(attention, task)
    for index, tokens in enumerate(attention.inputs if attention else ()):
        if detail := task.input_error(tokens):
            pointer = f"/capture/attention/inputs/{index}"
            raise InvalidSpec(Problem(pointer, "not_an_input", detail))
    return attention


def _check_recorded(attention: AttentionSpec, task: TextTask | ImageTask) -> None:
    """Raise `InvalidSpec` unless the recorded items are test items."""
    if attention.inputs:
        is_text = isinstance(task, TextTask)
        items = "records of its dataset" if is_text else "images of its own"
        detail = (
            f"The items of {task.name} are {items}, so inputs cannot be given. Leave them out to "
            "record the first test items."
        )
        code = "inputs_of_texts" if is_text else "inputs_of_images"
        raise InvalidSpec(Problem("/capture/attention/inputs", code, detail))
    most = task.available("test")
    if not 1 <= attention.samples <= most:
        detail = f"The test split has {counted(most, 'item')}. Record at least one of them."
        nearest = (min(max(attention.samples, 1), most),)
        pointer = "/capture/attention/samples"
        raise InvalidSpec(Problem(pointer, "no_such_items", detail, nearest=nearest))


def whole_model(shape: ModelShape) -> BudgetVector:
    """Return the cost of a model that is trained as a whole."""
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
