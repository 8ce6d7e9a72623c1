"""Errors as `application/problem+json` (RFC 9457)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem
from adaptlab.validation import error_text
from adaptlab.values import Value
from adaptlab_api.answers.answer_headers import always
from adaptlab_db.errors import (
    ArtifactGone,
    BytesMissing,
    StoreNotConfigured,
    StoreUnreachable,
    WrongBytes,
)
from adaptlab_services.errors import (
    Absent,
    Forbidden,
    IdempotencyMismatch,
    LeaseLost,
    LedgerUnreachable,
    LimitReached,
    NotAuthorised,
    RangeNotSatisfiable,
    StateConflict,
    UploadTooLarge,
)
from adaptlab_services.log_formats import fact
from adaptlab_services.people.tokens import without_tokens

MEDIA_TYPE = "application/problem+json"
LARGEST_LIST = 100
"""The most errors that one answer lists."""
RETRY_SECONDS = 2
REQUEST_ID_HEADER = b"x-request-id"

HANDLED = (
    *(AdaptlabError, DBAPIError, PoolTimeout, RequestValidationError),
    *(HTTPException, ClientDisconnect),
)
"""Kinds of errors that get an answer here and go no further."""

log = logging.getLogger(__name__)


class ProblemDetail(Value):
    """One error at one place of the request.

    `pointer` is a JSON pointer into the body, or starts with /query, /path or /header. `nearest`
    holds the accepted values that are closest to the given one. `column` is the character, from 1,
    at which the text becomes invalid.
    """

    pointer: str
    code: str
    detail: str
    allowed: tuple[str | int | float, ...] = ()
    nearest: tuple[str | int | float, ...] = ()
    column: int | None = None


class ProblemBody(Value):
    """An error; `type` is stable, for programs, and `detail` is for people.

    `request_id` is in the header `X-Request-ID` and in the server's log too.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    errors: tuple[ProblemDetail, ...] = ()
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: the last part of its type, its title and its status."""

    name: str
    title: str
    status: int


BAD_REQUEST = Kind("bad-request", "The request is malformed", 400)
INVALID_JSON = Kind("invalid-json", "The body is not valid JSON", 400)
UNAUTHORISED = Kind("unauthorised", "A valid token is required", 401)
FORBIDDEN = Kind("forbidden", "The token does not permit this", 403)
CROSS_SITE = Kind("cross-site", "Browsers may only do this from the server's own pages", 403)
NOT_FOUND = Kind("not-found", "No such resource", 404)
METHOD_NOT_ALLOWED = Kind("method-not-allowed", "The resource does not support this method", 405)
LEASE_LOST = Kind("lease-lost", "The lease was lost", 409)
CONFLICT = Kind("conflict", "The current state does not allow this", 409)
GONE = Kind("gone", "The content is no longer stored", 410)
TIMED_OUT = Kind("request-timeout", "The request took too long to arrive", 408)
TOO_LARGE = Kind("content-too-large", "The body is too large", 413)
UNSUPPORTED = Kind("unsupported-media-type", "The body must be JSON", 415)
NO_FORM = Kind("unsupported-media-type", "The body must be a urlencoded form", 415)
ENCODED = Kind("unsupported-media-type", "The body must not be compressed", 415)
RANGE = Kind("range-not-satisfiable", "The range is outside the content", 416)
INVALID_REQUEST = Kind("invalid-request", "The request has invalid values", 422)
LIMIT_REACHED = Kind("limit-reached", "You have reached the server's limit", 429)
TOO_MANY = Kind("too-many-requests", "Too many requests or jobs", 429)
HEADERS_TOO_LARGE = Kind("headers-too-large", "The request's headers are too large", 431)
KEY_REUSED = Kind("idempotency-key-reused", "The idempotency key was used for another request", 422)
INTERNAL = Kind("internal-error", "Internal server error", 500)
UNAVAILABLE = Kind("unavailable", "The database cannot be reached", 503)
SLOW = Kind("no-answer-in-time", "The server did not answer in time", 503)
HUB_SLOW = Kind("hub-slow", "The hub has not answered yet", 503)
FETCHING = Kind("fetching", "The dataset is still being fetched", 503)
DAMAGED = Kind("damaged", "The stored content is damaged", 503)
STORE_UNAVAILABLE = Kind("store-unavailable", "The store with this content cannot be reached", 503)

OF_STATUS = {
    kind.status: kind
    for kind in (
        BAD_REQUEST,
        UNAUTHORISED,
        FORBIDDEN,
        NOT_FOUND,
        METHOD_NOT_ALLOWED,
        CONFLICT,
        GONE,
        TIMED_OUT,
        TOO_LARGE,
        UNSUPPORTED,
        RANGE,
        INVALID_REQUEST,
        TOO_MANY,
        HEADERS_TOO_LARGE,
        INTERNAL,
        UNAVAILABLE,
    )
}


class Refused(AdaptlabError):
    """A request that the HTTP layer itself refuses."""

    def __init__(self, kind: Kind, detail: str, *faults: Problem) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.faults = faults


def problem(
    kind: Kind,
    detail: str,
    *,
    faults: Sequence[Problem] = (),
    state: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer for one problem, with tokens cut to their prefix."""
    request_id = str(fact("request_id") or uuid4())
    document = ProblemBody(
        type=f"urn:adaptlab:problem:{kind.name}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=f"urn:adaptlab:request:{request_id}",
        request_id=request_id,
        errors=tuple(map(_fault, faults[:LARGEST_LIST])),
        state=state,
    )
    # Details quote the request, and clients copy them into logs and bug reports.
    content = without_tokens(document.model_dump_json(exclude_none=True))
    answered = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    answered[REQUEST_ID_HEADER.decode()] = request_id
    answered |= {name.lower(): value for name, value in (headers or {}).items()}
    return Response(content, kind.status, answered, media_type=MEDIA_TYPE)


