"""The base models and datasets that a preset needs beforehand."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, cast

from pydantic import Field

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.studies.study import StudySpec
from adaptlab.values import Name, Value

MEMBER = "dataset"
"""The member of a task that names its dataset."""


class Need(Value):
    """A base model or dataset that has to exist before a preset can run.

    `name` is its name in the preset's study, unless the request names another. `description` says
    which ones will do, and `commands` provide one.
    """

    kind: Literal["base_model", "dataset"]
    name: Name
    description: Annotated[str, Field(min_length=1)]
    commands: Annotated[tuple[str, ...], Field(min_length=1)]


def replaced_names(
    needs: tuple[Need, ...], base_models: tuple[Name, ...], dataset: Name | None
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the requested names by the preset's: base models, and datasets.

    Raises:
        InvalidSpec: the request names more than the preset needs.
    """
    bases = [need.name for need in needs if need.kind == "base_model"]
    datasets = [need.name for need in needs if need.kind == "dataset"]
    problems: list[Problem] = []
    if len(base_models) > len(bases):
        detail = (
            f"The request names {counted(len(base_models), 'base model')}, and this preset takes "
            f"{len(bases) or 'none'} from outside. Leave the others out."
        )
        problems.append(Problem("/base_models", "too_many_base_models", detail))
    if dataset is not None and not datasets:
        detail = "This preset generates its data. Leave the dataset out."
        problems.append(Problem("/dataset", "no_dataset_needed", detail))
    if problems:
        raise InvalidSpec(*problems)
    chosen = {} if dataset is None else dict.fromkeys(datasets, dataset)
    return dict(zip(bases, base_models, strict=False)), chosen


def missing(needs: tuple[Need, ...], preset: str) -> Iterator[Problem]:
    """Yield a problem for each of these, which a server does not have.

    `needs` have the names of the request.
    """
    for need in needs:
        noun = "base model" if need.kind == "base_model" else "dataset"
        pointer = "/base_models" if need.kind == "base_model" else "/dataset"
        option = "--base-model" if need.kind == "base_model" else "--dataset"
        commands = ", ".join(f"`{command}`" for command in need.commands)
        detail = (
            f"The preset {preset} needs a {noun} named {need.name!r}, which is not here: "
            f"{need.description}. Provide it with {commands}, or name another with `{option}`."
        )
        yield Problem(pointer, f"missing_{need.kind}", detail)


def datasets_of(spec: StudySpec) -> tuple[str, ...]:
    """Return the names of the datasets of a study, in order."""
    return tuple(dict.fromkeys(_datasets(spec.model_dump(mode="json", exclude_unset=True))))


def with_datasets(spec: StudySpec, names: Mapping[str, str]) -> StudySpec:
    """Return the study with its datasets renamed everywhere."""
    if not names:
        return spec
    document = spec.model_dump(mode="json", exclude_unset=True)
    return StudySpec.model_validate(_renamed(document, names))


def _datasets(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        for member, value in cast("dict[str, object]", document).items():
            if member == MEMBER and isinstance(value, str):
                yield value
            else:
                yield from _datasets(value)
    elif isinstance(document, list):
        for part in cast("list[object]", document):
            yield from _datasets(part)


def _renamed(document: object, names: Mapping[str, str]) -> object:
    if isinstance(document, dict):
        return {
            member: names.get(value, value)
            if member == MEMBER and isinstance(value, str)
            else _renamed(value, names)
            for member, value in cast("dict[str, object]", document).items()
        }
    if isinstance(document, list):
        return [_renamed(part, names) for part in cast("list[object]", document)]
    return document
