"""Errors and fields of the filter above a list."""

import re
from dataclasses import dataclass

from adaptlab.errors import InvalidSpec
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.job_fields import job_fields

AROUND = 40
"""Characters of a filter shown on either side of what is invalid."""
_WORD = re.compile(r'"[^"]*"?|[^\s()=<>!~,"]+|.')


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """The error in a filter: `at` is invalid, between the text around it."""

    detail: str
    before: str
    at: str
    after: str
    nearest: tuple[str, ...]


def fault_of(text: str) -> FilterProblem | None:
    """Return the first error in a filter of jobs, or None if it is valid."""
    try:
        condition(text, job_fields(), Joins())
    except InvalidSpec as error:
        problem = error.problems[0]
        start = len(text) if problem.column is None else min(problem.column - 1, len(text))
        word = _WORD.match(text, start)
        stop = start if word is None else word.end()
        nearest = tuple(map(str, problem.nearest))
        before, after = text[:start], text[stop:]
        if len(before) > AROUND:
            before = f"…{before[-AROUND:]}"
        if len(after) > AROUND:
            after = f"{after[:AROUND]}…"
        return FilterProblem(problem.detail, before, text[start:stop], after, nearest)
    return None


def fields_to_ask() -> tuple[tuple[str, str], ...]:
    """Return the fields of a filter of jobs, with their meanings."""
    available = job_fields()
    plain = ((field.name, field.means) for field in available.fields)
    return (*plain, *((family.pattern, family.means) for family in available.families))
