"""Pydantic's complaints as problems with JSON pointers into what the user sent."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import cast

from pydantic_core import ErrorDetails

from adaptlab.errors import Problem
from adaptlab.schema_names import names_at
from adaptlab.wording import UNKNOWN, demand, sentence

Schema = Callable[[], Mapping[str, object]]


def validation_problems(
    faults: Iterable[ErrorDetails], given: object, pointer: str = "", schema: Schema | None = None
) -> tuple[Problem, ...]:
    """One problem for each place in `given` that does not validate.

    The names of union members, which pydantic puts into a fault's location, are left out, and
    the complaints of several members about one place become one. A list is not called too short
    when it is so only because entries at fault were not counted. `schema` makes the JSON schema of
    what was expected, from which the names come that a member may have.
    """
    at: dict[str, list[ErrorDetails]] = {}
    placed = [(pointer + _pointer(f["loc"], given, f["type"]), f) for f in faults]
    for place, fault in placed:
        if fault["type"] == "too_short" and any(p.startswith(f"{place}/") for p, _ in placed):
            continue
        at.setdefault(place, []).append(fault)
    return tuple(_problem(place, found, given, schema) for place, found in at.items())


def told(name: str, faults: Sequence[ErrorDetails]) -> str:
    """What is wrong with one value, in one sentence."""
    wanted = dict.fromkeys(one for fault in faults if (one := demand(fault)) is not None)
    other = dict.fromkeys(sentence(name, one) for one in faults if demand(one) is None)
    demands = [f"{name} must be {' or '.join(wanted)}"] if wanted else []
    text = "; ".join([*demands, *other])
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _problem(
    place: str, faults: Sequence[ErrorDetails], given: object, schema: Schema | None
) -> Problem:
    first = faults[0]
    name = _subject(place)
    allowed = tuple(dict.fromkeys(word for fault in faults for word in _allowed(fault)))
    sought = _value(first["loc"], given)
    if first["type"] == "extra_forbidden":
        sought = str(first["loc"][-1])
        allowed = () if schema is None else names_at(schema(), first["loc"][:-1])
    near = get_close_matches(sought, allowed, n=3, cutoff=0.6) if isinstance(sought, str) else ()
    text = told(name, faults)
    detail = text[0].upper() + text[1:] if text.startswith("there ") else text
    return Problem(place, first["type"], detail, allowed, tuple(near))


def _subject(place: str) -> str:
    """What a pointer points at, by its last name: `seeds[3]`; the whole is the body."""
    *before, last = ("", *(part.replace("~1", "/").replace("~0", "~") for part in _parts(place)))
    if last.isdecimal() and before and before[-1]:
        return f"{before[-1]}[{last}]"
    return last or "The body"


def _parts(place: str) -> Iterator[str]:
    yield from place.split("/")[1:]


def _value(location: tuple[int | str, ...], given: object) -> object:
    here = given
    for part in location:
        inside, below = _member(here, part)
        here = below if inside else here
    return here


def _pointer(location: tuple[int | str, ...], given: object, code: str) -> str:
    parts: list[str] = []
    here = given
    for index, part in enumerate(location):
        inside, below = _member(here, part)
        if inside:
            here = below
        elif code != "missing" or index < len(location) - 1:
            continue  # the name of a union member, not a place in the body
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    if code.startswith("union_tag"):
        parts.append("kind")  # the only discriminator of a request body
    return "".join(f"/{part}" for part in parts)


def _member(container: object, part: int | str) -> tuple[bool, object]:
    """Whether `container` holds `part`, and what stands there."""
    if isinstance(container, Mapping):
        members = cast("Mapping[int | str, object]", container)
        return part in members, members.get(part)
    if isinstance(container, list | tuple) and isinstance(part, int):
        items = cast("Sequence[object]", container)
        return (True, items[part]) if part < len(items) else (False, None)
    return False, None


def _allowed(fault: ErrorDetails) -> tuple[str, ...]:
    is_choice = fault["type"] in ("literal_error", "enum", "union_tag_invalid")
    if not is_choice and not fault["type"].startswith(UNKNOWN):
        return ()
    context = fault.get("ctx") or {}
    expected = context.get("expected") or context.get("expected_tags") or ""
    text = str(expected).replace(" or ", ", ")
    return tuple(word.strip(" '") for word in text.split(",") if word.strip(" '"))
