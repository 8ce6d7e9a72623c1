"""Dependencies of routes: unit of work, caller, body and resources."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.validation import validation_problems
from adaptlab_api.answers.problems import UNSUPPORTED, Refused
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.requests import strict_json
from adaptlab_api.requests.rules import access_of
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people import audit
from adaptlab_services.people.access import Access, look, unit
from adaptlab_services.people.tokens import Principal

T = TypeVar("T")
READING = ("GET", "HEAD")


def at_once(find: Callable[[Request], T]) -> Callable[[Request], Awaitable[T]]:
    """Return a FastAPI dependency that finds a value in a request.

    It is a coroutine, though it waits for nothing, because FastAPI runs plain functions in threads.
    """

    async def dependency(request: Request) -> T:
        return find(request)

    return dependency


Units = Callable[[], AbstractContextManager[Session]]
"""Opens units of work of the caller, for routes that need several, or a thread."""


def units_of(request: Request) -> Units:
    """Return the function that opens units of work of the caller.

    Without a caller, they see no project.
    """
    return _opened(request, unit)


def looks_of(request: Request) -> Units:
    """Return the same for routes that only read, which is 10 % faster."""
    return _opened(request, look)


def _opened(request: Request, of: Callable[..., AbstractContextManager[Session]]) -> Units:
    sessions, access = resources_of(request.app).sessions, getattr(request.state, "access", None)
    if isinstance(access, Access):
        return lambda: of(sessions, access)
    return sessions.begin


def unit_of_work(request: Request) -> Generator[Session]:
    """Yield a session that commits after the route, before the answer is sent.

    That of a GET request only reads, and is in no transaction while a page is rendered: a unit of
    work that pauses for longer than `LIMITS` is ended, and a starved server pauses.
    """
    opens = looks_of(request) if request.method in READING else units_of(request)
    with opens() as session:
        try:
            yield session
        finally:
            request.state.facts = audit.facts(session)  # for the audit log, refused or not


def principal_of(request: Request) -> Principal:
    """Return the caller that the gate has found; raises `NotAuthorised`."""
    principal = getattr(request.state, "principal", None)
    if not isinstance(principal, Principal):
        raise NotAuthorised
    return principal


async def json_bytes(request: Request) -> bytes:
    """Return the body of a request; raises `Refused` if it is not JSON."""
    header = request.headers.get("content-type") or "missing"
    kind = header.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        detail = f"The Content-Type is {kind!r}; send application/json."
        raise Refused(UNSUPPORTED, detail)
    return await request.body()


def valid(adapter: TypeAdapter[T], body: bytes) -> T:
    """Return the valid value in a JSON body; raise `Refused` or `InvalidSpec`."""
    document = strict_json.parse(body)
    try:
        # The bytes and not the document: strict pydantic accepts a list for a tuple only in JSON,
        # and still refuses a text for a number.
        return adapter.validate_json(body, strict=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        problems = validation_problems(faults, document, schema=adapter.json_schema)
        raise InvalidSpec(*problems) from error


SessionDep = Annotated[Session, Depends(unit_of_work, scope="function")]
PrincipalDep = Annotated[Principal, Depends(at_once(principal_of))]
SubmitterDep = PrincipalDep  # the route's rule checks the permission to submit
AccessDep = Annotated[Access, Depends(at_once(access_of))]
UnitsDep = Annotated[Units, Depends(at_once(units_of))]
LooksDep = Annotated[Units, Depends(at_once(looks_of))]
ResourcesDep = Annotated[Resources, Depends(at_once(lambda request: resources_of(request.app)))]
