"""The spec of a study, and its extension and cloning."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal, Self, TypeVar, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.plugins.sizing import PARAMETERS, TOKENS, BudgetAxis
from adaptlab.specs.annotations import SHOWABLE
from adaptlab.specs.spec import (
    LARGEST_SEED,
    AdaptEvaluationSpec,
    AnyBase,
    Budget,
    CaptureSpec,
    Choice,
    Label,
    LabelName,
    Labels,
    NamedChoice,
    ResourcesSpec,
    Seeds,
    TrainingSpec,
    TuningSpec,
)
from adaptlab.studies.question import QuestionTerms
from adaptlab.validation import validation_problems
from adaptlab.values import AUTO, Auto, Name, Value

T = TypeVar("T")

MOST_BASE_MODELS = MOST_TASKS = 16
MOST_METHODS = 64
MOST_BUDGETS = 32
MOST_CHECKS = 64
OF_CELLS = ("tasks", "methods", "budgets")
"""Members of which a study has all, or none if it has only theory checks."""

ShownLabel = Annotated[str, Field(max_length=120, pattern=SHOWABLE)]


class TrainingOverrides(TrainingSpec):
    """Members of the study's training that one method overrides."""


class TuningOverrides(TuningSpec):
    """Members of the study's tuning that one method overrides."""


class StudyMethod(Choice):
    """A method of a study with the given knobs.

    `label` is its name in the comparison, by default the method's name with the given knobs.
    Members given in `training` and `tuning` replace the study's for this method; the comparison
    reports the difference. `tasks` and `base_models` limit it to some of the study's.
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
        """Return the method of a job's spec."""
        return Choice.model_validate(self.model_dump(include={"name"}) | (self.model_extra or {}))


