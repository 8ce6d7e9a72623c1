"""Forms of right answers that some metrics read, and how they read them."""

import json
import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

AnswerForm = Literal["number", "latin", "json"]
MARKER = "####"
"""The sign before the final number of an answer, as in GSM8K."""

_SIGNS_OF_MONEY = str.maketrans("\N{MINUS SIGN}", "-", "$€£¥")
_LOOKS_LIKE_NUMBER = re.compile(r"(?<![\w.])[-+]?\.?\d[\d.,:/'’]*(?:[eE][-+]?\d+)?")
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<whole>\d{1,3}(?:,\d{3})+|\d{1,3}(?:['’]\d{3})+|\d*)"
    r"(?P<rest>(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)"
)
_BEGINS_JSON = frozenset('{["-tfn' + string.digits)
_LATIN_SIGN = re.compile(r"[a-zA-Z0-9]")
_LATIN_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class FormCheck:
    """A form of answers: what has it, and how an error names it."""

    has: Callable[[str], bool]
    wanted: str


def number_in(text: str) -> Decimal | None:
    """Return the number after the last `####`, else the last one of a text.

    None if there is none, or if it cannot be read with certainty, as in 3,5 or 1/2. Commas and
    apostrophes separate thousands; a point is that of decimals. Signs of money, per cent and units
    are left out, so 72 % is 72 and not 0.72. 1e3 is 1000, and digits of full width are digits.
    """
    if MARKER in text:
        return marked_number_in(text)
    words = _number_words(text)
    return _as_number(words[-1]) if words else None


def marked_number_in(text: str) -> Decimal | None:
    """Return the first number after the last `####`, None without one."""
    _, marker, after = text.rpartition(MARKER)
    words = _number_words(after) if marker else []
    return _as_number(words[0]) if words else None


def _number_words(text: str) -> list[str]:
    if text.isascii():
        return _LOOKS_LIKE_NUMBER.findall(text.replace("$", ""))
    plain = unicodedata.normalize("NFKC", text).translate(_SIGNS_OF_MONEY)
    return _LOOKS_LIKE_NUMBER.findall(plain)


def _as_number(word: str) -> Decimal | None:
    match = _NUMBER.fullmatch(word.rstrip(".,:/'’"))
    if match is None:
        return None
    whole = re.sub(r"[,'’]", "", match["whole"])
    return Decimal(f"{match['sign']}{whole or '0'}{match['rest']}")


def latin_words(text: str) -> list[str]:
    """Return the words of small letters a to z and digits.

    Every other character separates words, as in rouge-score without stemming.
    """
    return _LATIN_WORD.findall(text.lower())


def is_latin(text: str) -> bool:
    """Return True if most letters and digits are among those of `latin_words`."""
    if text.isascii():
        return _LATIN_SIGN.search(text) is not None
    read = sum(map(len, latin_words(text)))
    return read > 0 and 2 * read >= sum(sign.isalnum() for sign in text)


class NotPlainJson(ValueError):
    """A text that is no JSON, repeats a key, or has a number that is NaN."""


def json_in(text: str) -> object:
    """Return a JSON value, with numbers as `Decimal`.

    Raises:
        NotPlainJson: the text is none, a key occurs twice, or a number is not finite.
    """
    try:
        return json.loads(
            text,
            parse_int=Decimal,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_distinct,
        )
    except (ValueError, RecursionError) as error:
        raise NotPlainJson(str(error)) from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON.")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("A key occurs twice.")
    return members


def _is_json(text: str) -> bool:
    # Most texts of other fields are told apart by their first character.
    if text.lstrip()[:1] not in _BEGINS_JSON:
        return False
    try:
        json_in(text)
    except NotPlainJson:
        return False
    return True


FORMS: Mapping[AnswerForm, FormCheck] = MappingProxyType(
    {
        "number": FormCheck(
            lambda text: number_in(text) is not None,
            "end with a number, such as 1,234.5, or with one after ####",
        ),
        "latin": FormCheck(is_latin, "consist mostly of letters a to z and digits"),
        "json": FormCheck(_is_json, "be JSON, without repeated keys and without NaN"),
    }
)
LONGEST_CHECKED = 4096
"""Characters of a value above which it is not checked: it is no answer."""


def first_without(values: Sequence[str], form: AnswerForm) -> int | None:
    """Return the place of the first value without a form, None if all have it.

    A value that is too long to be an answer has every form.
    """
    has = FORMS[form].has
    return next(
        (at for at, one in enumerate(values) if len(one) <= LONGEST_CHECKED and not has(one)), None
    )
