"""The study spec: one question to many jobs, and the ways in which it may grow or be taken over."""

import json
from dataclasses import replace
from typing import Annotated, Literal, Self, TypeVar, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import (
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
MOST_CHECKS = 64
OF_CELLS = ("tasks", "methods", "budgets")
"""What a study has all of, or none of if it has theory checks alone."""

ShownLabel = Annotated[str, Field(max_length=120, pattern=SHOWABLE)]


class TrainingOverrides(TrainingSpec):
    """Members of the study's training that one method has otherwise; only those given count."""


class TuningOverrides(TuningSpec):
    """Members of the study's tuning that one method has otherwise; only those given count."""


class StudyMethod(Choice):
    """A method of a study, with the knobs that are given.

    `label` is its name in the comparison; without it, the method's name and the given knobs are.
    Members given in `training` and `tuning` replace the study's for this method, which the
    comparison then says. `tasks` and `base_models`, some of the study's, are the only ones on
    which it runs.
    """

    label: ShownLabel | None = None
    training: TrainingOverrides | None = None
    tuning: TuningOverrides | None = None
    tasks: Annotated[tuple[NamedChoice, ...], Field(min_length=1, max_length=MOST_TASKS)] | None = (
        None
    )
    base_models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_BASE_MODELS)] | (
        None
    ) = None

    def choice(self) -> Choice:
        """What a job is asked for."""
        return Choice.model_validate(self.model_dump(include={"name"}) | (self.model_extra or {}))


class StudyCheck(Choice):
    """A theory check of a study, with the knobs that are given; one job for whatever it measures.

    One that measures base models measures each of `base_models`, all of the study's by default.
    One that measures adaptations measures those by the method that is labelled `of`, at every
    budget at which it comes out different, only at `budget`, on `task` and on `base_models` where
    they are given; each on its own or, with `together`, all of one base model in one job.
    `replicates` is of how many seeds of each. `label` is its name in the study; without it, the
    check's name and the given knobs are.
    """

    label: ShownLabel | None = None
    base_models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_BASE_MODELS)] | (
        None
    ) = None
    of: ShownLabel | None = None
    task: NamedChoice | None = None
    budget: Budget | None = None
    together: bool = False
    replicates: Annotated[int, Field(ge=1, le=64)] | Literal["all"] = "all"

    def choice(self) -> Choice:
        """What a job is asked for."""
        return Choice.model_validate(self.model_dump(include={"name"}) | (self.model_extra or {}))


def _form(value: object) -> str:
    """A bare name is short for `{name: …}`."""
    return "short" if isinstance(value, str) else "whole"


def _named(name: object) -> object:
    return {"name": name} if isinstance(name, str) else name


# Only the short form goes through a function: what has, strict validation takes for Python's and
# not for JSON's, in which lists stand for tuples.
NamedMethod = Annotated[
    Annotated[StudyMethod, BeforeValidator(_named, json_schema_input_type=str), Tag("short")]
    | Annotated[StudyMethod, Tag("whole")],
    Discriminator(_form),
]
NamedCheck = Annotated[
    Annotated[StudyCheck, BeforeValidator(_named, json_schema_input_type=str), Tag("short")]
    | Annotated[StudyCheck, Tag("whole")],
    Discriminator(_form),
]
StudyBaseModels = Annotated[tuple[AnyBase, ...], Field(max_length=MOST_BASE_MODELS)]
StudyTasks = Annotated[tuple[NamedChoice, ...], Field(max_length=MOST_TASKS)]
StudyMethods = Annotated[tuple[NamedMethod, ...], Field(max_length=MOST_METHODS)]
AllOrMethods = Annotated[
    Annotated[Literal["all"], Tag("every")] | Annotated[StudyMethods, Tag("listed")],
    Discriminator(lambda given: "every" if isinstance(given, str) else "listed"),
]
StudyBudgets = Annotated[tuple[Budget, ...], Field(max_length=MOST_BUDGETS)]
StudyChecks = Annotated[tuple[NamedCheck, ...], Field(max_length=MOST_CHECKS)]


