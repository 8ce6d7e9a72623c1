"""Bounds of single values in a report."""

import math
from collections.abc import Iterator, Mapping, Sequence

from adaptlab.errors import Problem

LONGEST_TEXT = 1000
"""Characters of a reported text."""
ROUNDING = 1e-6
"""Tolerance beyond a bound, for float64 and means over many rows."""
NULL = "\0"
"""The character that Postgres cannot store."""
NULL_SHOWN = "\N{SYMBOL FOR NULL}"
LONGEST_WORD = 100
"""Characters of a token's text that are kept."""
_SHOWN = 80


def number(pointer: str, value: float | None, low: float, high: float) -> Iterator[Problem]:
    """Yield a problem unless `value` is None or from `low` to `high`."""
    if value is not None and not (math.isfinite(value) and low <= value <= high):
        detail = f"{value:g} is outside {low:g} to {high:g}."
        yield Problem(pointer, "out_of_range", detail, nearest=(min(max(value, low), high),))


def count(pointer: str, value: int, low: int, high: int) -> Iterator[Problem]:
    """Yield a problem unless a whole number is from `low` to `high`."""
    if not low <= value <= high:
        detail = f"{brief(value)} is outside {low} to {high}."
        yield Problem(pointer, "out_of_range", detail, nearest=(min(max(value, low), high),))


def equal(pointer: str, value: object, expected: object, noun: str) -> Iterator[Problem]:
    """Yield a problem unless `value` follows from the job's spec."""
    if value != expected:
        detail = f"The job's {noun} is {brief(expected)}, not {brief(value)}."
        yield Problem(pointer, "other_than_resolved", detail)


def one_of(pointer: str, value: str, allowed: tuple[str, ...], noun: str) -> Iterator[Problem]:
    """Yield a problem unless `value` is one of the allowed words."""
    if value not in allowed:
        choice = ", ".join(allowed) or "none"
        detail = f"The job has no {noun} {brief(value)}. Use one of: {choice}."
        yield Problem(pointer, "unknown_name", detail, allowed=allowed)


def text(pointer: str, value: str | None, most: int = LONGEST_TEXT) -> Iterator[Problem]:
    """Yield a problem for a text of more than `most` characters."""
    if value is not None and len(value) > most:
        detail = f"The text has {len(value):,} characters. The limit is {most:,}."
        yield Problem(pointer, "too_long", detail, nearest=(most,))


def texts(pointer: str, members: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of all texts among the members."""
    for name, value in members.items():
        if isinstance(value, str):
            yield from text(f"{pointer}/{name}", value)


def storable(text: str) -> str:
    """Return the text with another sign for the one that cannot be stored."""
    return text.replace(NULL, NULL_SHOWN)


def is_storable(text: str) -> bool:
    """Return True if all characters can be stored."""
    return NULL not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def word_excerpt(text: str) -> str:
    """Return the start of a token's text."""
    return storable(text[:LONGEST_WORD])


def of_words(pointer: str, words: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for the first word that is too long or not storable."""
    for word in words:
        if len(word) > LONGEST_WORD or not is_storable(word):
            detail = (
                f"{brief(word)} is longer than {LONGEST_WORD} characters, or has one that cannot "
                "be stored. Shorten it, or replace the character."
            )
            yield Problem(pointer, "bad_word", detail)
            return


def brief(value: object) -> str:
    """Return a value for a message, shortened."""
    try:
        shown = repr(value)
    except ValueError:  # Python does not print integers of more than some thousand digits
        return "(too large)"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} …"
