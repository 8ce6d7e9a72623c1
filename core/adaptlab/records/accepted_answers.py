"""Values of records that hold several right answers."""

import json
from typing import Literal, cast

Several = Literal["list", "bars"]
"""A JSON list of texts or numbers, or texts between vertical bars, as in a column of CSV."""
MOST_ANSWERS = 64
"""Limit of the right answers of one record."""

_BAR = "|"


class NotAnswers(ValueError):
    """A value that does not hold right answers in the form of its task."""


def accepted_in(value: str, several: Several) -> tuple[str, ...]:
    """Return the different right answers in a value, in their order.

    Numbers of a list are texts as they are written. Spaces belong to an answer.

    Raises:
        NotAnswers: there are none or too many, one is empty, or the value is no list.
    """
    found = value.split(_BAR) if several == "bars" else _listed(value)
    answers = tuple(dict.fromkeys(found))
    if not all(answer.strip() for answer in answers) or not 0 < len(answers) <= MOST_ANSWERS:
        raise NotAnswers(wanted(several))
    return answers


def wanted(several: Several) -> str:
    """Return the form of such values, after "Give"."""
    form = '"Lima|the city of Lima"' if several == "bars" else '["Lima", "the city of Lima"]'
    return f"every record 1 to {MOST_ANSWERS} answers, none of them empty, such as {form}"


def _listed(value: str) -> list[str]:
    try:
        read = json.loads(value, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotAnswers(wanted("list")) from error
    members = cast("list[object]", read) if isinstance(read, list) else []
    texts = [member for member in members if isinstance(member, str)]
    if len(texts) < len(members):
        raise NotAnswers(wanted("list"))
    return texts


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON.")