class StudyCheck(Choice):
    """A theory check of a study: one job for each model that it measures.

    A check of base models measures each of `base_models`, by default all of the study's. A check
    of adaptations measures those of the method with the label `of`, one for every size that the
    budgets give it. `budget`, `task` and `base_models` limit them if given. Each has its own job;
    with `together`, all of one base model share a job. A check of base models that works on a task,
    such as `saliency`, takes `task` as its own. `replicates` is the number of seeds that are
    measured of each. `label` is its name in the study, by default the check's name with the given
    knobs.
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


def _form(value: object) -> str:
    """Return "short" for a bare name, which is short for `{name: …}`."""
    return "short" if isinstance(value, str) else "whole"


def _named(name: object) -> object:
    return {"name": name} if isinstance(name, str) else name


# Only the short form passes a function: strict validation treats a function's result as Python,
# not as JSON, in which lists are accepted for tuples.
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


class QuestionSpec(QuestionTerms):
    """A question that a study answers, running only what the answer needs.

    `compare` are the study's methods, which may be given as its `methods` instead.
    """

    compare: AllOrMethods | None = None


class StudySpec(Value):
    """Every method at every budget on every task and base model.

    A method whose size follows the budget is one job per size. A method of fixed size is one job,
    listed at every budget that it fits. `frozen`, `full_finetuning` and `from_scratch` are
    references and listed at every budget. `methods: all` means all registered methods for which the
    base model has sites, except those with demonstrations, which not every task has. `seeds`,
    `training`, `tuning`, `evaluation`, `capture` and `resources` apply to every job.

    Sizes come in steps, so a method may leave a part of its budget unused. With `budget_tolerance`
    (0.05: 5 %), a study is refused if a method other than a reference would leave a larger share
    unused. Without it, any share is accepted and shown.

    `evaluation.base_models` are some of the study's base models. What methods that find tokens have
    found on one base model is evaluated on these others as well; methods that train parameters are
    not.

    Budgets in `context_tokens` match methods by the positions that they take; a method that takes
    none needs a fixed size. All budgets of a study limit the same thing.

    With a `question`, the study plans its own runs: it chooses the number of seeds and which of the
    learning rates are tried, and ends when it knows the answer. It then has no `seeds` and no
    checks.

    `controls` are trainings for diagnoses, such as a method with more steps or at a larger size.
    They are left out of tables and ranks, and budgets do not limit a control of fixed size.

    `checks` are theory checks, which are jobs of the study too. A study may consist of checks and
    the base models that they measure; any other study has at least one base model, task, method and
    budget.
    """

    name: Name
    base_models: StudyBaseModels = ()
    tasks: StudyTasks = ()
    methods: AllOrMethods = ()
    budgets: StudyBudgets = ()
    budget_tolerance: BudgetTolerance | None = None
    controls: StudyMethods = ()
    checks: StudyChecks = ()
    question: QuestionSpec | None = None
    seeds: Seeds | Auto = AUTO
    training: TrainingSpec = TrainingSpec()
    tuning: TuningSpec = TuningSpec()
    evaluation: AdaptEvaluationSpec = AdaptEvaluationSpec()
    capture: CaptureSpec = CaptureSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])

    @property
    def axis(self) -> BudgetAxis:
        """What the budgets limit."""
        return self.budgets[0].axis if self.budgets else PARAMETERS

    @property
    def compared(self) -> AllOrMethods:
        """The methods of the study, given as such or by its question."""
        asked = None if self.question is None else self.question.compare
        return self.methods if asked is None else asked

    @model_validator(mode="after")
    def _compares_or_checks(self) -> Self:
        """Raise `ValidationError` for empty members, as if they were required."""
        given = {member: getattr(self, member) for member in ("base_models", *OF_CELLS)}
        given["methods"] = self.compared
        present = [member for member in OF_CELLS if given[member]]
        needed = given if present or self.question or not self.checks else ()
        empty = [member for member in needed if not given[member]]
        if empty:
            raise ValidationError.from_exception_data(
                "StudySpec", [_empty(member, self.model_fields_set) for member in empty]
            )
        return self


def stored_axis(spec: Mapping[str, object]) -> BudgetAxis:
    """Return what the budgets of a stored spec limit, readable or not."""
    budgets = cast("Sequence[Mapping[str, object] | int]", spec.get("budgets", ()))
    first = next(iter(budgets), 0)
    return TOKENS if isinstance(first, Mapping) and first.get(TOKENS) else PARAMETERS


def _empty(member: str, given: set[str]) -> InitErrorDetails:
    if member not in given:
        return InitErrorDetails(type="missing", loc=(member,), input={})
    context = {"field_type": "Tuple", "min_length": 1, "actual_length": 0}
    return InitErrorDetails(type="too_short", loc=(member,), input=(), ctx=context)


class StudyExtension(Value):
    """Additions to a study; entries that it already has change nothing.

    `seeds` is the total number of seeds, or a list of further seeds; of a study with a question, it
    is the limit of seeds per method. An empty extension runs failed jobs again.
    """

    base_models: StudyBaseModels = ()
    tasks: StudyTasks = ()
    methods: StudyMethods = ()
    budgets: StudyBudgets = ()
    controls: StudyMethods = ()
    checks: StudyChecks = ()
    seeds: Seeds | None = None


class StudyChanges(Value):
    """Members of a study's spec that a clone replaces."""

    name: Name
    base_models: StudyBaseModels | None = None
    tasks: StudyTasks | None = None
    methods: AllOrMethods | None = None
    budgets: StudyBudgets | None = None
    budget_tolerance: BudgetTolerance | None = None
    controls: StudyMethods | None = None
    checks: StudyChecks | None = None
    seeds: Seeds | Auto | None = None
    training: TrainingSpec | None = None
    tuning: TuningSpec | None = None
    evaluation: AdaptEvaluationSpec | None = None
    capture: CaptureSpec | None = None
    resources: ResourcesSpec | None = None
    labels: Labels | None = None


def base_names(spec: StudySpec) -> tuple[str, ...]:
    """Return the names of the base models.

    Raises `InvalidSpec` for one that occurs twice.
    """
    names = [base if isinstance(base, str) else base.name for base in spec.base_models]
    for index, name in enumerate(names):
        if name in names[:index]:
            detail = f"Two base models are named {name!r}. Leave one out, or rename it."
            raise InvalidSpec(Problem(f"/base_models/{index}", "base_model_twice", detail))
    return tuple(names)