BudgetTolerance = Annotated[float, Field(ge=0, lt=1)]


class StudySpec(Value):
    """Every method at every budget on every task and base model, with the same effort.

    A method that a budget sizes is one job for each budget at which it comes out different. One of
    fixed size is one job, which stands at every budget that it is within; `frozen`,
    `full_finetuning` and `from_scratch` are references and stand at every budget. `methods: all`
    are all registered methods that the base model has sites for. `seeds`, `training`, `tuning`,
    `evaluation`, `capture` and `resources` are those of every job.

    Sizes come in steps, so that a method may leave a part of its budget unused. With
    `budget_tolerance` (0.05: five per cent) a study is refused in which some method, references
    apart, would leave a larger share unused; without it any share is accepted and shown.

    `checks` are theory checks, which are jobs of the study too. A study may consist of them alone,
    and of the base models that they measure; any other has at least one base model, task, method
    and budget.
    """

    name: Name
    base_models: StudyBaseModels = ()
    tasks: StudyTasks = ()
    methods: AllOrMethods = ()
    budgets: StudyBudgets = ()
    budget_tolerance: BudgetTolerance | None = None
    checks: StudyChecks = ()
    seeds: Seeds | Auto = AUTO
    training: TrainingSpec = TrainingSpec()
    tuning: TuningSpec = TuningSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])

    @model_validator(mode="after")
    def _compares_or_checks(self) -> Self:
        """Raise for what there is none of, as if the member itself were required."""
        given = [member for member in OF_CELLS if getattr(self, member)]
        needed = ("base_models", *OF_CELLS) if given or not self.checks else ()
        empty = [member for member in needed if not getattr(self, member)]
        if empty:
            raise ValidationError.from_exception_data(
                "StudySpec", [_empty(member, self.model_fields_set) for member in empty]
            )
        return self


def _empty(member: str, given: set[str]) -> InitErrorDetails:
    if member not in given:
        return InitErrorDetails(type="missing", loc=(member,), input={})
    context = {"field_type": "Tuple", "min_length": 1, "actual_length": 0}
    return InitErrorDetails(type="too_short", loc=(member,), input=(), ctx=context)


class StudyExtension(Value):
    """What a study is to have besides what it has; what is there already changes nothing.

    `seeds` is how many seeds there are to be in all, or further seeds. An extension by nothing
    runs again what has failed.
    """

    base_models: StudyBaseModels = ()
    tasks: StudyTasks = ()
    methods: StudyMethods = ()
    budgets: StudyBudgets = ()
    checks: StudyChecks = ()
    seeds: Seeds | None = None


class StudyChanges(Value):
    """The members of a study's spec that a clone has otherwise; its name always is another."""

    name: Name
    base_models: StudyBaseModels | None = None
    tasks: StudyTasks | None = None
    methods: AllOrMethods | None = None
    budgets: StudyBudgets | None = None
    budget_tolerance: BudgetTolerance | None = None
    checks: StudyChecks | None = None
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
            detail = f"Two base models are named {name!r}. Leave one out, or rename it."
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
    if extension.checks:
        given["checks"] = _joined(spec.checks, extension.checks)
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
    detail = "The study has all methods. To choose configurations, clone it with a list of methods."
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
        detail = "The study takes its number of seeds from its base models. Give a number of seeds."
        raise InvalidSpec(Problem("/seeds", "seeds_not_numbered", detail))
    known = tuple(range(present)) if isinstance(present, int) else present
    if isinstance(wanted, tuple):
        return _joined(known, wanted)
    if wanted < len(known):
        detail = f"The study already has {len(known)} seeds, more than {wanted}."
        raise InvalidSpec(Problem("/seeds", "fewer_seeds", detail, nearest=(len(known),)))
    if isinstance(present, int):
        return wanted
    unused = (seed for seed in range(LARGEST_SEED) if seed not in known)
    return (*known, *(next(unused) for _ in range(wanted - len(known))))
