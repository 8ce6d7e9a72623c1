"""Pydantic's complaints as problems with JSON pointers into what the user sent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from pydantic_core import ErrorDetails

from adaptlab.errors import Problem


def validation_problems(
    faults: Iterable[ErrorDetails], given: object, pointer: str = ""
) -> tuple[Problem, ...]:
    """One problem for each place in `given` that does not validate.

    The names of union members, which pydantic puts into a fault's location, are left out, and
    the complaints of several members about one place become one. A list is not called too short
    when it is so only because entries at fault were not counted.
    """
    details: dict[str, list[str]] = {}
    codes: dict[str, str] = {}
    allowed: dict[str, tuple[str, ...]] = {}
    placed = [(pointer + _pointer(f["loc"], given, f["type"]), f) for f in faults]
    for place, fault in placed:
        if fault["type"] == "too_short" and any(p.startswith(f"{place}/") for p, _ in placed):
            continue
        details.setdefault(place, []).append(fault["msg"])
        codes.setdefault(place, fault["type"])
        allowed[place] = allowed.get(place, ()) + _allowed(fault)
    return tuple(
        Problem(place, codes[place], "; ".join(dict.fromkeys(texts)) + ".", allowed[place])
        for place, texts in details.items()
    )


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
    context = fault.get("ctx") or {}
    expected = context.get("expected") or context.get("expected_tags") or ""
    text = str(expected).replace(" or ", ", ")
    return tuple(word.strip(" '") for word in text.split(",") if word.strip(" '"))
