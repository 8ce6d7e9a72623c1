"""Errors between client and server, one class for each way to react."""

import re
from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from adaptlab.errors import AdaptlabError

MOST_ALLOWED = 8
"""Accepted values that are listed next to the nearest ones."""


class Fault(BaseModel):
    """One error in a request, with its place and the accepted values.

    `column` is the character, counted from 1, at which the error begins in a text such as a filter.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    pointer: str = ""
    code: str = ""
    detail: str = ""
    allowed: tuple[JsonValue, ...] = ()
    nearest: tuple[JsonValue, ...] = ()
    column: int | None = None

    def __str__(self) -> str:
        """The error in one line."""
        # A long list hides the nearest, which is mostly what was meant.
        allowed = () if self.nearest and len(self.allowed) > MOST_ALLOWED else self.allowed
        hints = [
            f"{word}: {', '.join(str(value) for value in values)}"
            for word, values in (("nearest", self.nearest), ("allowed", allowed))
            if values and not all(f"'{value}'" in self.detail for value in values)
        ]
        hint = f" ({'; '.join(hints)})" if hints else ""
        place = re.sub("^/(query|path|header)/", "", self.pointer)
        return f"{place or '/'}: {self.detail}{hint}"


class ProblemDocument(BaseModel):
    """A problem document, in which the server describes an error (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str = "about:blank"
    title: str = ""
    status: int
    detail: str | None = None
    instance: str | None = None
    request_id: str | None = None
    errors: tuple[Fault, ...] = ()
    state: str | None = None

    @classmethod
    def read(cls, status: int, reason: str, body: bytes) -> Self:
        """Return the problem in `body`, or else one built from the status line."""
        try:
            problem = cls.model_validate_json(body)
        except ValidationError:
            return cls(status=status, title=reason or "Error", detail=_beginning(body))
        return problem.model_copy(update={"status": status})


FETCHING = "urn:adaptlab:problem:fetching"


class ApiError(AdaptlabError):
    """The server answered with an error, described in `problem`."""

    def __init__(self, problem: ProblemDocument) -> None:
        self.problem = problem
        lines = [_heading(problem), *(f"  {fault}" for fault in problem.errors)]
        if problem.status == 500 and problem.request_id is not None:
            lines.append(f"  The server's log has the reason, at request {problem.request_id}.")
        super().__init__("\n".join(lines))

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def codes(self) -> frozenset[str]:
        """The stable codes of the errors, for programs."""
        return frozenset(fault.code for fault in self.problem.errors)


class InvalidRequest(ApiError):
    """The request is invalid (400, 415, 422)."""


class Unauthorised(ApiError):
    """The token is missing, unknown or lacks the permission (401, 403)."""


class NotFound(ApiError):
    """Nothing with that name or id exists (404, 410)."""


class Conflict(ApiError):
    """The request does not fit the current state (409, 412)."""


class TooLarge(ApiError):
    """The request exceeds the server's size limit (413)."""


class TooManyRequests(ApiError):
    """The user has reached a rate limit or a quota (429), after the retries.

    `retry_after` is the delay in seconds that the server asks for. It is None if the server cannot
    predict it, for example if too many of the user's jobs are queued.
    """

    retry_after: float | None = None


class ServerUnavailable(ApiError):
    """The server cannot answer at present (502, 503, 504), after the retries.

    `retry_after` is the delay in seconds that the server asks for, or None.
    """

    retry_after: float | None = None


class BeingFetched(ServerUnavailable):
    """A dataset that the request names on a hub is being fetched (503).

    The request is repeated until the fetch has ended.
    """


class ServerUnreachable(AdaptlabError):
    """The connection was refused, was cut or timed out, after the retries."""


PASSING = (ServerUnreachable, ServerUnavailable, TooManyRequests)
"""Errors that may disappear if the caller waits."""


class UnsafeFile(AdaptlabError):
    """Other users have access to a file with tokens, so it is not read."""


class NoServer(AdaptlabError):
    """The address of the server is not configured, or is invalid."""


class ServerStarting(NoServer):
    """The server of this directory is not listening yet."""


class UnexpectedAnswer(AdaptlabError):
    """The answer is not that of an adaptlab server."""


class SeveralMaps(AdaptlabError):
    """An array was requested, but there is not exactly one attention map."""

    def __init__(self, maps: Sequence[tuple[str, int]]) -> None:
        names = ", ".join(f"{source} of replicate {replicate}" for source, replicate in maps)
        super().__init__(
            f"One array was requested, but there are {len(maps)} maps: {names or 'none'}. Select "
            "one with `source` and `replicate`, or call `.numpy()` on each map."
        )


class DigestMismatch(AdaptlabError):
    """The received bytes do not match the announced digest."""


class FetchFailed(AdaptlabError):
    """A fetch from the hub, or a push to it, that was waited for failed."""

    def __init__(self, source: str, reason: str, verb: str = "fetched") -> None:
        super().__init__(f"{source} was not {verb}: {reason}")


class CannotConvert(AdaptlabError):
    """An adaptation has no such form, or this machine cannot compute it."""


class WaitTimedOut(AdaptlabError):
    """The time limit was reached before the jobs ended; they continue."""

    def __init__(self, jobs: Sequence[str], seconds: float) -> None:
        self.jobs = tuple(jobs)
        super().__init__(f"Not finished after {seconds:g} s: {', '.join(jobs)}")


def api_error(problem: ProblemDocument) -> ApiError:
    """Return the error for the problem's status."""
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
    if problem.type == FETCHING:
        return BeingFetched(problem)
    return classes.get(problem.status, ApiError)(problem)


def _heading(problem: ProblemDocument) -> str:
    """Return the problem's detail without its first error.

    That error is listed too.
    """
    heading = problem.detail or problem.title or f"The server answered {problem.status}."
    if problem.errors and heading.endswith(f": {problem.errors[0].detail}"):
        return heading.removesuffix(f" {problem.errors[0].detail}")
    return heading


def _beginning(body: bytes, characters: int = 200) -> str | None:
    """Return the beginning of another answer, such as a proxy's page."""
    text = body[: 4 * characters].decode(errors="replace").strip()
    return text[:characters] or None
