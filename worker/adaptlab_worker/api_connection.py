"""What a worker sends to the API, and what its answers mean to who holds a lease."""

import time
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import cast
from urllib.parse import urlsplit

import httpx

from adaptlab.errors import Problem
from adaptlab_services.errors import LeaseLost, LedgerRefused, LedgerUnreachable
from adaptlab_services.lifecycle.claims import Lease
from adaptlab_worker.errors import UnexpectedAnswer

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0  # of silence; a lease outlasts two of them
STORE_SECONDS = 300.0  # that a server may take to store what has arrived
LONGEST_WAIT = 5.0  # that a server may ask for before the next request
CHUNK = 2**20  # bytes
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOST = "urn:adaptlab:problem:lease-lost"
REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
BYTES = "application/octet-stream"


def open_connections(server: str, token: str) -> httpx.Client:
    """Connections to the API at an address, with the token of a worker."""
    return httpx.Client(
        base_url=server,
        headers={
            "Authorization": f"Bearer {token}",
            "User-Agent": "adaptlab-worker",
            "Accept-Encoding": "identity",  # positions are those of the content itself
        },
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        # A proxy in the environment is for the outside, never for a server on this machine.
        trust_env=urlsplit(server).hostname not in LOOPBACK,
    )


class ApiConnection:
    """Sends a worker's requests; several threads may.

    Every call raises `LedgerUnreachable` for what may be tried again, `LedgerRefused` where the
    token opens nothing, `LeaseLost` for a lease that is not held, and `UnexpectedAnswer`. Nothing
    is sent again here: that is for who calls, as with any ledger.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def post(self, path: str, body: bytes | None, lease: Lease | None = None) -> bytes | None:
        """Send JSON; the answer's body, or None where it says that there is nothing."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = self._http.build_request(
            "POST", path, params=_query(lease), content=body, headers=headers
        )
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            raise _unreachable(error) from error
        return _content(answer, lease)

    def upload(self, path: str, pieces: Iterable[bytes], lease: Lease) -> bytes | None:
        """Send bytes as they come; the answer's body."""
        request = self._http.build_request(
            "POST",
            path,
            params=_query(lease),
            content=pieces,
            headers={"Content-Type": BYTES},
            timeout=httpx.Timeout(STORE_SECONDS, connect=CONNECT_SECONDS),
        )
        try:
            answer = self._http.send(request)
        except httpx.TransportError as error:
            raise _unreachable(error) from error
        return _content(answer, lease)

    def download(self, path: str, lease: Lease) -> Iterator[bytes]:
        """The bytes at a path; goes on where they broke off, if something came in between."""
        position, has_come = 0, False
        while True:
            try:
                for piece in self._from(path, lease, position):
                    position, has_come = position + len(piece), True
                    yield piece
            except httpx.TransportError as error:
                if not has_come:
                    raise _unreachable(error) from error
                has_come = False
            else:
                return

    def _from(self, path: str, lease: Lease, position: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={position}-"} if position else {}
        with self._http.stream("GET", path, params=_query(lease), headers=headers) as answer:
            if not answer.is_success:
                answer.read()
                _content(answer, lease)
            if position and answer.status_code != HTTPStatus.PARTIAL_CONTENT:
                raise LedgerUnreachable(
                    "The server did not resume the content where it was interrupted."
                )
            yield from answer.iter_bytes(CHUNK)


def _content(answer: httpx.Response, lease: Lease | None) -> bytes | None:
    """The body of a success; raises what any other answer means."""
    status = answer.status_code
    if answer.is_success:
        return None if status == HTTPStatus.NO_CONTENT else answer.content
    problem = _problem(answer)
    told = f"{answer.request.method} {answer.request.url.path}: {status} {problem.get('detail')}"
    if status in REFUSALS:
        raise LedgerRefused(f"{told} A worker needs its own token with the scope `worker`.")
    if status in PASSING or answer.is_server_error:
        _wait_as_asked(answer)
        raise LedgerUnreachable(told)
    # A lease that the server knows nothing of was claimed after the backup that it now has.
    if lease is not None and (status == HTTPStatus.NOT_FOUND or problem.get("type") == LOST):
        raise LeaseLost(lease.job_id, lease.attempt)
    raise UnexpectedAnswer(told, status, tuple(_named(problem)))


def _named(problem: Mapping[str, object]) -> Iterator[Problem]:
    """The problems that a problem document names, each with its place."""
    errors = problem.get("errors")
    for one in cast("list[object]", errors) if isinstance(errors, list) else []:
        if isinstance(one, dict):
            named = cast("dict[str, object]", one)
            pointer, code, detail = (str(named.get(n, "")) for n in ("pointer", "code", "detail"))
            yield Problem(pointer, code, detail)


def _problem(answer: httpx.Response) -> Mapping[str, object]:
    try:
        document: object = answer.json()
    except ValueError:  # something in between has answered
        return {}
    return cast("Mapping[str, object]", document) if isinstance(document, dict) else {}


def _wait_as_asked(answer: httpx.Response) -> None:
    asked = answer.headers.get("Retry-After", "")
    if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS and asked.isascii() and asked.isdigit():
        time.sleep(min(int(asked), LONGEST_WAIT))


def _query(lease: Lease | None) -> Mapping[str, int]:
    return {} if lease is None else {"attempt": lease.attempt}


def _unreachable(error: httpx.TransportError) -> LedgerUnreachable:
    return LedgerUnreachable(f"The server did not answer: {type(error).__name__}: {error}")
