"""Words for people about values that do not validate."""

import json
import re
from collections.abc import Collection, Mapping

from pydantic_core import ErrorDetails

_FORMS: Mapping[str, str] = {
    r"^[0-9A-Za-z][0-9A-Za-z._:-]{0,252}$": "a host name: at most 253 letters, digits, dots, "
    "underscores, colons and hyphens",
    r"^[a-z0-9][a-z0-9._-]{0,62}$": "a name of at most 63 lower-case letters, digits, dots, "
    "underscores and hyphens that begins with a letter or a digit",
    r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$": "a name of at most 63 letters, digits, dots, "
    "underscores, slashes and hyphens that begins with a letter or a digit",
    r"^[a-z][a-z0-9_]{0,31}$": "a name of at most 32 lower-case letters, digits and underscores "
    "that begins with a letter",
    r"^[a-z0-9][a-z0-9-]{0,30}$": "a name of at most 31 lower-case letters, digits and hyphens "
    "that begins with a letter or a digit",
    r"^[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*$": "two names with a slash between them, such as "
    "petrov2024/table-1, in lower-case letters, digits and hyphens",
    r"^[\w][\w .:/-]{0,99}$": "a name of at most 100 letters, digits, spaces, dots, underscores, "
    "colons, slashes and hyphens that begins with a letter or a digit",
    r"^[0-9a-f]{64}$": "a SHA-256 in 64 lower-case hexadecimal digits",
    r"^[\x21-\x7e]+$": "text of printable ASCII characters without spaces",
    r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+$": "text without "
    "characters that control how it is shown",
}
"""Every pattern that a request can fail to match."""
_KINDS: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of names to values",
    "model_attributes_type": "a mapping of names to values",
    "none_required": "null",
}
_IN_JSON: Mapping[str, str] = {"True": "true", "False": "false", "None": "null"}
"""The only values that a member can have, as Python and as JSON write them."""
_FOLDER = "folder", "Write folder: hub:ORGANISATION/NAME@REVISION"
_SPELLINGS: Mapping[str, tuple[str, str]] = {"hub": _FOLDER, "revision": _FOLDER}
"""Members that other tools have, by name, with the member of the same place that says it here."""
UNKNOWN = "unknown_"
"""The first part of the codes of a registry's errors, whose messages are sentences."""
MOST_OF_A_VALUE = 40
"""Characters of a wrong value that a message quotes."""
_LENGTH = re.compile(r"\w+ should have (at (?:least|most) \d+ (?:character|item)s?)")


def spelling(name: str, allowed: Collection[str]) -> str | None:
    """Return how to write an unknown member where others are allowed."""
    member, text = _SPELLINGS.get(name, ("", ""))
    return text if member in allowed else None


def demand(error: ErrorDetails) -> str | None:
    """Return the words that complete "must be", None if there are none."""
    code, message = error["type"], error["msg"]
    if code == "string_pattern_mismatch":
        pattern = str((error.get("ctx") or {}).get("pattern"))
        return _FORMS.get(pattern, f"text of the form {pattern}")
    if code in _KINDS:
        return _KINDS[code]
    if code == "union_tag_invalid":
        return f"one of {(error.get('ctx') or {}).get('expected_tags')}"
    if length := _LENGTH.match(message):
        return f"{length[1]} long" if "character" in length[1] else f"a list of {length[1]}"
    wanted = message.removeprefix("Input should be ").removeprefix("a valid ")
    return None if wanted == message else _IN_JSON.get(wanted, wanted)


def sentence(name: str, error: ErrorDetails) -> str:
    """Return the error of a member as a sentence, where `demand` returns None."""
    match error["type"]:
        case "missing" | "union_tag_not_found":
            return f"{name} is missing"
        case "extra_forbidden":
            return f"there is no {name!r} here"
        case "value_error" | "assertion_error":
            reason = error["msg"].partition(", ")[2].rstrip(".")
            return reason or error["msg"]
        case code if code.startswith(UNKNOWN):
            return error["msg"].rstrip(".")
        case _:
            return f"{name}: {error['msg'].rstrip('.')}"


def value_excerpt(value: object) -> str:
    """Return a wrong value for a message: as JSON, shortened, on one line."""
    if value is None or isinstance(value, str | float | int):
        return shortened(json.dumps(value), MOST_OF_A_VALUE)
    return "a mapping" if isinstance(value, Mapping) else "a list"


def shortened(text: str, most: int) -> str:
    """Return a text cut to `most` characters, with an ellipsis if cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
