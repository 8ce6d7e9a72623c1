"""Parameters of the pages' routes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from adaptlab_api.doors.path_prefix import current_prefix
from adaptlab_api.requests.dependencies import at_once, principal_of
from adaptlab_api.requests.rules import lacks_to_submit


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of a page, and the permission to submit to some project."""

    name: str
    may_submit: bool


def reader_of(request: Request) -> Reader:
    """Return the reader; the route's rule checks the permission to read."""
    return Reader(principal_of(request).name, lacks_to_submit(request) is None)


ReaderDep = Annotated[Reader, Depends(at_once(reader_of))]
Number = Annotated[int, Query(ge=0, lt=2**31)]


def server_address(request: Request) -> str:
    """Return the address at which the browser reaches this server."""
    return str(request.base_url).rstrip("/") + current_prefix()
