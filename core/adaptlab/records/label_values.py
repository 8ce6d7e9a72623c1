"""Values of a field that are no labels, or one label written in two ways."""

import math
from collections.abc import Iterable, Iterator

MISSING = ("", "nan", "na", "n/a", "null", "none", "nil", "<na>", "#n/a", "?")
"""Values that programs write where there is none, in small letters."""


AMBIGUOUS = ("na", "none", "nil")
"""As written here, values that can be a label, such as the intent `none`; programs write `None`."""


def is_missing(value: str) -> bool:
    """Return True if a value usually means that there is no label."""
    return value.strip().lower() in MISSING


def can_be_a_label(value: str) -> bool:
    """Return True if a value that usually means no label can be one."""
    return value in AMBIGUOUS


def alike(values: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield values that are one label in several writings.

    They differ in spaces or case, or are one number, such as 1 and 1.0.
    """
    groups: dict[object, list[str]] = {}
    for value in values:
        groups.setdefault(_same(value), []).append(value)
    return (tuple(group) for group in groups.values() if len(group) > 1)


def _same(value: str) -> object:
    text = " ".join(value.split()).casefold()
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def are_codes(values: Iterable[str]) -> bool:
    """Return True if values are numbers, or true and false."""
    return all(_is_code(value) for value in values)


def _is_code(value: str) -> bool:
    return value.strip().lower() in ("true", "false", "t", "f") or isinstance(_same(value), float)
