"""A query parameter that no route knows is a fault: `validate_onyl=true` must not create a job."""

from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from adaptlab.errors import InvalidSpec, Problem


def only_known_parameters(request: Request) -> None:
    """Raise `InvalidSpec` for query parameters that the route does not have."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = {field.alias for field in get_flat_params(route.dependant)}
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise InvalidSpec(*(_unknown(name, known) for name in unknown))


def _unknown(name: str, known: set[str]) -> Problem:
    return Problem(
        pointer=f"/query/{name}",
        code="unknown_parameter",
        detail=f"There is no parameter {name[:64]!r} here.",
        allowed=tuple(sorted(known)),
        nearest=tuple(get_close_matches(name, known, n=1, cutoff=0.6)),
    )
