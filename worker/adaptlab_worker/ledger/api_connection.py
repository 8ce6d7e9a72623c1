"""A worker's requests to the API, with errors for the holder of a lease."""

import time
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import cast
from urllib.parse import urlsplit

import httpx

from adaptlab.errors import Problem
from adaptlab_services.errors import LeaseLost, LedgerRefused, LedgerUnreachable
from adaptlab_services.lifecycle.held_leases import Lease
from adaptlab_worker.errors import UnexpectedServerAnswer

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0  # of silence; a lease outlasts two of them
STORE_SECONDS = 300.0  # for the server to store an upload
LONGEST_WAIT = 5.0  # before the next request, if the server asks for more
CHUNK = 2**20  # bytes
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOST = "urn:adaptlab:problem:lease-lost"
REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
BYTES = "application/octet-stream"


def open_connections(server: str, token: str) -> httpx.Client:
    """Open connections to the API at an address, with a worker's token."""
    return httpx.Client(
        base_url=server,
        headers={
            "Authorization": f"Bearer {token}",
            "User-Agent": "adaptlab-worker",
            "Accept-Encoding": "identity",  # ranges are of the content itself
        },
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        # A proxy in the environment is for the outside, never for a server on this machine.
        trust_env=urlsplit(server).hostname not in LOOPBACK,
    )


class ApiConnection:
    """Connection of a worker to the API, safe for several threads.

    Every call raises `LedgerUnreachable` if it may be retried, `LedgerRefused` if the token is not
    accepted, `LeaseLost` if the lease is not held, and `UnexpectedServerAnswer`. Requests are not
    retried here; that is up to the caller, as with any ledger.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def post(self, path: str, body: bytes | None, lease: Lease | None = None) -> bytes | None:
        """Send JSON; return the answer's body, or None for 204 No Content."""
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
        """Stream bytes to a path; return the answer's body."""
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
        """Yield the bytes at a path; resume after a break."""
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
    """Return the body of a success; raise the error of any other answer."""
    status = answer.status_code
    if answer.is_success:
        return None if status == HTTPStatus.NO_CONTENT else answer.content
    problem = _problem(answer)
    message = f"{answer.request.method} {answer.request.url.path}: {status} {problem.get('detail')}"
    if status in REFUSALS:
        raise LedgerRefused(f"{message} A worker needs its own token with the scope `worker`.")
    if status in PASSING or answer.is_server_error:
        _wait_as_asked(answer)
        raise LedgerUnreachable(message)
    # A server restored from a backup has no record of leases claimed after it.
    if lease is not None and (status == HTTPStatus.NOT_FOUND or problem.get("type") == LOST):
        raise LeaseLost(lease.job_id, lease.attempt)
    raise UnexpectedServerAnswer(message, status, tuple(_named(problem)))


def _named(problem: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems that a problem document lists, with their pointers."""
    errors = problem.get("errors")
    for entry in cast("list[object]", errors) if isinstance(errors, list) else []:
        if isinstance(entry, dict):
            fields = cast("dict[str, object]", entry)
            pointer, code, detail = (str(fields.get(n, "")) for n in ("pointer", "code", "detail"))
            yield Problem(pointer, code, detail)


def _problem(answer: httpx.Response) -> Mapping[str, object]:
    try:
        document: object = answer.json()
    except ValueError:  # a proxy has answered
        return {}
    return cast("Mapping[str, object]", document) if isinstance(document, dict) else {}


def _wait_as_asked(answer: httpx.Response) -> None:
    seconds = answer.headers.get("Retry-After", "")
    if (
        answer.status_code == HTTPStatus.TOO_MANY_REQUESTS
        and seconds.isascii()
        and seconds.isdigit()
    ):
        time.sleep(min(int(seconds), LONGEST_WAIT))


def _query(lease: Lease | None) -> Mapping[str, int]:
    return {} if lease is None else {"attempt": lease.attempt}


def _unreachable(error: httpx.TransportError) -> LedgerUnreachable:
    return LedgerUnreachable(f"The server did not answer: {type(error).__name__}: {error}")
