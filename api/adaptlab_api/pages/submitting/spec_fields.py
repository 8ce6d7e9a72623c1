"""The fields of a form, as the schemas of specs and plug-ins declare them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from pydantic import TypeAdapter

from adaptlab.specs.spec import AdaptSpec, ImportSpec, PretrainSpec, TheorySpec
from adaptlab.studies.study import StudySpec
from adaptlab.values import Value
from adaptlab_answers.models import PlugIn
from adaptlab_api.pages.submitting.spec_document import parts_of
from adaptlab_api.pages.submitting.spec_texts import Kind

Schema = Mapping[str, object]

SPECS: Mapping[str, type[Value]] = {
    "adapt": AdaptSpec,
    "pretrain": PretrainSpec,
    "import": ImportSpec,
    "theory": TheorySpec,
    "study": StudySpec,
}
AREAS: tuple[Kind, ...] = ("labels", "lines")
"""Kinds that take several lines."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: where in the spec it belongs, how its text is read, and what to say beside it.

    `default` is what the server takes where nothing is given. With `choices` one of them is
    chosen, or several where the kind is `lines`; `grouped` are further ones under a heading each.
    `several_lines` is how high the field is. What is in a field with `instead_of` stands in the
    place of that one, if that one is empty. `told` says of each choice what it is. Of a list, it
    holds what comes behind the `first` entries.
    """

    pointer: str
    label: str
    kind: Kind
    default: str = ""
    choices: tuple[str, ...] = ()
    hint: str = ""
    placeholder: str = ""
    required: bool = False
    several_lines: int = 0
    instead_of: str = ""
    first: int = 0
    told: tuple[str, ...] = ()
    grouped: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def place(self) -> str:
        """Where in the spec its value stands."""
        return self.instead_of or self.pointer

    @property
    def id(self) -> str:
        """Its id on the page."""
        return "at" + self.pointer.replace("/-", "/more").replace("/", "-")


def spec_field(spec: str, pointer: str, **changes: object) -> Field:
    """The field of a member of a spec, with what is said otherwise than its schema does."""
    schema = _schema(spec)
    root = here = schema
    required = False
    for part in parts_of(pointer):
        here = _resolved(here, root)
        below = _members(here)
        required = part in cast("Sequence[str]", here.get("required", ()))
        here = below.get(part, {})
    made = replace(_field(pointer, here, root), required=required)
    return replace(made, **changes)  # pyright: ignore[reportArgumentType] - members by name


def knob_fields(entry: PlugIn, at: str) -> tuple[Field, ...]:
    """The fields of a plug-in's knobs, below the place where it is chosen."""
    members = _members(entry.knobs)
    return tuple(
        _field(f"{at}/{name}", found, entry.knobs)
        for name, found in members.items()
        if name != "name"
    )


@cache
def _schema(spec: str) -> Schema:
    return TypeAdapter(SPECS[spec]).json_schema()


def _field(pointer: str, schema: Schema, root: Schema) -> Field:
    found = _resolved(schema, root)
    kind, choices = _kind(found, root)
    default = found.get("default", schema.get("default"))
    return Field(
        pointer=pointer,
        label=_label(parts_of(pointer)[-1]),
        kind=kind,
        default=_default(default),
        choices=choices,
        hint=_limits(found),
        several_lines=3 if kind in AREAS else 0,
    )


def _kind(schema: Schema, root: Schema) -> tuple[Kind, tuple[str, ...]]:
    if "anyOf" in schema:
        return _of_several(cast("Sequence[Schema]", schema["anyOf"]), root)
    if "enum" in schema:
        return "choice", tuple(str(one) for one in cast("Sequence[object]", schema["enum"]))
    match schema.get("type"):
        case "boolean":
            return "flag", ()
        case "integer":
            return "integer", ()
        case "number":
            return "number", ()
        case "string":
            return "text", ()
        case "array":
            return _of_array(schema, root), ()
        case "object" if "patternProperties" in schema:
            return "labels", ()
        case _:
            return "open", ()


def _of_several(options: Sequence[Schema], root: Schema) -> tuple[Kind, tuple[str, ...]]:
    """Of a union: `auto` and null are said by words and by nothing."""
    real = [one for one in options if one.get("type") != "null" and "const" not in one]
    kinds = [_kind(_resolved(one, root), root) for one in real]
    names = {kind for kind, _ in kinds}
    if len(kinds) == 1:
        return kinds[0]
    return ("integers" if names == {"integer", "integers"} else "open"), ()


def _of_array(schema: Schema, root: Schema) -> Kind:
    items = schema.get("items") or next(iter(cast("Sequence[Schema]", schema["prefixItems"])))
    kind, _ = _kind(_resolved(cast("Schema", items), root), root)
    known: dict[Kind, Kind] = {"integer": "integers", "number": "numbers", "text": "texts"}
    return known.get(kind, "texts" if kind == "choice" else "lines")


def _resolved(schema: Schema, root: Schema) -> Schema:
    """The schema behind a reference, and behind a union of it with null or a short form."""
    here = schema
    while True:
        if "$ref" in here:
            name = str(here["$ref"]).rpartition("/")[2]
            here = cast("Mapping[str, Schema]", root["$defs"])[name]
            continue
        options = [
            one
            for one in cast("Sequence[Schema]", here.get("anyOf", ()))
            if "$ref" in one and "DatasetReference" not in str(one["$ref"])
        ]
        if len(options) != 1 or "Choice" in str(options[0]["$ref"]):
            return here
        here = options[0]


def _members(schema: Schema) -> Mapping[str, Schema]:
    return cast("Mapping[str, Schema]", schema.get("properties", {}))


def _default(value: object) -> str:
    match value:
        case None | [] | {}:
            return ""
        case True:
            return "yes"
        case False:
            return "no"
        case str():
            return value
        case list() if all(isinstance(one, str) for one in cast("list[object]", value)):
            return ", ".join(cast("list[str]", value))
        case _:
            return json.dumps(value)


def _label(name: str) -> str:
    return "DoRA" if name == "dora" else name.replace("_", " ").capitalize()


def _limits(schema: Schema) -> str:
    """The least and the most, in words."""
    options = cast("Sequence[Schema]", schema.get("anyOf", ()))
    numbers = [one for one in (schema, *options) if one.get("type") in ("integer", "number")]
    for one in numbers:
        low = one.get("minimum", one.get("exclusiveMinimum"))
        high = one.get("maximum")
        above = "above " if "exclusiveMinimum" in one else ""
        if low is not None and high is not None:
            return f"{above}{low:g} to {_short(high)}"
    return ""


def _short(value: object) -> str:
    assert isinstance(value, int | float)
    exact = int(value) if value == int(value) else value
    return f"{exact:,}" if exact < 10**10 else f"{exact:g}"
