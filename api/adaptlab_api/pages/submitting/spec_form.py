"""A form that is a spec: from what was typed to the JSON document, and back into the fields."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from adaptlab.errors import Problem
from adaptlab_api.answers.problems import Refused
from adaptlab_api.pages.submitting.spec_document import END, Document, is_document, look, put, take
from adaptlab_api.pages.submitting.spec_fields import SPECS, Field
from adaptlab_api.pages.submitting.spec_texts import pretty, read, write
from adaptlab_api.requests import strict_json

ALL = "all"
REST = "rest"
"""The field of the members that no other field has, as JSON."""
NAMED = ("task", "method", "family")
"""Members that may be given by a bare name."""
INSTEAD = {"/budget/trainable_parameters": "/budget/fraction_of_base"}
"""What is given up for a value that is taken over."""

Typed = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """Fields under one heading; `more` are those that most people leave alone.

    `of` is the plug-in whose knobs are among them: with another one the fields are others.
    """

    id: str
    title: str
    note: str
    fields: tuple[Field, ...]
    more: tuple[Field, ...] = ()
    of: str = ""

    @property
    def all(self) -> tuple[Field, ...]:
        """Every field."""
        return (*self.fields, *self.more)


@dataclass(frozen=True, slots=True)
class Filled:
    """What stands in the fields: texts by pointer, and for fields of several choices these.

    `rest` is JSON, and `unread` what is wrong with it.
    """

    texts: Mapping[str, str]
    chosen: Mapping[str, tuple[str, ...]]
    rest: str = ""
    unread: tuple[Problem, ...] = ()


def typed(fields: Typed, name: str) -> str:
    """The text of one field of a form, without the space around it."""
    return next(iter(fields.get(name, ())), "").strip()


def filled_in(fields: Typed, sections: Sequence[Section]) -> Filled:
    """The fields as they were typed."""
    every = list(_fields(sections))
    texts = {one.pointer: text for one in every if (text := typed(fields, one.pointer))}
    several = [one for one in every if _is_several(one)]
    chosen = {one.pointer: tuple(fields.get(one.pointer, ())) for one in several}
    rest = typed(fields, REST)
    try:
        document: object = strict_json.parse(rest.encode()) if rest else {}
        wrong = () if is_document(document) else (_no_object(),)
    except Refused as refusal:
        wrong = refusal.faults or (Problem(f"/{REST}", "invalid_json", refusal.detail),)
    return Filled(texts, chosen, rest, tuple(replace(one, pointer=f"/{REST}") for one in wrong))


def document_of(
    spec: str, filled: Filled, sections: Sequence[Section], known: Mapping[str, Document]
) -> Document:
    """The JSON document that the fields amount to.

    `known` are specs that a choice of a field stands for.
    """
    rest: object = json.loads(filled.rest) if filled.rest and not filled.unread else {}
    document = cast("Document", rest)
    if spec != "study":
        document["kind"] = spec
    for one in _fields(sections):
        if _is_several(one):
            _put_chosen(document, one, filled.chosen.get(one.pointer, ()))
        elif text := filled.texts.get(one.pointer):
            _put_text(document, one, text, known)
    order = [name for name in ("kind", *SPECS[spec].model_fields) if name in document]
    return {name: document[name] for name in dict.fromkeys([*order, *document])}


def filled_from(document: Document, sections: Sequence[Section]) -> Filled:
    """The fields that amount to a document; what fits into none of them is the rest."""
    left = copy.deepcopy(document)
    left.pop("kind", None)
    texts: dict[str, str] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    every = list(_fields(sections))
    for one in filter(_is_several, every):
        chosen[one.pointer] = _take_chosen(left, one)
    # Backwards: what is behind a list's first entry is taken before that, and names last.
    for one in reversed([one for one in every if not _is_several(one)]):
        if (text := _take_text(left, one)) is not None:
            texts[one.pointer] = text
    return Filled(texts, chosen, pretty(left) if left else "")


def normalised(document: Document) -> Document:
    """The same with short forms written out, which is how the fields see it."""
    made = copy.deepcopy(document)
    for name in NAMED:
        if isinstance(made.get(name), str):
            made[name] = {"name": made[name]}
    if isinstance(made.get("budget"), int) and not isinstance(made["budget"], bool):
        made["budget"] = {"trainable_parameters": made["budget"]}
    if isinstance(tasks := made.get("tasks"), list) and tasks and isinstance(tasks[0], str):
        tasks[0] = {"name": tasks[0]}
    if isinstance(budgets := made.get("budgets"), list):
        made["budgets"] = [_short_budget(one) for one in cast("list[object]", budgets)]
    return made


def taken_over(document: Document, use: str) -> Document:
    """The document with the value that somebody clicked on; `use` is its pointer and itself."""
    try:
        pointer, value = json.loads(use)
    except (ValueError, RecursionError):
        return document
    if not isinstance(value, str | int | float):
        return document
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        return document
    made = copy.deepcopy(document)
    if pointer in INSTEAD:
        take(made, INSTEAD[pointer])
    put(made, pointer, value)
    return made


def placed(
    problems: Sequence[Problem], sections: Sequence[Section]
) -> tuple[dict[str, list[Problem]], list[Problem]]:
    """The problems by the field that they stand beside, and those without one."""
    beside: dict[str, list[Problem]] = {}
    nowhere: list[Problem] = []
    every = list(_fields(sections))
    for problem in problems:
        pointer = _field_of(problem.pointer, every)
        beside.setdefault(pointer, []).append(problem) if pointer else nowhere.append(problem)
    return beside, nowhere


def _field_of(place: str, fields: Sequence[Field]) -> str | None:
    """The field with that place or the nearest above it, else the first one below it."""
    if place == f"/{REST}":
        return place
    above = [one for one in fields if place == one.place or place.startswith(f"{one.place}/")]
    further = [one for one in fields if one.pointer.endswith(f"/{END}") and _is_further(place, one)]
    if further and not any(one.place == place for one in above):
        return further[0].pointer
    if above:
        return max(above, key=lambda one: len(one.place)).pointer
    below = (one.pointer for one in fields if one.place.startswith(f"{place}/") and place)
    return next(below, None)


def _is_further(place: str, field: Field) -> bool:
    """Whether a place is in an entry of a list behind the first, which has fields of its own."""
    above = field.pointer.removesuffix(END)
    index = place.removeprefix(above).partition("/")[0]
    return place.startswith(above) and index.isdigit() and index != "0"


def _fields(sections: Sequence[Section]) -> Iterator[Field]:
    for section in sections:
        yield from section.all


def _is_several(field: Field) -> bool:
    return field.kind == "lines" and bool(field.choices)


def _put_chosen(document: Document, field: Field, chosen: Sequence[str]) -> None:
    if ALL in chosen:
        document[field.pointer[1:]] = ALL
    elif chosen:
        document[field.pointer[1:]] = list(chosen)


def _put_text(document: Document, field: Field, text: str, known: Mapping[str, Document]) -> None:
    value = copy.deepcopy(known[text]) if text in known else read(field.kind, text)
    if field.instead_of:
        if look(document, field.instead_of) is None:
            put(document, field.instead_of, value)
    elif field.pointer.endswith(f"/{END}"):
        above = look(document, field.pointer.removesuffix(f"/{END}"))
        for entry in cast("list[object]", value) if above != ALL else ():
            put(document, field.pointer, entry)
    else:
        put(document, field.pointer, value)


def _take_chosen(left: Document, field: Field) -> tuple[str, ...]:
    """The entries that are bare names to choose from."""
    value = left.get(field.pointer[1:])
    if value == ALL:
        del left[field.pointer[1:]]
        return (ALL,)
    if not isinstance(value, list):
        return ()
    listed = cast("list[object]", value)
    names = {json.dumps({"name": one}): one for one in field.choices if one != ALL}
    names |= {json.dumps(one): one for one in field.choices if one != ALL}
    chosen = [names[json.dumps(one)] for one in listed if json.dumps(one) in names]
    left[field.pointer[1:]] = [one for one in listed if json.dumps(one) not in names]
    if not left[field.pointer[1:]]:
        del left[field.pointer[1:]]
    return tuple(dict.fromkeys(chosen))


def _take_text(left: Document, field: Field) -> str | None:
    is_further = field.pointer.endswith(f"/{END}")
    place = field.pointer.removesuffix(f"/{END}") if is_further else field.place
    value = look(left, place)
    if value is None or (field.instead_of and isinstance(value, str)):
        return None
    if not is_further:
        text = write(field.kind, value)
        if text is not None:
            take(left, place)
        is_long = field.kind == "open" and field.several_lines
        return pretty(value) if text and is_long and is_document(value) else text
    listed = cast("list[object]", value) if isinstance(value, list) else []
    text = write(field.kind, listed[field.first :])
    if text is not None:
        del listed[field.first :]
        if not listed:
            take(left, place)
    return text


def _short_budget(budget: object) -> object:
    short = look(budget, "/trainable_parameters")
    return short if budget == {"trainable_parameters": short} else budget


def _no_object() -> Problem:
    return Problem(f"/{REST}", "invalid_json", "This is not a JSON object. Enter {…}.")
