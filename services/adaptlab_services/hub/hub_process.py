"""The process that reads from a hub, and writes to it, for the server.

Run as `python -m adaptlab_services.hub.hub_process`. The first line of its input is a `HubAccess`,
each further line a request such as `ReadFile`; all are JSON. It answers each with frames, a line of
JSON and the bytes that this announces. The server can kill it at any time.

The library's own downloads begin again after a kill, wait as long as a hub asks for, and leave the
allowed hosts with Xet. So only its requests for repositories, addresses and errors are used.
"""

import os
import resource
import sys
import threading
import urllib.request
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from queue import SimpleQueue
from socket import SOCK_STREAM, getaddrinfo
from typing import Any, NoReturn, cast

import httpcore2
import httpx2
from huggingface_hub import (
    CommitOperationAdd,
    DatasetInfo,
    HfApi,
    ModelInfo,
    hf_hub_url,
    set_client_factory,
)
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import get_session, hf_raise_for_status
from pydantic import TypeAdapter

from adaptlab.values import Value
from adaptlab_answers.hub import HubAccount
from adaptlab_services.hub.hub_access import (
    Frame,
    HubAccess,
    HubFile,
    HubRepository,
    Pushed,
    PushFolder,
    ReadAccount,
    ReadFile,
    ReadInfo,
)
from adaptlab_services.hub.hub_card import configs_of
from adaptlab_services.hub.hub_splits import has_records
from adaptlab_services.limits.addresses import AddressRefused

MEMORY_BYTES = 2 * 2**30
"""Bytes of addresses that the process may have; it uses some hundred millions."""
MOST_INFO_BYTES = 32 * 2**20
MOST_ERROR_BYTES = 2**16
MOST_FILES = 2000
"""Files in the root of a repository that are reported."""
MOST_DATA_FILES = 10_000
"""Files with records in a repository."""
MOST_REDIRECTS = 5
MOST_ADDRESSES = 4
CONNECT_SECONDS = 10.0
SIGN_SECONDS = 5.0
LONGEST_DETAIL = 200
AGENT = "adaptlab"
COMMIT = "x-repo-commit"

Request = ReadAccount | ReadInfo | ReadFile | PushFolder
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Request)


class HubProblem(Exception):
    """A request that brought nothing, by the code of the reason."""

    def __init__(self, code: str, detail: str = "", seconds: float | None = None) -> None:
        super().__init__(code)
        self.frame = Frame(code=code, detail=detail[:LONGEST_DETAIL], seconds=seconds)


def main() -> int:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # which would have the token
    lines = _lines()
    access = HubAccess.model_validate_json(next(lines))
    set_client_factory(lambda: _client(access))
    _write(Frame(is_last=True))
    for line in lines:
        _write(*_answered(access, _REQUESTS.validate_json(line)))
    return 0


def _lines() -> Iterator[bytes]:
    """Yield the lines of the input, and exit where it ends.

    Also amid an answer: the server has died or does not want it any more.
    """
    lines = SimpleQueue[bytes]()

    def read() -> None:
        for line in iter(sys.stdin.buffer.readline, b""):
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return iter(lines.get, None)


def _answered(access: HubAccess, request: Request) -> tuple[Frame, bytes]:
    """Answer a request; return the last frame of the answer."""
    try:
        with _codes():
            if isinstance(request, ReadFile):
                _send_file(access, request)
                return Frame(is_last=True), b""
            content = _told(access, request).model_dump_json().encode()
            return Frame(size=len(content), is_last=True), content
    except HubProblem as problem:
        return problem.frame, b""


def _told(access: HubAccess, request: ReadAccount | ReadInfo | PushFolder) -> Value:
    match request:
        case ReadInfo():
            return _info(access, request)
        case PushFolder():
            with _signs():
                return _push(access, request)
        case ReadAccount():
            return _account(access)


def _write(frame: Frame, content: bytes = b"") -> None:
    sys.stdout.buffer.write(frame.model_dump_json().encode() + b"\n" + content)
    sys.stdout.buffer.flush()


