"""What routes ask for: a unit of work, who is asking, and the body as a valid value."""

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
from adaptlab_services.errors import Unauthorised
from adaptlab_services.people import audit
from adaptlab_services.people.access import Access, look, unit
from adaptlab_services.people.tokens import Principal

T = TypeVar("T")


def at_once(find: Callable[[Request], T]) -> Callable[[Request], Awaitable[T]]:
    """What a request holds, as a FastAPI dependency.

    A coroutine, though it waits for nothing: FastAPI runs plain functions in a thread each.
    """

    async def dependency(request: Request) -> T:
        return find(request)

    return dependency


Units = Callable[[], AbstractContextManager[Session]]
"""Opens units of work on behalf of who asks, for routes that need more than one, or a thread."""


def units_of(request: Request) -> Units:
    """Units of work that see what the asker may; nothing of any project where nobody is known."""
    return _opened(request, unit)


def looks_of(request: Request) -> Units:
    """The same for routes that only read, a tenth cheaper."""
    return _opened(request, look)


def _opened(request: Request, of: Callable[..., AbstractContextManager[Session]]) -> Units:
    sessions, found = resources_of(request.app).sessions, getattr(request.state, "access", None)
    if isinstance(found, Access):
        return lambda: of(sessions, found)
    return sessions.begin


def unit_of_work(request: Request) -> Generator[Session]:
    """A session that commits when the route has returned, before anything is sent."""
    with units_of(request)() as session:
        try:
            yield session
        finally:
            request.state.facts = audit.facts(session)  # for the audit log, refused or not


def principal_of(request: Request) -> Principal:
    """Who is asking, as the gate has found out."""
    found = getattr(request.state, "principal", None)
    if not isinstance(found, Principal):
        raise Unauthorised
    return found


async def json_bytes(request: Request) -> bytes:
    """The body of a request that says that it is JSON."""
    header = request.headers.get("content-type") or "missing"
    kind = header.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        detail = f"The Content-Type is {kind!r}; send application/json."
        raise Refused(UNSUPPORTED, detail)
    return await request.body()


def valid(adapter: TypeAdapter[T], body: bytes) -> T:
    """The value in a JSON body, checked strictly; raises `Refused` or `InvalidSpec`."""
    document = strict_json.parse(body)
    try:
        # The bytes again, not the document: only in JSON does strict pydantic take a list for a
        # tuple, while it goes on refusing a text for a number.
        return adapter.validate_json(body, strict=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        problems = validation_problems(faults, document, schema=adapter.json_schema)
        raise InvalidSpec(*problems) from error


SessionDep = Annotated[Session, Depends(unit_of_work, scope="function")]
PrincipalDep = Annotated[Principal, Depends(at_once(principal_of))]
SubmitterDep = PrincipalDep  # that they may submit is the route's rule
AccessDep = Annotated[Access, Depends(at_once(access_of))]
UnitsDep = Annotated[Units, Depends(at_once(units_of))]
LooksDep = Annotated[Units, Depends(at_once(looks_of))]
ResourcesDep = Annotated[Resources, Depends(at_once(lambda request: resources_of(request.app)))]