def status_of(refusal: AdaptlabError) -> int:
    """Return the status with which the API answers a refusal."""
    response = answer(refusal)
    return 422 if response is None else response.status_code


def answer(error: Exception) -> Response | None:
    """Return the answer for an expected error, or None for an unexpected one."""
    if isinstance(error, AdaptlabError):
        return _refusal(error)
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        log.warning("The database did not answer: %s", type(error).__name__)
        return no_database()
    if isinstance(error, RequestValidationError):
        return _invalid("The request has invalid parameters", _parameter_faults(error))
    if isinstance(error, HTTPException):
        return _http(error)
    if isinstance(error, ClientDisconnect):  # no client reads this answer
        return problem(
            BAD_REQUEST,
            "The connection closed before the whole body arrived. Send the request again.",
        )
    return None


def no_database() -> Response:
    """Return the answer for a database that does not respond."""
    detail = f"The database did not answer in time. Try again in {RETRY_SECONDS} seconds."
    return problem(UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_SECONDS)})


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem document."""
    for error in HANDLED:
        app.add_exception_handler(error, handle)
    app.add_exception_handler(Exception, handle)


def handle(request: Request, error: Exception) -> Response:
    """Return the answer for any error; log an unexpected one."""
    if isinstance(error, HTTPException) and error.status_code == METHOD_NOT_ALLOWED.status:
        error = HTTPException(error.status_code, headers={"Allow": _methods_at(request)})
    expected = answer(error)
    if expected is not None:
        return expected
    # The answer reveals nothing of the error. uvicorn closes the connection after most of them, and
    # no middleware adds headers to this answer.
    unexpected = problem(
        INTERNAL,
        "The server failed to handle the request. Try again; if it fails again, see the "
        "server's log.",
        headers=always(request.scope["scheme"]) | {"Connection": "close"},
    )
    path = without_tokens(request.url.path)
    log.error(
        "Unexpected %s at %s %s",
        type(error).__name__,
        request.method,
        path,
        exc_info=_untold(error),
    )
    return unexpected


def _untold(error: Exception) -> Exception | None:
    """Return an error whose traceback only this module can log.

    Starlette passes errors without a handler of their own on to uvicorn, which logs the traceback.
    The values in a statement stay out of the log.
    """
    if isinstance(error, DBAPIError):
        error.hide_parameters = True
    return error if isinstance(error, HANDLED) else None


def _methods_at(request: Request) -> str:
    """Return every method that some route has at this address."""
    app: FastAPI = request.app
    methods = {
        method
        for route in app.routes
        if route.matches(dict(request.scope))[0] is not Match.NONE
        for method in getattr(route, "methods", None) or ()
    }
    return ", ".join(sorted(methods))


def _refusal(error: AdaptlabError) -> Response | None:
    match error:
        case Refused():
            return problem(error.kind, error.detail, faults=error.faults)
        case InvalidSpec():
            return _invalid("The request has invalid values", error.problems)
        case Absent():
            return problem(NOT_FOUND, str(error))
        case StateConflict():
            return problem(CONFLICT, error.detail, state=error.state, faults=error.needs)
        case LimitReached():
            # Without Retry-After: the time at which a job of this owner starts is unknown.
            return problem(LIMIT_REACHED, str(error))
        case IdempotencyMismatch():
            fault = Problem("/header/idempotency-key", "idempotency_key_reused", str(error))
            return problem(KEY_REUSED, str(error), faults=(fault,))
        case NotAuthorised():
            return unauthorised(str(error))
        case UploadTooLarge():
            fault = Problem("/size_bytes", "too_large", str(error), nearest=(error.most,))
            return problem(TOO_LARGE, str(error), faults=(fault,))
        case RangeNotSatisfiable():
            return problem(RANGE, str(error), headers={"Content-Range": f"bytes */{error.size}"})
        case _:
            return _no_bytes(error)


def _no_bytes(error: AdaptlabError) -> Response | None:
    match error:
        case Forbidden():
            return problem(FORBIDDEN, error.detail)
        case ArtifactGone():
            # 503 without Retry-After: the content returns once the store is repaired.
            return problem(GONE if error.state == "collected" else DAMAGED, str(error))
        case WrongBytes():
            fault = Problem("/sha256", "wrong_digest", str(error))
            return _invalid("The request has invalid values", (fault,))
        case BytesMissing():
            return problem(DAMAGED, str(error))
        case StoreUnreachable() | StoreNotConfigured():
            log.error("%s", error)
            return problem(STORE_UNAVAILABLE, f"The store {error.store} did not answer. Try again.")
        case _:
            return _to_worker(error)


def _to_worker(error: AdaptlabError) -> Response | None:
    match error:
        case LeaseLost():
            return problem(LEASE_LOST, str(error))
        case LedgerUnreachable():
            log.warning("asked a worker to try again: %s", error)
            return no_database()
        case _:
            return None


def unauthorised(detail: str) -> Response:
    """Return the answer to a request without a valid token."""
    challenge = {"WWW-Authenticate": 'Bearer realm="adaptlab"'}
    return problem(UNAUTHORISED, detail, headers=challenge)


def _invalid(what: str, faults: tuple[Problem, ...]) -> Response:
    first = f": {faults[0].detail}" if faults else "."
    return problem(INVALID_REQUEST, f"{what}{first}", faults=faults)


def _http(error: HTTPException) -> Response:
    kind = OF_STATUS.get(error.status_code, Kind("http", "The request failed", error.status_code))
    detail = str(error.detail)
    if error.status_code == 404:
        detail = "There is nothing at this address. GET /openapi.json lists all routes."
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        detail = f"This address supports {allowed}."
    return problem(kind, detail, headers=error.headers)


def _fault(problem: Problem) -> ProblemDetail:
    return ProblemDetail(
        pointer=problem.pointer,
        code=problem.code,
        detail=problem.detail,
        allowed=problem.allowed[:LARGEST_LIST],
        nearest=problem.nearest[:LARGEST_LIST],
        column=problem.column,
    )


def _parameter_faults(error: RequestValidationError) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            pointer="".join(f"/{part}" for part in fault["loc"]),
            code=fault["type"],
            detail=error_text(str(fault["loc"][-1]), (fault,)),
            allowed=_expected(fault.get("ctx") or {}),
        )
        for fault in error.errors()
    )


def _expected(context: Mapping[str, object]) -> tuple[str, ...]:
    words = str(context.get("expected", "")).replace(" or ", ", ").split(",")
    return tuple(word.strip(" '") for word in words if word.strip(" '"))
