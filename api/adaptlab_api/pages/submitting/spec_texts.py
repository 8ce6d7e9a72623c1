"""Conversion between the texts of fields and JSON values.

Nothing is checked here: a text that is not of its field's kind remains a text, and the validation
of the spec reports it.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Literal, cast

from adaptlab.errors import InvalidSpec
from adaptlab.weights.hub_name import PREFIX, HubName
from adaptlab_api.pages.rendering.annotation_form import labels_of

Kind = Literal[
    "integer",
    "number",
    "text",
    "flag",
    "choice",
    "integers",
    "numbers",
    "texts",
    "labels",
    "open",
    "lines",
    "hub_model",
]
"""`integers` is one integer or a list, `open` a bare text or JSON, `lines` a list of these,
`labels` lines of `name = value`, and `hub_model` the import of a model by its name on the hub."""

Json = object
"""Any JSON value, as Python's parser returns it."""

NAMELESS = "model"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,4})?", re.IGNORECASE)
_SPACES = re.compile(r"(?<=[0-9])[ _\u2009\u202f\u00a0](?=[0-9]{3})")
_COMMAS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(,|$))")
_BETWEEN = re.compile(r"[,;\s]+")


def read(kind: Kind, text: str) -> Json:
    """Return the value of a text that is not empty."""
    return _READ[kind](text)


def write(kind: Kind, value: Json) -> str | None:
    """Return the text that `read` converts to this value, or None."""
    text = _written(kind, value)
    if text is None or not text.strip():
        return None
    back = read(kind, text.strip())
    return text if json.dumps(back) == json.dumps(value) else None


def pretty(value: Json) -> str:
    """Format as indented JSON, without escapes for non-ASCII characters."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _written(kind: Kind, value: Json) -> str | None:
    match kind, value:
        case "open", _:
            return _opened(value)
        case "lines", list():
            return "\n".join(_opened(entry) for entry in cast("list[Json]", value))
        case "hub_model", {"folder": str(folder)}:
            return folder
        case "hub_model", _:
            return None
        case _, str():
            return value
        case "labels", Mapping():
            labels = cast("Mapping[str, Json]", value)
            return "\n".join(f"{name} = {label}" for name, label in labels.items())
        case "integers" | "numbers" | "texts", list():
            listed = ", ".join(_scalar(entry) for entry in cast("list[Json]", value))
            return f"{listed}," if kind == "integers" and "," not in listed else listed
        case _, bool() | int() | float():
            return _scalar(value)
        case _:
            return None


def _scalar(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _opened(value: Json) -> str:
    if isinstance(value, str) and _open(value.strip()) == value and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=False)


def _open(text: str) -> Json:
    if not text.startswith(("{", "[", '"')):
        return text
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half a character cannot be shown
    except (ValueError, RecursionError):
        return text
    return value


def _integer(text: str) -> Json:
    plain = _COMMAS.sub("", _SPACES.sub("", text))
    return int(plain) if _INTEGER.fullmatch(plain) else text


def _number(text: str) -> Json:
    plain = _SPACES.sub("", text)
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if _NUMBER.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text


def _parts(text: str) -> list[str]:
    return [part for part in _BETWEEN.split(text) if part]


def _flag(text: str) -> Json:
    return {"true": True, "false": False}.get(text, text)


def _integers(text: str) -> Json:
    listed = [_integer(part) for part in _parts(text)]
    return listed if len(listed) > 1 or "," in text else _integer(text)


def _numbers(text: str) -> Json:
    return [_number(part) for part in _parts(text)]


def _lines(text: str) -> Json:
    return [_open(line.strip()) for line in text.splitlines() if line.strip()]


def _hub_model(text: str) -> Json:
    """Return the spec of an import, which is named after its repository."""
    folder = PREFIX + text.removeprefix(PREFIX)
    try:
        name = HubName.read(folder, "").usual_name
    except InvalidSpec:  # which the validation reports
        name = NAMELESS
    return {"kind": "import", "name": name, "folder": folder}


_READ: Mapping[Kind, Callable[[str], Json]] = {
    "integer": _integer,
    "number": _number,
    "text": str,
    "flag": _flag,
    "choice": str,
    "integers": _integers,
    "numbers": _numbers,
    "texts": _parts,
    "labels": labels_of,
    "open": _open,
    "lines": _lines,
    "hub_model": _hub_model,
}
