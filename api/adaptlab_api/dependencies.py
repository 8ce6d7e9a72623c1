"""What routes ask for: a unit of work, who is asking, and the body as a valid value."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from email.message import Message
from typing import Annotated, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.validation import validation_problems
from adaptlab_api import strict_json
from adaptlab_api.problems import UNSUPPORTED, Refused
from adaptlab_api.rules import access, may_call
from adaptlab_api.state import Resources, resources
from adaptlab_services import audit
from adaptlab_services.access import Access, unit
from adaptlab_services.errors import Unauthorised
from adaptlab_services.tokens import Principal

T = TypeVar("T")


Units = Callable[[], AbstractContextManager[Session]]
"""Opens units of work on behalf of who asks, for routes that need more than one, or a thread."""


async def units(request: Request, opened: Annotated[Resources, Depends(resources)]) -> Units:
    """Units of work that see what the asker may; nothing of any project where nobody is known."""
    found = getattr(request.state, "access", None)
    if isinstance(found, Access):
        return lambda: unit(opened.sessions, found)
    return opened.sessions.begin


def unit_of_work(request: Request, opens: Annotated[Units, Depends(units)]) -> Generator[Session]:
    """A session that commits when the route has returned, before anything is sent."""
    with opens() as session:
        try:
            yield session
        finally:
            request.state.facts = audit.facts(session)  # for the audit log, refused or not


async def principal(request: Request) -> Principal:
    """Who is asking, as the gate has found out."""
    found = getattr(request.state, "principal", None)
    if not isinstance(found, Principal):
        raise Unauthorised
    return found


async def json_bytes(request: Request) -> bytes:
    """The body of a request that says that it is JSON."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    kind = header.get_content_type() if header["content-type"] else "missing"
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


BEARER = HTTPBearer(auto_error=False, description="The token of a user, as `Bearer al_…`.")

SessionDep = Annotated[Session, Depends(unit_of_work, scope="function")]
PrincipalDep = Annotated[Principal, Depends(principal)]
SubmitterDep = PrincipalDep  # that they may submit is the route's rule
AccessDep = Annotated[Access, Depends(access)]
UnitsDep = Annotated[Units, Depends(units)]
ResourcesDep = Annotated[Resources, Depends(resources)]
BodyDep = Annotated[bytes, Depends(json_bytes)]
BY_RULE = [Security(BEARER), Depends(may_call)]
