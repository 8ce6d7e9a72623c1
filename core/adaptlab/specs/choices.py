"""Plug-ins that a spec chooses, checked by themselves."""

from typing import TypeVar

from pydantic import ValidationError

from adaptlab.errors import InvalidSpec, below
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.splits import EVERY_SPLIT, Split
from adaptlab.plugins.task import TASKS, Task
from adaptlab.specs.spec import Choice
from adaptlab.validation import validation_problems
from adaptlab.values import Value

P = TypeVar("P", bound=Value)


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
        raise InvalidSpec(*below(pointer, problems))
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
