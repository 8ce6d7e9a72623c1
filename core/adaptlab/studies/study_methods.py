"""The methods of a study, with checked knobs, tasks and base models."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeVar

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.sizing import PARAMETERS
from adaptlab.plugins.task import Task
from adaptlab.specs.choices import resolve_method, resolve_task
from adaptlab.specs.spec import BudgetSpec, Choice, TrainingSpec, TuningSpec
from adaptlab.specs.task_labels import label_among, numbered, records_label
from adaptlab.studies.study import StudyMethod, StudySpec, base_names
from adaptlab.studies.study_plan import Role
from adaptlab.values import Value

T = TypeVar("T", bound=Value)

LONGEST_LABEL, LONGEST_KNOB = 80, 24
"""Characters of a task's label, and of a knob in one that would be longer."""


@dataclass(frozen=True)
class StudyEntry:
    """A method of the study: its label, its choice, and it unsized.

    Attributes:
        tasks: indices of the study's tasks on which it runs.
        bases: indices of the study's base models on which it runs.
        training: the study's training with this method's overrides.
        tuning: the study's tuning with this method's overrides.
        is_control: it belongs to a diagnosis and not to a table.
    """

    pointer: str
    label: str
    choice: Choice
    method: Method
    tasks: frozenset[int]
    bases: frozenset[int]
    given: StudyMethod
    training: TrainingSpec
    tuning: TuningSpec
    is_control: bool = False

    @property
    def role(self) -> Role:
        """The role: a control, a reference of fixed size, or a method."""
        if self.is_control:
            return "control"
        is_fixed = not self.method.size_is_free()
        return "reference" if self.method.is_reference and is_fixed else "method"

    def same_as(self, other: "StudyEntry") -> bool:
        """Return True if both would have a job in common."""
        mine = (self.method, self.training, self.tuning)
        alike = mine == (other.method, other.training, other.tuning)
        return alike and bool(self.tasks & other.tasks and self.bases & other.bases)


def study_entries(spec: StudySpec, datasets: Datasets) -> tuple[StudyEntry, ...]:
    """Return the methods of the study, and its controls after them.

    Raises `InvalidSpec` for a method that occurs twice, and for one with a task or base model that
    the study does not have.
    """
    place = "/methods" if spec.compared is spec.methods else "/question/compare"
    if spec.compared == "all":
        anywhere = (name for name in METHODS.names() if not METHODS.get(name).moves_content)
        chosen = tuple((place, StudyMethod(name=name)) for name in anywhere)
    else:
        chosen = tuple((f"{place}/{index}", entry) for index, entry in enumerate(spec.compared))
    entries = [_entry(spec, pointer, method, datasets) for pointer, method in chosen]
    entries += [
        replace(_entry(spec, f"/controls/{index}", control, datasets), is_control=True)
        for index, control in enumerate(spec.controls)
    ]
    faults: list[Problem] = []
    for index, entry in enumerate(entries):
        for earlier in entries[:index]:
            if entry.same_as(earlier):
                detail = f"{entry.label} is the same as {earlier.label}. Leave one of them out."
                faults.append(Problem(entry.pointer, "method_twice", detail))
            elif entry.label == earlier.label:
                detail = f"Two methods have the label {entry.label!r}. Change one of them."
                faults.append(Problem(f"{entry.pointer}/label", "label_twice", detail))
    if faults:
        raise InvalidSpec(*faults)
    return tuple(entries)


def study_tasks(spec: StudySpec, datasets: Datasets) -> tuple[Task, ...]:
    """Return the tasks; raises `InvalidSpec` for one that occurs twice."""
    named = enumerate(spec.tasks)
    tasks = [resolve_task(task, f"/tasks/{index}", datasets) for index, task in named]
    for index, task in enumerate(tasks):
        if task in tasks[:index]:
            detail = (
                f"{_short_label_of(spec.tasks[index])} is already among the tasks. Leave one out."
            )
            raise InvalidSpec(Problem(f"/tasks/{index}", "task_twice", detail))
    return tuple(tasks)


def label_of(choice: Choice) -> str:
    """Return the default label of a choice: its name and the given knobs."""
    knobs = (choice.model_extra or {}).items()
    given = ", ".join(f"{name}={json.dumps(value)}" for name, value in knobs).replace('"', "")
    return f"{choice.name}({given})" if given else choice.name


