"""What the routes of the pages take."""

from typing import Annotated

from fastapi import Query, Request

from adaptlab_api.dependencies import PrincipalDep

ReaderDep = PrincipalDep  # that they may read is the route's rule
Number = Annotated[int, Query(ge=0, lt=2**31)]


def server_address(request: Request) -> str:
    """The address under which the browser knows this server."""
    return str(request.base_url).rstrip("/")
