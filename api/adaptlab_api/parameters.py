"""A query parameter that no route knows is a fault: `validate_onyl=true` must not create a job.

Nor may one be given twice that is read once: two readers could each take another for the one.
"""

from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated, get_origin

from fastapi import Depends, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from adaptlab.errors import InvalidSpec, Problem


async def project(
    project: Annotated[
        str | None,
        Query(
            max_length=63,
            description="A project of yours, by name: nothing else is seen, and what is made goes "
            "there. Without it all of yours are seen, and what is made goes into the only one, "
            "or into `default`.",
        ),
    ] = None,
) -> None:
    """The project that a request is about."""


PROJECT = [Depends(project)]
PROJECT_PARAMETER = project.__name__


async def only_known_parameters(request: Request) -> None:
    """Raise `InvalidSpec` for query parameters that the route does not have, or has only once."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    if not request.query_params:
        return
    known, lists = _parameters(route)
    unknown = [_unknown(name, known) for name in request.query_params if name not in known]
    given = Counter(name for name, _ in request.query_params.multi_items())
    repeated = [_repeated(n) for n, times in given.items() if times > 1 and n in known - lists]
    if unknown or repeated:
        raise InvalidSpec(*unknown, *repeated)


def _parameters(route: APIRoute) -> tuple[frozenset[str], frozenset[str]]:
    """The query parameters of a route, and those of them that may be given more than once."""
    fields = get_flat_params(route.dependant)
    lists = (field.alias for field in fields if get_origin(field.field_info.annotation) is list)
    return frozenset({field.alias for field in fields} | {PROJECT_PARAMETER}), frozenset(lists)


def _repeated(name: str) -> Problem:
    return Problem(f"/query/{name}", "repeated_parameter", f"{name} is given more than once.")


def _unknown(name: str, known: Collection[str]) -> Problem:
    return Problem(
        pointer=f"/query/{name}",
        code="unknown_parameter",
        detail=f"There is no parameter {name[:64]!r} here.",
        allowed=tuple(sorted(known)),
        nearest=tuple(get_close_matches(name, known, n=1, cutoff=0.6)),
    )
