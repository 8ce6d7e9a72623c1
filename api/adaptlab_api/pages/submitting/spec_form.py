"""Conversion between the fields of a form and the JSON document of a spec."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from adaptlab.errors import Problem
from adaptlab_api.answers.problems import Refused
from adaptlab_api.pages.submitting.spec_document import END, Document, is_document, look, put, take
from adaptlab_api.pages.submitting.spec_fields import SPECS, FormField
from adaptlab_api.pages.submitting.spec_texts import pretty, read, write
from adaptlab_api.requests import strict_json

ALL = "all"
REST = "rest"
"""The field of all other members, as JSON."""
NAMED = ("task", "method", "family")
"""Members that can be a bare name."""
INSTEAD = {"/budget/trainable_parameters": ("/budget/fraction_of_base", "/budget/context_tokens")}
"""Members that a clicked value replaces."""

Typed = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """Fields under one heading; `more` are rarely used.

    `of` is the plug-in whose knobs are among the fields. A section that `is_folded` is closed until
    one of its fields is filled in or wrong.
    """

    id: str
    title: str
    note: str
    fields: tuple[FormField, ...]
    more: tuple[FormField, ...] = ()
    of: str = ""
    is_folded: bool = False

    @property
    def all(self) -> tuple[FormField, ...]:
        """Every field."""
        return (*self.fields, *self.more)


@dataclass(frozen=True, slots=True)
class Filled:
    """The content of the fields: texts and lists of choices, by pointer.

    `rest` is JSON, and `unread` has its errors.
    """

    texts: Mapping[str, str]
    chosen: Mapping[str, tuple[str, ...]]
    rest: str = ""
    unread: tuple[Problem, ...] = ()


def typed(fields: Typed, name: str) -> str:
    """Return the text of a field, without surrounding space."""
    return next(iter(fields.get(name, ())), "").strip()


def filled_in(fields: Typed, sections: Sequence[Section]) -> Filled:
    """Return the fields as typed."""
    every = list(_fields(sections))
    texts = {field.pointer: text for field in every if (text := typed(fields, field.pointer))}
    several = [field for field in every if _is_several(field)]
    chosen = {field.pointer: tuple(fields.get(field.pointer, ())) for field in several}
    rest = typed(fields, REST)
    try:
        document: object = strict_json.parse(rest.encode()) if rest else {}
        wrong = () if is_document(document) else (_no_object(),)
    except Refused as refusal:
        wrong = refusal.faults or (Problem(f"/{REST}", "invalid_json", refusal.detail),)
    return Filled(
        texts, chosen, rest, tuple(replace(problem, pointer=f"/{REST}") for problem in wrong)
    )


def document_of(
    spec: str, filled: Filled, sections: Sequence[Section], known: Mapping[str, Document]
) -> Document:
    """Return the JSON document that the fields describe.

    `known` are specs by the choices that represent them.
    """
    rest: object = json.loads(filled.rest) if filled.rest and not filled.unread else {}
    document = cast("Document", rest)
    if spec != "study":
        document["kind"] = spec
    for field in _fields(sections):
        if _is_several(field):
            _put_chosen(document, field, filled.chosen.get(field.pointer, ()))
        elif text := filled.texts.get(field.pointer):
            _put_text(document, field, text, known)
    order = [name for name in ("kind", *SPECS[spec].model_fields) if name in document]
    return {name: document[name] for name in dict.fromkeys([*order, *document])}


def filled_from(document: Document, sections: Sequence[Section]) -> Filled:
    """Return the fields of a document; members without a field are the rest."""
    left = copy.deepcopy(document)
    left.pop("kind", None)
    texts: dict[str, str] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    every = list(_fields(sections))
    for field in filter(_is_several, every):
        chosen[field.pointer] = _take_chosen(left, field)
    # Backwards: later entries of a list are taken before its first, and names last. A name on the
    # hub is shorter than the JSON that it means.
    backwards = reversed([field for field in every if not _is_several(field)])
    for field in sorted(backwards, key=lambda field: field.kind != "hub_model"):
        if (text := _take_text(left, field)) is not None:
            texts[field.pointer] = text
    return Filled(texts, chosen, pretty(left) if left else "")


def normalised(document: Document) -> Document:
    """Return the document with its short forms expanded, as fields need it."""
    expanded = copy.deepcopy(document)
    for name in NAMED:
        if isinstance(expanded.get(name), str):
            expanded[name] = {"name": expanded[name]}
    if isinstance(expanded.get("budget"), int) and not isinstance(expanded["budget"], bool):
        expanded["budget"] = {"trainable_parameters": expanded["budget"]}
    if isinstance(tasks := expanded.get("tasks"), list) and tasks and isinstance(tasks[0], str):
        tasks[0] = {"name": tasks[0]}
    if isinstance(budgets := expanded.get("budgets"), list):
        expanded["budgets"] = [_short_budget(budget) for budget in cast("list[object]", budgets)]
    return expanded


def taken_over(document: Document, use: str) -> Document:
    """Return the document with a clicked value, JSON of [pointer, value]."""
    try:
        pointer, value = json.loads(use)
    except (ValueError, RecursionError):
        return document
    if not isinstance(value, str | int | float):
        return document
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        return document
    changed = copy.deepcopy(document)
    if pointer in INSTEAD:
        for other in INSTEAD[pointer]:
            take(changed, other)
    put(changed, pointer, value)
    return changed


def placed(
    problems: Sequence[Problem], sections: Sequence[Section]
) -> tuple[dict[str, list[Problem]], list[Problem]]:
    """Return the problems by field, and those without one."""
    beside: dict[str, list[Problem]] = {}
    nowhere: list[Problem] = []
    every = list(_fields(sections))
    for problem in problems:
        pointer = _field_of(problem.pointer, every)
        beside.setdefault(pointer, []).append(problem) if pointer else nowhere.append(problem)
    return beside, nowhere


def _field_of(place: str, fields: Sequence[FormField]) -> str | None:
    """Return the field at or nearest above a place, or the first below it."""
    if place == f"/{REST}":
        return place
    above = [field for field in fields if f"{place}/".startswith(f"{field.place}/")]
    further = [field for field in fields if _is_further(place, field)]
    if further and not any(field.place == place for field in above):
        return further[0].pointer
    if above:
        return max(above, key=lambda field: _nearness(place, field)).pointer
    below = (field.pointer for field in fields if field.place.startswith(f"{place}/") and place)
    return next(below, None)


def _nearness(place: str, field: FormField) -> tuple[int, int]:
    """Return the lengths of the parts of a place that are those of a field."""
    is_above = f"{place}/".startswith(f"{field.pointer}/")
    return len(field.place), len(field.pointer) if is_above else 0


def _is_further(place: str, field: FormField) -> bool:
    """Return True if a place is in a list entry that `field` holds."""
    if not field.pointer.endswith(f"/{END}"):
        return False
    above = field.pointer.removesuffix(END)
    index = place.removeprefix(above).partition("/")[0]
    return place.startswith(above) and index.isdigit() and index != "0"


def _fields(sections: Sequence[Section]) -> Iterator[FormField]:
    for section in sections:
        yield from section.all


def _is_several(field: FormField) -> bool:
    return field.kind == "lines" and bool(field.choices)


def _put_chosen(document: Document, field: FormField, chosen: Sequence[str]) -> None:
    if ALL in chosen:
        document[field.pointer[1:]] = ALL
    elif chosen:
        document[field.pointer[1:]] = list(chosen)


def _put_text(
    document: Document, field: FormField, text: str, known: Mapping[str, Document]
) -> None:
    value = copy.deepcopy(known[text]) if text in known else read(field.kind, text)
    if field.instead_of:
        put(document, field.instead_of, value)
    elif field.pointer.endswith(f"/{END}"):
        above = look(document, field.pointer.removesuffix(f"/{END}"))
        for entry in cast("list[object]", value) if above != ALL else ():
            put(document, field.pointer, entry)
    else:
        put(document, field.pointer, value)


def _take_chosen(left: Document, field: FormField) -> tuple[str, ...]:
    """Take the entries that are among the choices; return them."""
    value = left.get(field.pointer[1:])
    if value == ALL:
        del left[field.pointer[1:]]
        return (ALL,)
    if not isinstance(value, list):
        return ()
    listed = cast("list[object]", value)
    names = {json.dumps({"name": choice}): choice for choice in field.choices if choice != ALL}
    names |= {json.dumps(choice): choice for choice in field.choices if choice != ALL}
    chosen = [names[json.dumps(entry)] for entry in listed if json.dumps(entry) in names]
    left[field.pointer[1:]] = [entry for entry in listed if json.dumps(entry) not in names]
    if not left[field.pointer[1:]]:
        del left[field.pointer[1:]]
    return tuple(dict.fromkeys(chosen))


def _take_text(left: Document, field: FormField) -> str | None:
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
