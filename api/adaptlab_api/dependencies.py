"""What routes ask for: a unit of work, who is asking, and the body as a valid value."""

from collections.abc import Generator
from email.message import Message
from typing import Annotated, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.validation import validation_problems
from adaptlab_api import strict_json
from adaptlab_api.problems import FORBIDDEN, UNSUPPORTED, Refused
from adaptlab_api.state import Resources, resources
from adaptlab_services.errors import Unauthorised
from adaptlab_services.tokens import Principal

T = TypeVar("T")


def unit_of_work(opened: Annotated[Resources, Depends(resources)]) -> Generator[Session]:
    """A session that commits when the route has returned, before anything is sent."""
    with opened.sessions.begin() as session:
        yield session


def principal(request: Request) -> Principal:
    """Who is asking, as the gate has found out."""
    found = getattr(request.state, "principal", None)
    if not isinstance(found, Principal):
        raise Unauthorised
    return found


def submitter(found: Annotated[Principal, Depends(principal)]) -> Principal:
    """Who is asking, if they may create and cancel jobs."""
    if not {"submit", "admin"} & set(found.scopes):
        raise Refused(FORBIDDEN, "This needs a token with the scope `submit`; ask an admin.")
    return found


def reader(found: Annotated[Principal, Depends(principal)]) -> Principal:
    """Who is asking, if they may read jobs and results."""
    if not {"read", "submit", "admin"} & set(found.scopes):
        raise Refused(FORBIDDEN, "This needs a token with the scope `read`; ask an admin.")
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
        raise InvalidSpec(*validation_problems(faults, document)) from error


BEARER = HTTPBearer(auto_error=False, description="The token of a user, as `Bearer al_…`.")

SessionDep = Annotated[Session, Depends(unit_of_work, scope="function")]
PrincipalDep = Annotated[Principal, Depends(principal)]
SubmitterDep = Annotated[Principal, Depends(submitter)]
ResourcesDep = Annotated[Resources, Depends(resources)]
BodyDep = Annotated[bytes, Depends(json_bytes)]
READERS_ONLY = [Security(BEARER), Depends(reader)]