def _account(access: HubAccess) -> HubAccount:
    """Return the account of the token; raises `HubProblem` for an invalid one."""
    assert access.token is not None  # asked with one only
    headers = {"Authorization": f"Bearer {access.token.get_secret_value()}"}
    # The library's own request looks for tokens of the server where it fails.
    answer = get_session().get(f"{access.hosts.endpoint}/api/whoami-v2", headers=headers)
    if answer.status_code == 401:
        raise HubProblem("bad_token")
    hf_raise_for_status(answer)
    found: Any = answer.json()  # anything may be in it
    token: Any = found.get("auth", {}).get("accessToken", {})
    name = _text(found.get("name"))
    if name is None:
        raise HubProblem("not_a_hub")
    label, role = _text(token.get("displayName")), _text(token.get("role"))
    return HubAccount(user=name, token_name=label, role=role)


def _info(access: HubAccess, request: ReadInfo) -> HubRepository:
    token, hub = access.token, HfApi(endpoint=access.hosts.endpoint)
    found = (hub.model_info if request.kind == "model" else hub.dataset_info)(
        request.repository,
        revision=request.revision,
        files_metadata=True,
        timeout=access.read_seconds,
        token=False if token is None else token.get_secret_value(),  # None would be the server's
    )
    if not found.sha or len(found.sha) != 40:
        raise HubProblem("not_a_hub")
    is_read = _is_in_root if request.kind == "model" else has_records
    files = _files(found, is_read)
    card: Mapping[str, Any] = {} if found.card_data is None else found.card_data.to_dict()
    if request.kind == "dataset" and len(files) > MOST_DATA_FILES:
        raise HubProblem("too_many_files", f"{len(files):,} of {MOST_DATA_FILES:,}")
    return HubRepository(
        commit=found.sha,
        files=files[:MOST_FILES] if request.kind == "model" else files,
        file_count=len(found.siblings or ()),
        configs=configs_of(card) if request.kind == "dataset" else (),
        licence=_licence(card.get("license")),
        licence_name=_text(card.get("license_name")),
        licence_link=_text(card.get("license_link")),
        gated=found.gated or None,
        private=bool(found.private),
    )


def _is_in_root(name: str) -> bool:
    return "/" not in name


def _files(found: ModelInfo | DatasetInfo, is_read: Callable[[str], bool]) -> tuple[HubFile, ...]:
    return tuple(
        HubFile(
            name=file.rfilename,
            size=file.size,
            sha256=None if file.lfs is None else file.lfs.sha256,
            blob=file.blob_id,
        )
        for file in found.siblings or ()
        if is_read(file.rfilename)
    )


