"""Bounds of single values in a report, each refused with its place, its value and the limit."""

import math
from collections.abc import Iterator, Mapping

from adaptlab.errors import Problem

LONGEST_TEXT = 1000
"""Characters of a text that a run reports about itself."""
ROUNDING = 1e-6
"""What float64 and a mean over many rows may add to a figure beyond its bound."""
_SHOWN = 80


def number(pointer: str, value: float | None, low: float, high: float) -> Iterator[Problem]:
    """A problem unless `value` is None, or finite and from `low` to `high`."""
    if value is not None and not (math.isfinite(value) and low <= value <= high):
        detail = f"{value:g} is outside {low:g} to {high:g}."
        yield Problem(pointer, "out_of_range", detail, nearest=(min(max(value, low), high),))


def count(pointer: str, value: int, low: int, high: int) -> Iterator[Problem]:
    """A problem unless `value` is a whole number from `low` to `high`."""
    if not low <= value <= high:
        detail = f"{brief(value)} is outside {low} to {high}."
        yield Problem(pointer, "out_of_range", detail, nearest=(min(max(value, low), high),))


def equal(pointer: str, value: object, expected: object, noun: str) -> Iterator[Problem]:
    """A problem unless `value` is the one that the job's spec leads to."""
    if value != expected:
        detail = f"The job's {noun} is {brief(expected)}, not {brief(value)}."
        yield Problem(pointer, "other_than_resolved", detail)


def one_of(pointer: str, value: str, allowed: tuple[str, ...], noun: str) -> Iterator[Problem]:
    """A problem unless `value` is one of a few words."""
    if value not in allowed:
        choice = ", ".join(allowed) or "none"
        detail = f"The job has no {noun} {brief(value)}; it has {choice}."
        yield Problem(pointer, "unknown_name", detail, allowed=allowed)


def text(pointer: str, value: str | None, most: int = LONGEST_TEXT) -> Iterator[Problem]:
    """A problem for a text that is longer than `most` characters."""
    if value is not None and len(value) > most:
        detail = f"The text has {len(value)} characters; at most {most} are taken."
        yield Problem(pointer, "too_long", detail, nearest=(most,))


def texts(pointer: str, members: Mapping[str, object]) -> Iterator[Problem]:
    """The problems of all texts among some members."""
    for name, value in members.items():
        if isinstance(value, str):
            yield from text(f"{pointer}/{name}", value)


def brief(value: object) -> str:
    """A value for a message, cut to a sensible length."""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no number of more than some thousand digits
        return "(too large)"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} …"
