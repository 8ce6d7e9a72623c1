"""What the routes of the pages take."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from adaptlab_api.requests.dependencies import at_once, principal_of
from adaptlab_api.requests.rules import lacks_to_submit


@dataclass(frozen=True, slots=True)
class Reader:
    """Whoever looks at a page: their name, and whether there is a project to submit to."""

    name: str
    may_submit: bool


def reader_of(request: Request) -> Reader:
    """Who looks. That they may read is the route's rule."""
    return Reader(principal_of(request).name, lacks_to_submit(request) is None)


ReaderDep = Annotated[Reader, Depends(at_once(reader_of))]
Number = Annotated[int, Query(ge=0, lt=2**31)]


def server_address(request: Request) -> str:
    """The address under which the browser knows this server."""
    return str(request.base_url).rstrip("/")
