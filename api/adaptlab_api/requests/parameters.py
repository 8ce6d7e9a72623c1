"""Query parameters; an unknown one is an error.

`validate_onyl=true` must not create a job. A repeated parameter that is not a list is an error too,
because two readers could use different values.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self, get_origin

from fastapi import params
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params
from starlette.datastructures import QueryParams

from adaptlab.errors import InvalidSpec, Problem

PROJECT = "project"
"""The parameter of every route, which the gate reads."""

OTHER_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("limit", "per_page", "count", "size"), "page_size"),
    **dict.fromkeys(("offset", "page", "cursor", "after"), "page_token"),
    **dict.fromkeys(("sort", "sort_by", "order"), "order_by"),
    **dict.fromkeys(("q", "query", "where"), "filter"),
}
"""Words of other interfaces for parameters of this one."""


@dataclass(frozen=True, slots=True)
class QueryParameters:
    """The query parameters of a route, and those that can be repeated."""

    known: frozenset[str]
    lists: frozenset[str]

    @classmethod
    def of(cls, dependant: Dependant) -> Self:
        """Return the parameters of a route and its dependencies."""
        kinds = {
            field.alias: get_origin(field.field_info.annotation)
            for field in get_flat_params(dependant)
            if isinstance(field.field_info, params.Query)
        }
        lists = frozenset(name for name, kind in kinds.items() if kind is list)
        return cls(frozenset({*kinds, PROJECT}), lists)

    def check(self, given: QueryParams) -> None:
        """Raise `InvalidSpec` for unknown parameters and invalid repetitions."""
        unknown = [_unknown(name, self.known) for name in given if name not in self.known]
        times = Counter(name for name, _ in given.multi_items())
        once = self.known - self.lists
        repeated = [_repeated(name) for name in times if times[name] > 1 and name in once]
        if unknown or repeated:
            raise InvalidSpec(*unknown, *repeated)


def _repeated(name: str) -> Problem:
    return Problem(
        f"/query/{name}",
        "repeated_parameter",
        f"The parameter {name} occurs more than once. Send it once.",
    )


def _unknown(name: str, known: Collection[str]) -> Problem:
    word = OTHER_WORDS.get(name.lower(), "")
    near = [word] if word in known else get_close_matches(name, known, n=1, cutoff=0.6)
    return Problem(
        pointer=f"/query/{name}",
        code="unknown_parameter",
        detail=f"There is no parameter {name[:64]!r} here.",
        allowed=tuple(sorted(known)),
        nearest=tuple(near),
    )
