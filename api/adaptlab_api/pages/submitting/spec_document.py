"""A spec as a JSON document, read and changed by JSON pointer."""

from collections.abc import Mapping
from typing import cast

Document = dict[str, object]

LONGEST_INDEX = 7
END = "-"
"""The place after the last entry of a list, in a pointer."""


def put(document: Document, pointer: str, value: object) -> None:
    """Write a value; create the objects above it, also for a bare name."""
    *way, last = parts_of(pointer)
    here: object = document
    for part, below in zip(way, [*way, last][1:], strict=True):
        here = _entered(here, part, below)
    _write(here, last, value)


def look(document: object, pointer: str) -> object:
    """Return the value at a place, or None."""
    here = document
    for part in parts_of(pointer):
        if isinstance(here, dict):
            here = cast("Document", here).get(part)
        elif isinstance(here, list) and (index := _index(part)) is not None:
            entries = cast("list[object]", here)
            here = entries[index] if index < len(entries) else None
        else:
            return None
    return here


def take(document: Document, pointer: str) -> None:
    """Remove the value at a place, and the containers that become empty."""
    parts = parts_of(pointer)
    for length in range(len(parts), 0, -1):
        above = look(document, pointer_of(parts[: length - 1]))
        here = look(document, pointer_of(parts[:length]))
        if length < len(parts) and here not in ({}, []):
            return
        _drop(above, parts[length - 1])


def parts_of(pointer: str) -> list[str]:
    """Return the parts of a JSON pointer (RFC 6901)."""
    split = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in split]


def pointer_of(parts: list[str]) -> str:
    """Return the JSON pointer of these parts."""
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)


def is_document(value: object) -> bool:
    """Return True if a JSON value is an object."""
    return isinstance(value, Mapping)


def _entered(here: object, part: str, below: str) -> object:
    """Return the container at `part`, created for `below` if necessary."""
    value = look(here, pointer_of([part]))
    container: object
    is_entry = below == END or _index(below) is not None
    if isinstance(value, str) and not is_entry:
        container = {"name": value}
    elif isinstance(value, list if is_entry else dict):
        return cast("object", value)
    else:
        container = [] if is_entry else {}
    _write(here, part, container)
    return container


def _write(here: object, part: str, value: object) -> None:
    if isinstance(here, list):
        entries = cast("list[object]", here)
        index = _index(part)
        if index is not None and index < len(entries):
            entries[index] = value
        else:
            entries.append(value)
    elif isinstance(here, dict):
        cast("Document", here)[part] = value


def _drop(here: object, part: str) -> None:
    if isinstance(here, dict):
        cast("Document", here).pop(part, None)
    elif isinstance(here, list) and (index := _index(part)) is not None:
        del cast("list[object]", here)[index : index + 1]


def _index(part: str) -> int | None:
    return int(part) if part.isascii() and part.isdigit() and len(part) < LONGEST_INDEX else None
