"""HTTP to one server, with its token, retries, and errors as exceptions.

Retries are not left to httpx because they depend on the request: it is repeated only if it changes
nothing or has an idempotency key, after the delay in `Retry-After`. One that waits for the fetch of
a dataset is repeated until that has ended.
"""

import random
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies
from uuid import UUID

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from adaptlab_answers.reading import read
from adaptlab_client.errors import (
    PASSING,
    BeingFetched,
    ProblemDocument,
    ServerUnavailable,
    ServerUnreachable,
    TooManyRequests,
    UnexpectedAnswer,
    api_error,
)
from adaptlab_client.transport.discovery import ServerAddress

A = TypeVar("A", bound=BaseModel)
Passing = ServerUnreachable | ServerUnavailable | TooManyRequests
Query = Mapping[str, str | int | float | bool | UUID | list[str] | list[int] | None]
Identity = str | UUID
"""The id of a job, study or upload, as a UUID or as text; studies also by name."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
READS = ("GET", "HEAD")
# The request cannot have reached the server, so it is always safe to repeat.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Retries:
    """Number of attempts, and the pauses between them in seconds.

    Pauses double from `first` to `longest`; at least half of each is kept, the rest is random.
    `waits` is called before each pause for a dataset that the server fetches. `sleep` and `jitter`
    are for tests.
    """

    attempts: int = 5
    first: float = 0.25
    longest: float = 8.0
    longest_retry_after: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    waits: Callable[[], object] = lambda: None

    def pause(self, failures: int, retry_after: float | None = None) -> None:
        """Wait after this number of consecutive failures."""
        if retry_after is not None:
            self.sleep(min(retry_after, self.longest_retry_after))
            return
        ceiling = min(self.longest, self.first * 2 ** min(failures - 1, 16))
        self.sleep(ceiling * (0.5 + 0.5 * self.jitter()))


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; `body` is sent as JSON, `content` unchanged.

    `repeatable` means that sending it twice has the same effect as once. `seconds` replaces the
    connection's timeout.
    """

    method: str
    path: str
    query: Query | None = None
    body: JsonValue = None
    headers: Mapping[str, str] | None = None
    repeatable: bool = True
    seconds: float | None = None
    content: bytes | None = None


def path_of(*segments: str | int | UUID) -> str:
    """Return a path below `/v1`, with every segment quoted."""
    return "/v1" + "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


def trust(url: str, *, by_proxies: bool) -> ssl.SSLContext | bool:
    """Return the authorities to trust at an address; none without TLS.

    Loading the known authorities takes longer than everything else in most commands. The connection
    to a proxy from the environment may be encrypted, so with such a proxy they are loaded too.
    """
    has_proxy = by_proxies and bool({"http", "all"} & set(getproxies()))
    is_plain = urlsplit(url).scheme == "http" and not has_proxy
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True


class Connection:
    """A pool of connections to one server."""

    def __init__(
        self,
        server: ServerAddress,
        *,
        retries: Retries,
        seconds: float,
        transport: httpx.BaseTransport | None = None,
        project: str | None = None,
    ) -> None:
        self.server = server
        self.project = project
        self.retries = retries
        headers = {"Accept": "application/json", "User-Agent": "adaptlab-client"}
        if server.token:
            headers["Authorization"] = f"Bearer {server.token}"
        # A proxy in the environment is never used for a server on this machine.
        by_proxies = urlsplit(server.url).hostname not in LOOPBACK
        self._http = httpx.Client(
            base_url=server.url,
            headers=headers,
            timeout=httpx.Timeout(seconds, connect=min(seconds, 10)),
            transport=transport,
            verify=trust(server.url, by_proxies=by_proxies),
            trust_env=by_proxies,
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Request, answer: type[A]) -> A:
        """Send and return the answer; raises `ApiError`, `ServerUnreachable`."""
        return self.read(request, self.send(request), answer)

    def read(self, request: Request, response: httpx.Response, answer: type[A]) -> A:
        """Return the answer in a response's JSON; raises `UnexpectedAnswer`."""
        try:
            return read(answer, response.content)
        except ValidationError as error:
            raise UnexpectedAnswer(
                f"The answer of {self.server.url} is not that of an adaptlab server "
                f"of this version: {error.error_count()} errors, such as "
                f"{error.errors()[0]['msg']!r}. Check the address, or update the client."
            ) from error

    def send(self, request: Request) -> httpx.Response:
        """Send with retries, and return the successful response, already read."""
        failures = 0
        while True:
            try:
                with self.open(request) as response:
                    response.read()
                    return response
            except PASSING as error:
                is_fetched = isinstance(error, BeingFetched)
                failures += not is_fetched
                if failures >= self.retries.attempts or not _may_repeat(request, error):
                    raise
                if is_fetched:
                    self.retries.waits()
                self.retries.pause(failures, _retry_after(error))

    @contextmanager
    def open(self, request: Request) -> Generator[httpx.Response]:
        """Send once and keep the response open for streaming; raises like `send`."""
        timeout = (
            httpx.USE_CLIENT_DEFAULT
            if request.seconds is None
            else httpx.Timeout(request.seconds, connect=10)
        )
        members: Query = {"project": self.project, **(request.query or {})}
        query = {
            name: str(value) if isinstance(value, UUID) else value
            for name, value in members.items()
            if value is not None
        }
        try:
            with self._http.stream(
                request.method,
                request.path,
                params=query,
                json=request.body,
                content=request.content,
                headers=request.headers,
                timeout=timeout,
            ) as response:
                if not response.is_success:
                    raise _problem(response)
                yield response
        except httpx.InvalidURL as error:
            raise UnexpectedAnswer(f"{request.path!r} is not a valid address: {error}") from error
        except httpx.HTTPError as error:
            raise ServerUnreachable(
                f"{self.server.url} did not answer: {error or type(error).__name__}"
            ) from error


def _problem(response: httpx.Response) -> Exception:
    response.read()
    problem = ProblemDocument.read(response.status_code, response.reason_phrase, response.content)
    error = api_error(problem)
    if isinstance(error, ServerUnavailable | TooManyRequests):
        error.retry_after = _seconds(response.headers.get("Retry-After"))
    return error


def _may_repeat(request: Request, error: Passing) -> bool:
    if isinstance(error, TooManyRequests) and error.retry_after is None:
        return request.method in READS  # other requests may be refused for days
    return request.repeatable or isinstance(error.__cause__, NEVER_SENT)


def _retry_after(error: Passing) -> float | None:
    return None if isinstance(error, ServerUnreachable) else error.retry_after


def _seconds(header: str | None) -> float | None:
    """Return the delay in a `Retry-After` header in seconds.

    Dates are ignored.
    """
    return float(header) if header is not None and header.isdecimal() else None
