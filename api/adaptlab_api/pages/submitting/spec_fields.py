"""The fields of a form, from the schemas of specs and plug-ins."""

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
LONG_TEXT = 1000
"""Characters that a text of several lines, such as a prompt, may have at least."""
AREAS: tuple[Kind, ...] = ("labels", "lines")
"""Kinds of several lines."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form: its place in the spec, its kind and its texts.

    Attributes:
        default: the server's default, shown in an empty field.
        choices: the values to choose from; several can be chosen if the kind is `lines`.
        grouped: further choices, by heading.
        several_lines: the height of the field in lines; 0 for a single line.
        instead_of: the field whose place in the spec this one takes unless it is empty.
        descriptions: a description of each choice.
        first: the number of entries of a list that belong to other fields.
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
    descriptions: tuple[str, ...] = ()
    grouped: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def place(self) -> str:
        """The place of its value in the spec."""
        return self.instead_of or self.pointer

    @property
    def id(self) -> str:
        """Its id on the page."""
        return "at" + self.pointer.replace("/-", "/more").replace("/", "-")


def spec_field(spec: str, pointer: str, **changes: object) -> FormField:
    """Return the field of a member of a spec; `changes` override its schema."""
    schema = _schema(spec)
    root = here = schema
    required = False
    for part in parts_of(pointer):
        here = _resolved(here, root)
        below = _members(here)
        required = part in cast("Sequence[str]", here.get("required", ()))
        here = below.get(part, {})
    field = replace(_field(pointer, here, root), required=required)
    return replace(field, **changes)  # pyright: ignore[reportArgumentType] - members by name


def knob_fields(entry: PlugIn, at: str) -> tuple[FormField, ...]:
    """Return the fields of a plug-in's knobs, below its place in the spec.

    A knob is described by its schema; its limits follow.
    """
    members = _members(entry.knobs)
    return tuple(
        _described(_field(f"{at}/{name}", schema, entry.knobs), schema)
        for name, schema in members.items()
        if name != "name"
    )


def _described(field: FormField, schema: Schema) -> FormField:
    texts = (str(schema.get("description", "")), field.hint)
    return replace(field, hint="; ".join(text for text in texts if text))


@cache
def _schema(spec: str) -> Schema:
    return TypeAdapter(SPECS[spec]).json_schema()


def _field(pointer: str, schema: Schema, root: Schema) -> FormField:
    resolved = _resolved(schema, root)
    kind, choices = _kind(resolved, root)
    default = resolved.get("default", schema.get("default"))
    return FormField(
        pointer=pointer,
        label=_label(parts_of(pointer)[-1]),
        kind=kind,
        default=_default(default),
        choices=choices,
        hint=_limits(resolved),
        several_lines=3 if kind in AREAS or _is_long(kind, resolved) else 0,
    )


def _is_long(kind: Kind, schema: Schema) -> bool:
    """Return True if a text can have several lines."""
    return kind == "text" and cast("int", schema.get("maxLength", 0)) >= LONG_TEXT


def _kind(schema: Schema, root: Schema) -> tuple[Kind, tuple[str, ...]]:
    if "anyOf" in schema:
        return _of_several(cast("Sequence[Schema]", schema["anyOf"]), root)
    if "enum" in schema:
        return "choice", tuple(str(value) for value in cast("Sequence[object]", schema["enum"]))
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
    """Return the kind of a union, ignoring constants such as `auto` and null."""
    real = [option for option in options if option.get("type") != "null" and "const" not in option]
    kinds = [_kind(_resolved(option, root), root) for option in real]
    names = {kind for kind, _ in kinds}
    if len(kinds) == 1:
        return kinds[0]
    return ("integers" if names == {"integer", "integers"} else "open"), ()


def _of_array(schema: Schema, root: Schema) -> Kind:
    items = schema.get("items") or next(iter(cast("Sequence[Schema]", schema["prefixItems"])))
    kind, _ = _kind(_resolved(cast("Schema", items), root), root)
    plurals: dict[Kind, Kind] = {"integer": "integers", "number": "numbers", "text": "texts"}
    return plurals.get(kind, "texts" if kind == "choice" else "lines")


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Return the schema of a reference, or of one in a union with short forms."""
    here = schema
    while True:
        if "$ref" in here:
            name = str(here["$ref"]).rpartition("/")[2]
            here = cast("Mapping[str, Schema]", root["$defs"])[name]
            continue
        options = [
            option
            for option in cast("Sequence[Schema]", here.get("anyOf", ()))
            if "$ref" in option and "DatasetReference" not in str(option["$ref"])
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
        case list() if all(isinstance(entry, str) for entry in cast("list[object]", value)):
            return ", ".join(cast("list[str]", value))
        case _:
            return json.dumps(value)


def _label(name: str) -> str:
    return "DoRA" if name == "dora" else name.replace("_", " ").capitalize()


def _limits(schema: Schema) -> str:
    """Return the minimum and maximum, in words."""
    options = cast("Sequence[Schema]", schema.get("anyOf", ()))
    for number in (schema, *options):
        if number.get("type") not in ("integer", "number"):
            continue
        low = number.get("minimum", number.get("exclusiveMinimum"))
        high = number.get("maximum")
        above = "above " if "exclusiveMinimum" in number else ""
        if low is not None and high is not None:
            return f"{above}{low:g} to {_short(high)}"
    return ""


def _short(value: object) -> str:
    assert isinstance(value, int | float)
    exact = int(value) if value == int(value) else value
    return f"{exact:,}" if exact < 10**10 else f"{exact:g}"