def extended(spec: StudySpec, extension: StudyExtension) -> StudySpec:
    """Return the extended study; raises `InvalidSpec`."""
    members: dict[str, object] = {}
    if extension.base_models:
        members["base_models"] = _joined(spec.base_models, extension.base_models)
    if extension.tasks:
        members["tasks"] = _joined(spec.tasks, extension.tasks)
    if extension.methods:
        members["methods"] = _joined(_listed(spec), extension.methods)
        if spec.question is not None:
            members["question"] = spec.question.model_copy(update={"compare": None})
    if extension.budgets:
        members["budgets"] = _joined(spec.budgets, extension.budgets)
    if extension.controls:
        members["controls"] = _joined(spec.controls, extension.controls)
    if extension.checks:
        members["checks"] = _joined(spec.checks, extension.checks)
    if extension.seeds is not None and spec.question is not None:
        members["question"] = _longer(members.get("question", spec.question), extension.seeds)
    elif extension.seeds is not None:
        members["seeds"] = _more_seeds(spec.seeds, extension.seeds)
    return checked(spec.model_copy(update=members))


def at_extension(error: InvalidSpec, spec: StudySpec, extension: StudyExtension) -> InvalidSpec:
    """Return the problems of an extended study, for the extension."""
    return InvalidSpec(*(_at(problem, spec, extension) for problem in error.problems))


def changed(spec: StudySpec, changes: StudyChanges) -> StudySpec:
    """Return the study with the given members; raises `InvalidSpec`."""
    members = {name: getattr(changes, name) for name in changes.model_fields_set}
    present = {name: value for name, value in members.items() if value is not None}
    return checked(spec.model_copy(update=present))


def checked(spec: StudySpec) -> StudySpec:
    """Return the spec if a posted one could be it; raises `InvalidSpec`."""
    text = spec.model_dump_json(exclude_unset=True)
    try:
        return StudySpec.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise InvalidSpec(*validation_problems(error.errors(), json.loads(text))) from error


def _listed(spec: StudySpec) -> tuple[StudyMethod, ...]:
    if spec.compared != "all":
        return spec.compared
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
    entries, added = cast("tuple[object, ...]", present), cast("tuple[object, ...]", more)
    place = int(below[0]) if below[0].isdecimal() else 0
    if place < len(entries):
        return problem
    index = added.index(_joined(entries, added)[place])
    return replace(problem, pointer="/".join(("", member, str(index), *below[1:])))


def _longer(question: object, wanted: int | tuple[int, ...]) -> QuestionSpec:
    """Return the question with another limit of seeds."""
    assert isinstance(question, QuestionSpec), "only a study with a question has a limit"
    if not isinstance(wanted, int):
        detail = "The study chooses its own seeds. Give the largest number of seeds per method."
        raise InvalidSpec(Problem("/seeds", "seeds_of_question", detail))
    limits = question.at_most.model_copy(update={"seeds": wanted})
    return question.model_copy(update={"at_most": limits})


def _more_seeds(
    present: int | tuple[int, ...] | Auto, wanted: int | tuple[int, ...]
) -> int | tuple[int, ...]:
    """Return all seeds, with the present ones first and in their order."""
    if present == AUTO:
        if isinstance(wanted, int):
            return wanted
        detail = "The study takes its number of seeds from its base models. Give a number of seeds."
        raise InvalidSpec(Problem("/seeds", "seeds_not_numbered", detail))
    seeds = tuple(range(present)) if isinstance(present, int) else present
    if isinstance(wanted, tuple):
        return _joined(seeds, wanted)
    if wanted < len(seeds):
        detail = (
            f"The study already has {counted(len(seeds), 'seed')}, more than {wanted}. Give "
            f"{len(seeds)} or more."
        )
        raise InvalidSpec(Problem("/seeds", "fewer_seeds", detail, nearest=(len(seeds),)))
    if isinstance(present, int):
        return wanted
    unused = (seed for seed in range(LARGEST_SEED) if seed not in seeds)
    return (*seeds, *(next(unused) for _ in range(wanted - len(seeds))))
