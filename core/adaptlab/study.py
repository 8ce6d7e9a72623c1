"""The study spec: one question to many jobs, and the ways in which it may grow or be taken over."""

import json
from dataclasses import replace
from typing import Annotated, Literal, TypeVar, cast

from pydantic import BeforeValidator, Field, ValidationError

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.spec import (
    LARGEST_SEED,
    AnyBase,
    Budget,
    CaptureSpec,
    Choice,
    EvaluationSpec,
    Label,
    LabelName,
    Labels,
    NamedChoice,
    ResourcesSpec,
    Seeds,
    TrainingSpec,
    TuningSpec,
)
from adaptlab.validation import validation_problems
from adaptlab.values import AUTO, Auto, Name, Value

T = TypeVar("T")

SHOWABLE = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+$"
"""No control characters: terminals obey them where a CSV is printed."""
MOST_BASE_MODELS = MOST_TASKS = 16
MOST_METHODS = 64
MOST_BUDGETS = 32


class StudyMethod(Choice):
    """A method of a study, with the knobs that are given.

    `label` is its name in the comparison; without it, the method's name and the given knobs are.
    """

    label: Annotated[str, Field(max_length=120, pattern=SHOWABLE)] | None = None

    def choice(self) -> Choice:
        """What a job is asked for."""
        return Choice.model_validate(self.model_dump(exclude={"label"}))


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


NamedMethod = Annotated[
    StudyMethod, BeforeValidator(_named, json_schema_input_type=StudyMethod | str)
]
StudyBaseModels = Annotated[tuple[AnyBase, ...], Field(max_length=MOST_BASE_MODELS)]
StudyTasks = Annotated[tuple[NamedChoice, ...], Field(max_length=MOST_TASKS)]
StudyMethods = Annotated[tuple[NamedMethod, ...], Field(max_length=MOST_METHODS)]
StudyBudgets = Annotated[tuple[Budget, ...], Field(max_length=MOST_BUDGETS)]


class StudySpec(Value):
    """Every method at every budget on every task and base model, with the same effort.

    A method that a budget sizes is one job for each budget at which it comes out different. One of
    fixed size is one job, which stands at every budget that it is within; `frozen` and
    `full_finetuning` are references and stand at every budget. `methods: all` are all registered
    methods that the base model has sites for. `seeds`, `training`, `tuning`, `evaluation`,
    `capture` and `resources` are those of every job.
    """

    name: Name
    base_models: Annotated[StudyBaseModels, Field(min_length=1)]
    tasks: Annotated[StudyTasks, Field(min_length=1)]
    methods: Literal["all"] | Annotated[StudyMethods, Field(min_length=1)]
    budgets: Annotated[StudyBudgets, Field(min_length=1)]
    seeds: Seeds | Auto = AUTO
    training: TrainingSpec = TrainingSpec()
    tuning: TuningSpec = TuningSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


class StudyExtension(Value):
    """What a study is to have besides what it has; what is there already changes nothing.

    `seeds` is how many seeds there are to be in all, or further seeds. An extension by nothing
    runs again what has failed.
    """

    base_models: StudyBaseModels = ()
    tasks: StudyTasks = ()
    methods: StudyMethods = ()
    budgets: StudyBudgets = ()
    seeds: Seeds | None = None


class StudyChanges(Value):
    """The members of a study's spec that a clone has otherwise; its name always is another."""

    name: Name
    base_models: StudyBaseModels | None = None
    tasks: StudyTasks | None = None
    methods: Literal["all"] | StudyMethods | None = None
    budgets: StudyBudgets | None = None
    seeds: Seeds | Auto | None = None
    training: TrainingSpec | None = None
    tuning: TuningSpec | None = None
    evaluation: EvaluationSpec | None = None
    capture: CaptureSpec | None = None
    resources: ResourcesSpec | None = None
    labels: Labels | None = None


