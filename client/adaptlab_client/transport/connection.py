"""HTTP to one server: the token, the retries, and errors as exceptions.

The retries are ours because they depend on what is sent: a request is sent again when it changes
nothing or carries an idempotency key, and a `Retry-After` decides how long to wait.
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
    ProblemDocument,
    ServerUnavailable,
    ServerUnreachable,
    TooManyRequests,
    UnexpectedAnswer,
    api_error,
)
from adaptlab_client.transport.discovery import Server

A = TypeVar("A", bound=BaseModel)
Passing = ServerUnreachable | ServerUnavailable | TooManyRequests
Query = Mapping[str, str | int | float | bool | UUID | list[str] | list[int] | None]
Identity = str | UUID
"""The id of a job, study or upload, as an answer has it or as text."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
READS = ("GET", "HEAD")
# The request cannot have reached the server, so that sending it again is always safe.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is sent, and how long is waited between (full jitter, in seconds).

    `sleep` and `jitter` are for tests.
    """

    attempts: int = 5
    first: float = 0.25
    longest: float = 8.0
    longest_retry_after: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def pause(self, failures: int, retry_after: float | None = None) -> None:
        """Wait after the given number of failures in a row."""
        if retry_after is not None:
            self.sleep(min(retry_after, self.longest_retry_after))
            return
        ceiling = min(self.longest, self.first * 2 ** min(failures - 1, 16))
        self.sleep(ceiling * (0.5 + 0.5 * self.jitter()))


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `repeatable` says whether sending it twice is the same as sending it once.

    `body` goes as JSON, `content` as it is.
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
    """A path below `/v1`; a segment stays one whatever it contains."""
    return "/v1" + "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


def trust(url: str, *, by_proxies: bool) -> ssl.SSLContext | bool:
    """Whom to trust at an address: the known authorities, and nobody where nothing is encrypted.

    To read the authorities takes longer than most commands need for everything else. The way to a
    proxy of the environment may be encrypted, where it is taken.
    """
    has_proxy = by_proxies and bool({"http", "all"} & set(getproxies()))
    is_plain = urlsplit(url).scheme == "http" and not has_proxy
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True


class Connection:
    """A pool of connections to one server."""

    def __init__(
        self,
        server: Server,
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
        # A proxy in the environment is for the outside, never for a server on this machine.
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
        """Send and read the JSON of the answer; raises `ApiError`, `ServerUnreachable`."""
        return self.read(request, self.send(request), answer)

    def read(self, request: Request, response: httpx.Response, answer: type[A]) -> A:
        """The value in the JSON of a response that has been read; raises `UnexpectedAnswer`."""
        try:
            return read(answer, response.content)
        except ValidationError as error:
            raise UnexpectedAnswer(
                f"{self.server.url}{request.path} did not answer as an adaptlab server of this "
                f"version does: {error.error_count()} faults, such as {error.errors()[0]['msg']!r}."
            ) from error

    def send(self, request: Request) -> httpx.Response:
        """Send, with retries, and return a successful answer that has been read."""
        failures = 0
        while True:
            try:
                with self.open(request) as response:
                    response.read()
                    return response
            except PASSING as error:
                failures += 1
                if failures >= self.retries.attempts or not _may_repeat(request, error):
                    raise
                self.retries.pause(failures, _retry_after(error))

    @contextmanager
    def open(self, request: Request) -> Generator[httpx.Response]:
        """Send once and hold the answer open for streaming; raises as `send` does."""
        timeout = (
            httpx.USE_CLIENT_DEFAULT
            if request.seconds is None
            else httpx.Timeout(request.seconds, connect=10)
        )
        asked: Query = {"project": self.project, **(request.query or {})}
        query = {
            name: str(value) if isinstance(value, UUID) else value
            for name, value in asked.items()
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
            raise UnexpectedAnswer(f"{request.path!r} is not an address: {error}") from error
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
        return request.method in READS  # what else is refused may be so for days
    return request.repeatable or isinstance(error.__cause__, NEVER_SENT)


def _retry_after(error: Passing) -> float | None:
    return None if isinstance(error, ServerUnreachable) else error.retry_after


def _seconds(header: str | None) -> float | None:
    """The delay in a `Retry-After` header; our server sends seconds, a date is passed over."""
    return float(header) if header is not None and header.isdecimal() else None
