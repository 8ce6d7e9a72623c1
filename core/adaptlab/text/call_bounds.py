"""Upper bounds on what one call of a template makes, before it is made.

The steps of a template are counted, but one call can make gigabytes, such as a text that is padded
to a width. Only `adaptlab.text.sandbox` loads this.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, cast

Arguments = Sequence[Any]  # of a template, which can be of any type
Names = Mapping[str, Any]
Bound = Callable[[Any, Arguments, Names], int]
"""Returns the characters or items that a call makes at most, of a value and its arguments."""

UNBOUNDED = 2**62
LONG_NUMBER = re.compile(r"\d{4}")
PADDED = 4096
"""Limit of what one directive of a format can add, of at most three digits each."""


def _width(value: Any, arguments: Arguments, names: Names) -> int:
    widths = [one for one in (*arguments, *names.values()) if isinstance(one, int)]
    return max([length(value), *widths])


def _replaced(value: Any, arguments: Arguments, names: Names) -> int:
    texts = [str(one) for one in (*arguments, names.get("old", ""), names.get("new", ""))]
    old, new = (texts[0], texts[1]) if len(arguments) > 1 else (texts[-2], texts[-1])
    if len(arguments) == 1:
        old, new = texts[0], texts[-1]
    text = str(value)
    count = text.count(old) if old else len(text) + 1
    return len(text) + count * len(new)


def _joined(value: Any, arguments: Arguments, names: Names) -> int:
    """Return the length of `separator.join(texts)`."""
    texts = arguments[0] if arguments else ()
    separators = length(value) * (len(texts) if hasattr(texts, "__len__") else UNBOUNDED)
    return separators + length(texts)


def _tabs(value: Any, arguments: Arguments, names: Names) -> int:
    size = max([8, *(one for one in (*arguments, *names.values()) if isinstance(one, int))])
    return length(value) + str(value).count("\t") * size


def _formatted(value: Any, arguments: Arguments, names: Names) -> int:
    text = str(value)
    directives = text.count("{") + text.count("%")
    nests = re.search(r"\{[^}]*\{", text) or "*" in text
    if LONG_NUMBER.search(text) or nests:
        return UNBOUNDED
    given = length([*arguments, *names.values()])
    return len(text) + directives * (PADDED + given)


def _translated(value: Any, arguments: Arguments, names: Names) -> int:
    longest = 1
    for one in (*arguments, *names.values()):
        if isinstance(one, Mapping):
            table = cast("Mapping[Any, Any]", one)
            longest = max([longest, *map(length, table.values())])
    return length(value) * longest


def _indented(value: Any, arguments: Arguments, names: Names) -> int:
    made = length(value)
    lines = value.count("\n") + 1 if isinstance(value, str) else made // 4 + 1
    for one in (*arguments, *names.values()):
        made += lines * (one if isinstance(one, int) else length(one))
    return made


def _filter_joined(value: Any, arguments: Arguments, names: Names) -> int:
    separator = max(map(length, (*arguments, *names.values())), default=0)
    count = len(value) if hasattr(value, "__len__") else 0
    return length(value) + separator * count


def _by_attributes(value: Any, arguments: Arguments, names: Names) -> int:
    keys = [one for one in (*arguments, *names.values()) if isinstance(one, str)]
    parts = sum(key.count(",") + key.count(".") + 1 for key in keys)
    count = len(value) if hasattr(value, "__len__") else 0
    return count * max(1, parts) * SORTED


def _as_text(value: Any, arguments: Arguments, names: Names) -> int:
    return length(value)


SORTED = 16
"""Memory of an item of a list that is made, in characters."""

METHODS: Mapping[str, Bound] = MappingProxyType(
    {
        **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _width),
        **dict.fromkeys(("format", "format_map"), _formatted),
        "replace": _replaced,
        "join": _joined,
        "expandtabs": _tabs,
        "translate": _translated,
        "to_bytes": _width,
    }
)
"""Methods of texts, bytes and numbers whose result can be far longer than the text."""
FILTERS: Mapping[str, Bound] = MappingProxyType(
    {
        **dict.fromkeys(("center", "batch", "slice", "truncate", "round"), _width),
        **dict.fromkeys(("indent", "wordwrap", "tojson", "pprint"), _indented),
        **dict.fromkeys(("sort", "groupby", "map", "unique", "min", "max", "list", "reverse",
                         "dictsort", "select", "reject", "selectattr", "rejectattr"),
                        _by_attributes),
        "replace": _replaced,
        "format": _formatted,
        "join": _filter_joined,
        **dict.fromkeys(("string", "sum"), _as_text),
    }
)  # fmt: skip
"""Filters, of which the same holds."""


def length(value: Any) -> int:
    """Return about the characters of a value as text.

    Lists and mappings are followed. A list that contains another one many times counts it as often.
    The count ends when it is far too large.
    """
    total, waiting = 0, [value]
    while waiting and total <= ENOUGH:
        one = waiting.pop()
        if isinstance(one, str | bytes):
            total += len(one)
        elif isinstance(one, int) and not isinstance(one, bool):
            total += one.bit_length() // 3 + 2
        elif isinstance(one, Mapping):
            waiting += islice(_both(cast("Mapping[Any, Any]", one)), ENOUGH)
            total += 4
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += islice(cast("Sequence[Any]", one), ENOUGH)
            total += 2
        else:
            total += 8
    return total if total <= ENOUGH else UNBOUNDED


ENOUGH = 2**21


def _both(mapping: Mapping[Any, Any]) -> Sequence[Any]:
    return [part for pair in mapping.items() for part in pair]
