"""What the routes of the pages take."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Request

from adaptlab_api.dependencies import PrincipalDep
from adaptlab_services.errors import NotFound

ReaderDep = PrincipalDep  # that they may read is the route's rule
Number = Annotated[int, Query(ge=0, lt=2**31)]


def identity(text: str) -> UUID:
    """The id of a job in an address; raises `NotFound` for what can be none."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("job", text[:64]) from None


def server_address(request: Request) -> str:
    """The address under which the browser knows this server."""
    return str(request.base_url).rstrip("/")
