"""What the routes of the pages take."""

from typing import Annotated

from fastapi import Depends, Query, Request

from adaptlab_api.dependencies import reader
from adaptlab_services.tokens import Principal

ReaderDep = Annotated[Principal, Depends(reader)]
Number = Annotated[int, Query(ge=0, lt=2**31)]


def server_address(request: Request) -> str:
    """The address under which the browser knows this server."""
    return str(request.base_url).rstrip("/")