@contextmanager
def _signs() -> Generator[None]:
    """Show every few seconds that the process is alive, while the block runs."""
    ended = threading.Event()

    def sign() -> None:
        while not ended.wait(SIGN_SECONDS):
            _write(Frame())

    thread = threading.Thread(target=sign, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _push(access: HubAccess, request: PushFolder) -> Pushed:
    """Write a folder in one commit, unless the repository has it.

    Raises:
        HubProblem: there is no token, or the repository is public or not of adaptlab.
    """
    if access.token is None:
        raise HubProblem("no_token")
    token, name = access.token.get_secret_value(), request.repository
    api = HfApi(endpoint=access.hosts.endpoint, token=token)
    before = _writable(api, access, request)
    operations = [
        CommitOperationAdd(path_in_repo=file, path_or_fileobj=f"{request.folder}/{file}")
        for file in request.files
    ]
    # The parent is checked by the hub: a commit of somebody else in between is not overwritten.
    made = api.create_commit(name, operations, commit_message=request.message, parent_commit=before)
    if len(made.oid) != 40:
        raise HubProblem("not_a_hub")
    return Pushed(commit=made.oid, is_new=made.oid != before)


def _writable(api: HfApi, access: HubAccess, request: PushFolder) -> str | None:
    """Return the head of the repository, which is created if there is none."""
    name = request.repository
    try:
        found = api.model_info(name, timeout=access.read_seconds)
    except HfHubHTTPError as error:
        if error.response.status_code not in (401, 404) or _is_bad_token(error):
            raise
        api.create_repo(name, private=not request.is_public, exist_ok=True)
        found = api.model_info(name, timeout=access.read_seconds)
    if not found.private and not request.is_public:
        raise HubProblem("is_public")
    files = {file.rfilename for file in found.siblings or ()} - {".gitattributes"}
    card: Mapping[str, Any] = {} if found.card_data is None else found.card_data.to_dict()
    if files and request.marker not in (card.get("tags") or ()):
        raise HubProblem("not_ours")
    return found.sha


def _licence(value: object) -> str | None:
    """Return a licence, or several, as datasets of several sources have."""
    if isinstance(value, list):
        value = ", ".join(one for one in cast("list[object]", value) if isinstance(one, str))
    return _text(value or None)


def _text(value: object) -> str | None:
    return value[:LONGEST_DETAIL] if isinstance(value, str) else None


def _send_file(access: HubAccess, request: ReadFile) -> None:
    """Send the bytes of a file, as they come.

    Raises:
        HubProblem: the hub does not send them, or not all.
    """
    url = hf_hub_url(
        request.repository,
        request.file,
        repo_type=request.kind,
        revision=request.commit,
        endpoint=access.hosts.endpoint,
    )
    headers = {"Range": f"bytes={request.start}-{request.stop - 1}", "Accept-Encoding": "identity"}
    if access.token is not None:
        headers["Authorization"] = f"Bearer {access.token.get_secret_value()}"
    with get_session().stream("GET", url, headers=headers) as answer:
        _check_success(answer)
        _check_commit(answer, request.commit)
        left, skipped = request.stop - request.start, _skipped(answer, request)
        for piece in answer.iter_raw():  # of no size, so that slow bytes are seen
            skipped, wanted = max(0, skipped - len(piece)), piece[skipped:][:left]
            if wanted:
                _write(Frame(size=len(wanted)), wanted)
                left -= len(wanted)
            if not left:
                return
    raise HubProblem("cut")


def _check_success(answer: httpx2.Response) -> None:
    if answer.is_success:
        return
    content = b""
    for piece in answer.iter_raw(MOST_ERROR_BYTES):
        content = piece[:MOST_ERROR_BYTES]
        break
    headers = {k: v for k, v in answer.headers.items() if k != "content-encoding"}
    hf_raise_for_status(
        httpx2.Response(
            answer.status_code, headers=headers, content=content, request=answer.request
        )
    )
    raise HubProblem("refused", f"status {answer.status_code}")


def _check_commit(answer: httpx2.Response, commit: str) -> None:
    commits = {one.headers.get(COMMIT) for one in (*answer.history, answer)} - {None}
    if not commits:
        raise HubProblem("not_a_hub")
    if commits != {commit}:
        raise HubProblem("moved", ", ".join(sorted(map(str, commits))))


def _skipped(answer: httpx2.Response, request: ReadFile) -> int:
    """Return the number of bytes before the wanted ones.

    Raises `HubProblem` for other bytes than those of a file of the announced size.
    """
    if answer.status_code != 206:
        size = answer.headers.get("content-length")
        if size is not None and size != str(request.size):
            raise HubProblem("wrong_size", size)
        return request.start
    span, _, size = answer.headers.get("content-range", "").partition("/")
    if size not in (str(request.size), "*"):
        raise HubProblem("wrong_size", size)
    if not span.startswith(f"bytes {request.start}-"):
        raise HubProblem("cut")
    return 0


@contextmanager
def _codes() -> Generator[None]:
    """Turn errors of the library and of the connection into problems."""
    try:
        yield
    except AddressRefused as error:
        raise HubProblem("refused_host", str(error)) from error
    except HfHubHTTPError as error:
        _raise_for(error)
    except httpx2.TimeoutException as error:
        raise HubProblem("silent") from error
    except (httpx2.RemoteProtocolError, httpx2.ReadError) as error:
        raise HubProblem("cut") from error
    except (httpx2.ConnectError, OSError) as error:
        raise HubProblem("unreachable", type(error).__name__) from error
    except MemoryError as error:
        raise HubProblem("too_large") from error
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
    ) as error:
        # HTML where JSON should be, or JSON of another form.
        raise HubProblem("not_a_hub", type(error).__name__) from error


def _raise_for(error: HfHubHTTPError) -> NoReturn:
    """Raise the problem of an error that the hub answered."""
    status = error.response.status_code
    if isinstance(error, GatedRepoError):
        raise HubProblem("gated") from error
    if isinstance(error, RevisionNotFoundError):
        raise HubProblem("no_revision") from error
    if isinstance(error, EntryNotFoundError):
        raise HubProblem("no_file") from error
    if isinstance(error, DisabledRepoError):
        raise HubProblem("forbidden") from error
    if _is_bad_token(error):
        raise HubProblem("bad_token") from error
    if isinstance(error, RepositoryNotFoundError) or status in (401, 404):
        raise HubProblem("absent") from error
    if status == 429:
        raise HubProblem("rate_limited", seconds=_wait(error.response.headers)) from error
    if status in (409, 412):
        raise HubProblem("changed") from error
    code = "forbidden" if status == 403 else "unavailable" if status >= 500 else "refused"
    raise HubProblem(code, f"status {status}") from error


