"""Values of records that hold several right answers."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal, cast

Several = Literal["list", "bars"]
"""A JSON list of texts or numbers, or texts between vertical bars, as in a column of CSV.

Where lists are read, another text that is no JSON is the only answer of its record.
"""
MOST_ANSWERS = 256
"""Limit of the right answers of one record."""

_BAR = "|"


NO_ANSWER = ""
"""The right answer of a question that has none, as SQuAD 2.0 counts it."""


class NotAnswers(ValueError):
    """A value that does not hold right answers in the form of its task."""


def accepted_in(value: str, several: Several) -> tuple[str, ...]:
    """Return the different right answers in a value, in their order.

    Numbers of a list are texts as they are written. Spaces belong to an answer. An empty list has
    the only right answer `NO_ANSWER`.

    Raises:
        NotAnswers: there are too many, one is empty, or the value is other JSON.
    """
    found = value.split(_BAR) if several == "bars" else _listed(value)
    if not found:
        return (NO_ANSWER,)
    answers = tuple(dict.fromkeys(found))
    if not all(answer.strip() for answer in answers) or len(answers) > MOST_ANSWERS:
        raise NotAnswers(wanted(several))
    return answers


def wanted(several: Several) -> str:
    """Return the form of such values, after "Give"."""
    form = '"Lima|the city of Lima"'
    if several == "list":
        form = '["Lima", "the city of Lima"], or [] where there is none'
    return f"every record up to {MOST_ANSWERS} answers, none of them empty, such as {form}"


def answers_of_published(members: Mapping[str, object]) -> Sequence[object] | None:
    """Return the right answers in an object of SQuAD or TriviaQA.

    That of SQuAD has the lists `text` and `answer_start`, and that of TriviaQA a `value` with its
    `aliases`. None of another object.
    """
    if set(members) == {"text", "answer_start"} and isinstance(members["text"], list):
        return cast("list[object]", members["text"])
    if "value" in members and isinstance(members.get("aliases"), list):
        return [members["value"], *cast("list[object]", members["aliases"])]
    return None


def published(given: object) -> object:
    """Return the right answers in a published form as a value of a record.

    It is the only one of them, a list of several, or an empty list if there is none, as in SQuAD
    2.0. An only answer that could be taken for JSON is a list. Another value stays as it is.
    """
    if not isinstance(given, dict):
        return given
    found = answers_of_published(cast("dict[str, object]", given))
    if found is None or not all(isinstance(one, str) for one in found):
        return cast("object", given)
    texts = list(dict.fromkeys(cast("Sequence[str]", found)))
    return texts[0] if len(texts) == 1 and not _may_be_json(texts[0]) else texts


def texts_listed(value: str) -> tuple[str, ...] | None:
    """Return the members of a JSON list that has texts only, None otherwise."""
    if not value.lstrip().startswith("["):
        return None
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return None
    members = cast("list[object]", read)
    return tuple(map(str, members)) if all(isinstance(one, str) for one in members) else None


def _may_be_json(text: str) -> bool:
    return text.lstrip().startswith(("[", "{"))


def _listed(value: str) -> list[str]:
    if not _may_be_json(value):
        return [value]
    try:
        read = json.loads(value, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotAnswers(wanted("list")) from error
    members = cast("list[object]", read) if isinstance(read, list) else [read]
    texts = [member for member in members if isinstance(member, str)]
    if len(texts) < len(members):
        raise NotAnswers(wanted("list"))
    return texts


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON.")
