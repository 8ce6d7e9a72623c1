"""What can go wrong between a client and a server, one class for each way to react."""

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from adaptlab.errors import AdaptlabError


class Fault(BaseModel):
    """One fault in a request: where, what, and which values would have been accepted.

    `column` is the character, from 1, at which a text such as a filter goes wrong.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    pointer: str = ""
    code: str = ""
    detail: str = ""
    allowed: tuple[JsonValue, ...] = ()
    nearest: tuple[JsonValue, ...] = ()
    column: int | None = None

    def __str__(self) -> str:
        """The fault in one line."""
        hints = [
            f"{word}: {', '.join(str(value) for value in values)}"
            for word, values in (("nearest", self.nearest), ("allowed", self.allowed))
            if values and not all(f"'{value}'" in self.detail for value in values)
        ]
        hint = f" ({'; '.join(hints)})" if hints else ""
        return f"{self.pointer or '/'}: {self.detail}{hint}"


class ProblemDocument(BaseModel):
    """An error as the server describes it (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str = "about:blank"
    title: str = ""
    status: int
    detail: str | None = None
    instance: str | None = None
    errors: tuple[Fault, ...] = ()
    state: str | None = None

    @classmethod
    def read(cls, status: int, reason: str, body: bytes) -> Self:
        """The problem in `body`; one made of the status line when something else stands there."""
        try:
            found = cls.model_validate_json(body)
        except ValidationError:
            return cls(status=status, title=reason or "Error", detail=_beginning(body))
        return found.model_copy(update={"status": status})


class ApiError(AdaptlabError):
    """The server answered with an error; `problem` is what it said."""

    def __init__(self, problem: ProblemDocument) -> None:
        self.problem = problem
        super().__init__("\n".join([_heading(problem), *(f"  {one}" for one in problem.errors)]))

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def codes(self) -> frozenset[str]:
        """The stable words for the faults, for programs."""
        return frozenset(fault.code for fault in self.problem.errors)


class InvalidRequest(ApiError):
    """The server cannot accept what was asked for (400, 415, 422)."""


class Unauthorised(ApiError):
    """The token is missing, unknown or may not do this (401, 403)."""


class NotFound(ApiError):
    """There is nothing of that name (404, 410)."""


class Conflict(ApiError):
    """What was asked for does not fit the present state (409, 412)."""


class TooLarge(ApiError):
    """The request exceeds the server's size limit (413)."""


class TooManyRequests(ApiError):
    """The server has had enough of this user for now (429), after the retries.

    `retry_after` is the number of seconds that it asks for; None where it cannot know, as when the
    user has as many jobs queued as the server allows.
    """

    retry_after: float | None = None


class ServerUnavailable(ApiError):
    """The server cannot answer just now (502, 503, 504), after the retries.

    `retry_after` is the number of seconds that it asks for, if it does.
    """

    retry_after: float | None = None


class ServerUnreachable(AdaptlabError):
    """No answer came: refused, cut off or timed out, after the retries."""


PASSING = (ServerUnreachable, ServerUnavailable, TooManyRequests)
"""Errors that may be gone a little later, for those who can wait."""


class UnsafeFile(AdaptlabError):
    """A file with tokens that others can get at; it is not read."""


class NoServer(AdaptlabError):
    """Nothing says where the server is."""


class ServerStarting(NoServer):
    """The server of this directory does not listen yet."""


class UnexpectedAnswer(AdaptlabError):
    """The answer is not one of an adaptlab server."""


class SeveralMaps(AdaptlabError):
    """There is not exactly one attention map, so that it is not clear whose array is meant."""

    def __init__(self, maps: Sequence[tuple[str, int]]) -> None:
        there = ", ".join(f"{source} of replicate {replicate}" for source, replicate in maps)
        super().__init__(
            f"One array is asked for, and {len(maps)} maps are there: {there or 'none'}. Ask for "
            "one with `source` and `replicate`, or take `.numpy()` of each map."
        )


class DigestMismatch(AdaptlabError):
    """The bytes that arrived are not the ones that were announced."""


class WaitTimedOut(AdaptlabError):
    """The time to wait was over before the jobs were; they go on."""

    def __init__(self, jobs: Sequence[str], seconds: float) -> None:
        self.jobs = tuple(jobs)
        super().__init__(f"Not finished after {seconds:g} s: {', '.join(jobs)}")


def api_error(problem: ProblemDocument) -> ApiError:
    """The error class for the problem's status."""
    classes: dict[int, type[ApiError]] = {
        400: InvalidRequest,
        415: InvalidRequest,
        422: InvalidRequest,
        401: Unauthorised,
        403: Unauthorised,
        404: NotFound,
        410: NotFound,
        409: Conflict,
        412: Conflict,
        413: TooLarge,
        429: TooManyRequests,
        502: ServerUnavailable,
        503: ServerUnavailable,
        504: ServerUnavailable,
    }
    return classes.get(problem.status, ApiError)(problem)


def _heading(problem: ProblemDocument) -> str:
    """What went wrong as a whole, without the first fault, which follows with the others."""
    told = problem.detail or problem.title or f"The server answered {problem.status}."
    if problem.errors and told.endswith(f": {problem.errors[0].detail}"):
        return told.removesuffix(f" {problem.errors[0].detail}")
    return told


def _beginning(body: bytes, characters: int = 200) -> str | None:
    """The start of an answer that is no problem document: a proxy's page, say."""
    text = body[: 4 * characters].decode(errors="replace").strip()
    return text[:characters] or None