def base_names(spec: StudySpec) -> tuple[str, ...]:
    """The names of the base models; raises `InvalidSpec` for one that is there twice."""
    names = [base if isinstance(base, str) else base.name for base in spec.base_models]
    for index, name in enumerate(names):
        if name in names[:index]:
            detail = f"Two base models are named {name!r}; leave one out, or name it otherwise."
            raise InvalidSpec(Problem(f"/base_models/{index}", "base_model_twice", detail))
    return tuple(names)


def extended(spec: StudySpec, extension: StudyExtension) -> StudySpec:
    """The study with everything that the extension adds; raises `InvalidSpec`."""
    given: dict[str, object] = {}
    if extension.base_models:
        given["base_models"] = _joined(spec.base_models, extension.base_models)
    if extension.tasks:
        given["tasks"] = _joined(spec.tasks, extension.tasks)
    if extension.methods:
        given["methods"] = _joined(_listed(spec), extension.methods)
    if extension.budgets:
        given["budgets"] = _joined(spec.budgets, extension.budgets)
    if extension.seeds is not None:
        given["seeds"] = _more_seeds(spec.seeds, extension.seeds)
    return checked(spec.model_copy(update=given))


def at_extension(error: InvalidSpec, spec: StudySpec, extension: StudyExtension) -> InvalidSpec:
    """The faults of an extended study, with pointers to where the extension has what is faulty."""
    return InvalidSpec(*(_at(problem, spec, extension) for problem in error.problems))


def changed(spec: StudySpec, changes: StudyChanges) -> StudySpec:
    """The study with the members that `changes` gives; raises `InvalidSpec`."""
    given = {name: getattr(changes, name) for name in changes.model_fields_set}
    present = {name: value for name, value in given.items() if value is not None}
    return checked(spec.model_copy(update=present))


def checked(spec: StudySpec) -> StudySpec:
    """The spec if it keeps to the limits that one from outside has to; raises `InvalidSpec`."""
    text = spec.model_dump_json(exclude_unset=True)
    try:
        return StudySpec.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise InvalidSpec(*validation_problems(error.errors(), json.loads(text))) from error


def _listed(spec: StudySpec) -> tuple[StudyMethod, ...]:
    if spec.methods != "all":
        return spec.methods
    detail = "The study has all methods; clone it with a list to have configurations of your own."
    raise InvalidSpec(Problem("/methods", "all_methods_already", detail))


def _joined(present: tuple[T, ...], more: tuple[T, ...]) -> tuple[T, ...]:
    joined = [*present]
    for entry in more:
        if entry not in joined:
            joined.append(entry)
    return tuple(joined)


def _at(problem: Problem, spec: StudySpec, extension: StudyExtension) -> Problem:
    member, *below = problem.pointer.removeprefix("/").split("/")
    present, more = getattr(spec, member, None), getattr(extension, member, None)
    if not (isinstance(present, tuple) and isinstance(more, tuple) and below):
        return problem
    known, added = cast("tuple[object, ...]", present), cast("tuple[object, ...]", more)
    place = int(below[0]) if below[0].isdecimal() else 0
    if place < len(known):
        return problem
    index = added.index(_joined(known, added)[place])
    return replace(problem, pointer="/".join(("", member, str(index), *below[1:])))


def _more_seeds(
    present: int | tuple[int, ...] | Auto, wanted: int | tuple[int, ...]
) -> int | tuple[int, ...]:
    """The seeds in all, in an order that keeps those there are in their places."""
    if present == AUTO:
        if isinstance(wanted, int):
            return wanted
        detail = "The study has as many seeds as its base models; say how many there are to be."
        raise InvalidSpec(Problem("/seeds", "seeds_not_numbered", detail))
    known = tuple(range(present)) if isinstance(present, int) else present
    if isinstance(wanted, tuple):
        return _joined(known, wanted)
    if wanted < len(known):
        detail = f"The study has {len(known)} seeds already, and {wanted} are fewer."
        raise InvalidSpec(Problem("/seeds", "fewer_seeds", detail, nearest=(len(known),)))
    if isinstance(present, int):
        return wanted
    unused = (seed for seed in range(LARGEST_SEED) if seed not in known)
    return (*known, *(next(unused) for _ in range(wanted - len(known))))