def task_labels(tasks: Sequence[Choice]) -> tuple[str, ...]:
    """Return the labels of a study's tasks.

    A task on records has its name and dataset, and the knobs that differ from those of earlier
    tasks, so that a task that is added later changes no label. Another long label goes without the
    knobs that make it long, unless it would be that of another task.
    """
    labels = [label_of(task) for task in tasks]
    shorter = [
        label if len(label) <= LONGEST_LABEL else label_of(_without_long_knobs(task))
        for label, task in zip(labels, tasks, strict=True)
    ]
    pairs = zip(labels, shorter, strict=True)
    given = [task.model_dump(mode="json", exclude_unset=True) for task in tasks]
    return numbered(
        [
            label_among(task, given[:place]) or (short if shorter.count(short) == 1 else label)
            for place, (task, (label, short)) in enumerate(zip(given, pairs, strict=True))
        ]
    )


def _short_label_of(task: Choice) -> str:
    return records_label(task.model_dump(mode="json", exclude_unset=True)) or label_of(task)


def _without_long_knobs(task: Choice) -> Choice:
    knobs = task.model_dump(mode="json")
    short = {name: knob for name, knob in knobs.items() if len(json.dumps(knob)) <= LONGEST_KNOB}
    return Choice.model_validate(short)


def place_of_task(spec: StudySpec, wanted: Choice, pointer: str, datasets: Datasets) -> int:
    """Return the index of a task; raises `InvalidSpec` for any other."""
    task, tasks = resolve_task(wanted, pointer, datasets), study_tasks(spec, datasets)
    if task in tasks:
        return tasks.index(task)
    labels = task_labels(spec.tasks)
    label = _short_label_of(wanted)
    detail = f"{label} is not one of the study's tasks. Give one exactly as in the study."
    raise _not_there(Problem(pointer, "not_a_task_of_the_study", detail), label, labels)


def check_budget(spec: StudySpec, wanted: BudgetSpec, pointer: str) -> None:
    """Raise `InvalidSpec` for a budget that the study does not have.

    The nearest budgets in the problem are of the same kind: parameters, fractions or tokens.
    """
    if wanted in spec.budgets:
        return
    given = wanted.model_dump(exclude_none=True)
    member, value = next(iter(given.items()), (PARAMETERS, 0))
    values: list[float] = [b for one in spec.budgets if (b := getattr(one, member)) is not None]
    near = sorted(values, key=lambda other: abs(other - value))[:3]
    of_kind = ", ".join(f"{other:,}" for other in values) or "none"
    detail = (
        f"{value:,} is not one of the study's budgets. Give one exactly as in the study. Budgets "
        f"in {member}: {of_kind}."
    )
    raise InvalidSpec(
        Problem(pointer, "not_a_budget_of_the_study", detail, tuple(values), tuple(near))
    )


def place_of_base(bases: Sequence[str], wanted: str, pointer: str) -> int:
    """Return the index of a base model; raises `InvalidSpec` if none."""
    if wanted in bases:
        return bases.index(wanted)
    detail = (
        f"{wanted!r} is not one of the study's base models. Name one of them, or add it to the "
        "study."
    )
    raise _not_there(Problem(pointer, "not_a_base_of_the_study", detail), wanted, bases)


def _entry(spec: StudySpec, pointer: str, given: StudyMethod, datasets: Datasets) -> StudyEntry:
    choice, bases = given.choice(), base_names(spec)
    on_tasks, on_bases = range(len(spec.tasks)), range(len(bases))
    if given.tasks is not None:
        places = enumerate(given.tasks)
        on_tasks = [place_of_task(spec, t, f"{pointer}/tasks/{i}", datasets) for i, t in places]
    if given.base_models is not None:
        named = enumerate(given.base_models)
        on_bases = [place_of_base(bases, b, f"{pointer}/base_models/{i}") for i, b in named]
    return StudyEntry(
        pointer=pointer,
        label=given.label or label_of(choice),
        choice=choice,
        method=resolve_method(choice, pointer),
        tasks=frozenset(on_tasks),
        bases=frozenset(on_bases),
        given=given,
        training=_with(spec.training, given.training),
        tuning=_with(spec.tuning, given.tuning),
    )


def _with(whole: T, given: T | None) -> T:
    """Return the value with its given members replaced."""
    if given is None:
        return whole
    return whole.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def _not_there(problem: Problem, wanted: str, labels: Sequence[str]) -> InvalidSpec:
    nearest = tuple(get_close_matches(wanted, labels, n=3, cutoff=0.3))
    return InvalidSpec(replace(problem, allowed=tuple(labels), nearest=nearest))
