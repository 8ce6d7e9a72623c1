"""Pydantic's errors as problems with JSON pointers into a document."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import cast

from pydantic_core import ErrorDetails

from adaptlab.errors import Problem
from adaptlab.schema_names import names_at
from adaptlab.wording import UNKNOWN, demand, sentence, spelling

Schema = Callable[[], Mapping[str, object]]

MOST_PROBLEMS = 100
"""A body can have as many as its megabyte has values; their sentences took seconds."""


def validation_problems(
    errors: Iterable[ErrorDetails],
    document: object,
    pointer: str = "",
    schema: Schema | None = None,
) -> tuple[Problem, ...]:
    """Return a problem for each place in `document` that does not validate.

    There are at most `MOST_PROBLEMS`. The names of union members, which pydantic puts into a
    location, are left out. The errors of several members of a union about one place become one
    problem. If an entry of a list or mapping is invalid, only the entry is reported, because errors
    about the whole follow from it.

    Args:
        errors: pydantic's errors.
        document: the input as the user sent it.
        pointer: the JSON pointer of the document in the request.
        schema: returns the JSON schema of the document, to suggest names of members.
    """
    by_place: dict[str, list[ErrorDetails]] = {}
    placed = [(pointer + _pointer(f["loc"], document, f["type"]), f) for f in errors]
    containers = {container for place, _ in placed for container in _containers(place)}
    for place, error in placed:
        if place not in containers:
            by_place.setdefault(place, []).append(error)
    first = islice(by_place.items(), MOST_PROBLEMS)
    return tuple(_problem(place, here, document, schema) for place, here in first)


def error_text(name: str, errors: Sequence[ErrorDetails]) -> str:
    """Return the errors of one value as one sentence."""
    wanted = dict.fromkeys(words for error in errors if (words := demand(error)) is not None)
    other = dict.fromkeys(sentence(name, error) for error in errors if demand(error) is None)
    demands = [f"{name} must be {' or '.join(wanted)}"] if wanted else []
    text = "; ".join([*demands, *other])
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _problem(
    place: str, errors: Sequence[ErrorDetails], document: object, schema: Schema | None
) -> Problem:
    first = errors[0]
    name = _subject(place)
    allowed = tuple(dict.fromkeys(word for error in errors for word in _allowed(error)))
    sought = _value(first["loc"], document)
    if first["type"] == "extra_forbidden":
        sought = str(first["loc"][-1])
        allowed = () if schema is None else names_at(schema(), first["loc"][:-1])
    near = get_close_matches(sought, allowed, n=3, cutoff=0.6) if isinstance(sought, str) else ()
    text = error_text(name, errors)
    if isinstance(sought, str) and (written := spelling(sought, allowed)) is not None:
        text = f"{text} {written}."
    detail = text[0].upper() + text[1:] if text.startswith("there ") else text
    return Problem(place, first["type"], detail, allowed, tuple(near))


def escaped(part: str) -> str:
    """Return a name as a part of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")


def _containers(place: str) -> Iterator[str]:
    """Yield the pointers of the lists and mappings that contain a place."""
    while place:
        place = place.rpartition("/")[0]
        yield place


def _subject(place: str) -> str:
    """Return the name of a pointer's target, such as `seeds[3]` or `The body`."""
    *before, last = ("", *(part.replace("~1", "/").replace("~0", "~") for part in _parts(place)))
    if last.isdecimal() and before and before[-1]:
        return f"{before[-1]}[{last}]"
    return last or "The body"


def _parts(place: str) -> Iterator[str]:
    yield from place.split("/")[1:]


def _value(location: tuple[int | str, ...], document: object) -> object:
    here = document
    for part in location:
        inside, below = _member(here, part)
        here = below if inside else here
    return here


def _pointer(location: tuple[int | str, ...], document: object, code: str) -> str:
    parts: list[str] = []
    here = document
    for index, part in enumerate(location):
        inside, below = _member(here, part)
        if inside:
            here = below
        elif code != "missing" or index < len(location) - 1:
            continue  # the name of a union member, not a place in the body
        parts.append(escaped(str(part)))
    if code.startswith("union_tag"):
        parts.append("kind")  # the only discriminator of a request body
    return "".join(f"/{part}" for part in parts)


def _member(container: object, part: int | str) -> tuple[bool, object]:
    """Return whether `container` has a member `part`, and its value."""
    if isinstance(container, Mapping):
        members = cast("Mapping[int | str, object]", container)
        return part in members, members.get(part)
    if isinstance(container, list | tuple) and isinstance(part, int):
        items = cast("Sequence[object]", container)
        return (True, items[part]) if part < len(items) else (False, None)
    return False, None


def _allowed(error: ErrorDetails) -> tuple[str, ...]:
    is_choice = error["type"] in ("literal_error", "enum", "union_tag_invalid")
    if not is_choice and not error["type"].startswith(UNKNOWN):
        return ()
    context = error.get("ctx") or {}
    expected = context.get("expected") or context.get("expected_tags") or ""
    text = str(expected).replace(" or ", ", ")
    return tuple(word.strip(" '") for word in text.split(",") if word.strip(" '"))
