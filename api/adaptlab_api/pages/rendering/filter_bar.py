"""The filter above a list: whether it makes sense, and where it does not."""

import re
from dataclasses import dataclass

from adaptlab.errors import InvalidSpec
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.job_fields import job_fields
from adaptlab_services.querying.query_fields import Joins

_WORD = re.compile(r'"[^"]*"?|[^\s()=<>!~,"]+|.')


@dataclass(frozen=True, slots=True)
class FilterFault:
    """What is wrong with a filter: its text in three parts, of which `at` is at fault."""

    detail: str
    before: str
    at: str
    after: str
    nearest: tuple[str, ...]


def fault_of(text: str) -> FilterFault | None:
    """The first fault of a filter of jobs; None for one that makes sense."""
    try:
        condition(text, job_fields(), Joins())
    except InvalidSpec as error:
        problem = error.problems[0]
        start = len(text) if problem.column is None else min(problem.column - 1, len(text))
        found = _WORD.match(text, start)
        stop = start if found is None else found.end()
        nearest = tuple(str(one) for one in problem.nearest)
        return FilterFault(problem.detail, text[:start], text[start:stop], text[stop:], nearest)
    return None


def fields_to_ask() -> tuple[tuple[str, str], ...]:
    """The names that a filter of jobs knows, each with what it means."""
    known = job_fields()
    plain = ((one.name, one.means) for one in known.fields)
    return (*plain, *((one.pattern, one.means) for one in known.families))