def _is_bad_token(error: HfHubHTTPError) -> bool:
    return error.response.headers.get("x-error-message", "").startswith("Invalid credentials")


def _wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a hub asks to wait for, None if it does not say."""
    for text in (headers.get("retry-after", ""), headers.get("ratelimit", "").rpartition("t=")[2]):
        digits = text.strip().partition(";")[0]
        if digits.isdecimal() and len(digits) < 12:
            return float(digits)
    return None


def _client(access: HubAccess) -> httpx2.Client:
    """Return the client of all requests, of the library too."""
    plain = _CheckedTransport(access)

    def check(request: httpx2.Request) -> None:
        # For every redirect too.
        if not access.hosts.allows(str(request.url)):
            raise AddressRefused(request.url.host)
        if not _is_same_origin(str(request.url), access.hosts.endpoint):
            request.headers.pop("authorization", None)

    def limit(answer: httpx2.Response) -> None:
        # Otherwise the library waits for as long as a hub asks for.
        if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            raise HubProblem("rate_limited", seconds=_wait(answer.headers))

    return httpx2.Client(
        transport=plain,
        mounts=dict(_proxies(plain)),
        event_hooks={"request": [check], "response": [limit]},
        headers={"User-Agent": AGENT},
        follow_redirects=True,
        max_redirects=MOST_REDIRECTS,
        timeout=httpx2.Timeout(access.read_seconds, connect=CONNECT_SECONDS),
    )


def _is_same_origin(url: str, endpoint: str) -> bool:
    one, other = httpx2.URL(url), httpx2.URL(endpoint)
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _proxies(plain: httpx2.BaseTransport) -> Iterator[tuple[str, httpx2.BaseTransport]]:
    """Yield the proxies of the environment, by what they are for."""
    proxies = urllib.request.getproxies()
    excepted = [name.strip() for name in proxies.get("no", "").split(",") if name.strip()]
    if "*" in excepted:
        return
    for scheme in ("http", "https"):
        if address := proxies.get(scheme) or proxies.get("all"):
            url = address if "://" in address else f"http://{address}"
            yield f"{scheme}://", httpx2.HTTPTransport(proxy=url)
    for name in excepted:
        yield f"all://{name.removeprefix('.').removeprefix('*.')}", plain
        yield f"all://*.{name.removeprefix('.').removeprefix('*.')}", plain


class _CheckedTransport(httpx2.HTTPTransport):
    """Connections to allowed addresses, and short answers about repositories."""

    def __init__(self, access: HubAccess) -> None:
        super().__init__(trust_env=True)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(), network_backend=HubNetwork(access)
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and limit the answer if it is no file."""
        answer = super().handle_request(request)
        if "/api/" in request.url.path:
            assert isinstance(answer.stream, httpx2.SyncByteStream)
            answer.stream = _Limited(answer.stream)
        return answer


class _Limited(httpx2.SyncByteStream):
    """An answer that is cut off where it is too long."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > MOST_INFO_BYTES:
                raise HubProblem("too_large")
            yield piece

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class HubNetwork(httpcore2.SyncBackend):
    """Connections to addresses that were checked after the name was resolved."""

    def __init__(self, access: HubAccess) -> None:
        self._access = access

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first allowed address that answers."""
        if self._access.hosts.trusts(host):
            return super().connect_tcp(host, port, timeout, local_address, socket_options)
        places = dict.fromkeys(
            ip_address(place[0]) for *_, place in getaddrinfo(host, port, type=SOCK_STREAM)
        )
        allowed = [one for one in places if self._access.rules.allows(one)][:MOST_ADDRESSES]
        if not allowed:
            raise AddressRefused(host)
        for number, address in enumerate(map(str, allowed), start=1):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if number == len(allowed):
                    raise
        raise AssertionError("unreachable: there is an address")


if __name__ == "__main__":
    sys.exit(main())
