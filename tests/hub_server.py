"""A hub on loopback, with the requests and answers of the public one.

Weights are on a second server, as they are there. Tests change what either answers.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from adaptlab_services.settings import Settings

COMMIT = "c0ffee" + 34 * "0"
WHOAMI = {"name": "lab", "auth": {"accessToken": {"displayName": "server", "role": "read"}}}
OTHER = "0ddba11" + 33 * "0"
API = re.compile(r"/api/(?:models/)?(?P<repo>.+?)/revision/(?P<revision>[^/]+)")
LFS = (".safetensors", ".parquet", ".big.csv")
FILE = re.compile(r"/(?P<repo>(?:datasets/)?[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


@dataclass(frozen=True)
class Asked:
    """A request as it arrived; `host` is `hub` or `cdn`."""

    host: str
    path: str
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        """The file that it is for, or the last part of the path."""
        return unquote(self.path.rpartition("/")[2])

    @property
    def start(self) -> int:
        """The first byte that it asks for."""
        return int(self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])


class Handler(BaseHTTPRequestHandler):
    """What both servers share."""

    protocol_version = "HTTP/1.1"
    hub: "Hub"
    host: str

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.host, path, headers)
        self.hub.asked.append(asked)
        change = self.hub.changes.get(asked.name) or self.hub.changes.get(self.host)
        if change is None or not change(self):
            self.plainly(path)

    def plainly(self, path: str) -> None:
        """Answer as a hub does."""
        if self.host == "cdn":
            self.bytes_of(self.hub.by_digest[path.rpartition("/")[2]])
        elif path == "/api/whoami-v2":
            self.account()
        elif found := API.fullmatch(path):
            self.info(found["repo"], unquote(found["revision"]))
        elif found := FILE.fullmatch(path):
            self.resolve(found["repo"], unquote(found["revision"]), unquote(found["file"]))
        else:
            self.answer(404)

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"content_length": str(len(content))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def account(self) -> None:
        """Answer with the account of the token."""
        if self.hub.whoami is None:
            self.answer(401, x_error_message="Invalid credentials in Authorization header")
        else:
            self.answer(200, json.dumps(self.hub.whoami).encode(), content_type="application/json")

    def info(self, repo: str, revision: str) -> None:
        if repo not in self.hub.files:
            self.answer(401, x_error_message="Invalid username or password.")
            return
        commit = self.hub.branches.get(revision)
        if commit is None:
            self.answer(404, x_error_code="RevisionNotFound")
            return
        document = {
            "id": repo,
            "sha": commit,
            "private": False,
            "gated": False,
            "cardData": {"license": "apache-2.0"} | self.hub.card,
            "siblings": [self.hub.sibling(*pair) for pair in self.hub.tree(repo, commit).items()],
        }
        content = json.dumps(document | self.hub.members).encode()
        self.answer(200, content, content_type="application/json")

    def resolve(self, repo: str, revision: str, file: str) -> None:
        content = self.hub.tree(repo, revision).get(file)
        if content is None:
            self.answer(404, x_error_code="EntryNotFound")
        elif not file.endswith(LFS):
            self.bytes_of(content, x_repo_commit=revision)
        else:
            digest = hashlib.sha256(content).hexdigest()
            self.hub.by_digest[digest] = content
            self.answer(
                302,
                location=self.hub.location or f"{self.hub.cdn}/lfs/{digest}",
                x_repo_commit=revision,
                x_linked_size=str(len(content)),
                x_linked_etag=f'"{digest}"',
                x_xet_hash=digest,
                link=f'<{self.hub.xet}/auth>; rel="xet-auth"',
            )

    def bytes_of(self, content: bytes, **headers: str) -> None:
        """Answer a range of a content, or all of it."""
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if span is None:
            self.answer(200, content, **headers)
            return
        start, stop = int(span[1]), min(int(span[2]) + 1, len(content))
        where = f"bytes {start}-{stop - 1}/{len(content)}"
        self.answer(206, content[start:stop], content_range=where, **headers)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
        """Print nothing."""


Change = Callable[[Handler], object]
"""Answers a request and returns True, or leaves it to the hub."""


@dataclass
class Hub:
    """Repositories, what was asked, and changed answers.

    Those of datasets have names that begin with `datasets/`. `trees` are the files at a commit, if
    they differ from those in `files`, and `card` is that of all repositories. `whoami` is the
    account of a token.
    `changes` are by the name of a file or branch, or by the host. `members` replace those of the
    answer about a repository. `location` replaces where weights are.
    """

    url: str = ""
    cdn: str = ""
    xet: str = "http://127.0.0.1:9"
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, COMMIT: COMMIT})
    members: dict[str, Any] = field(default_factory=dict)
    trees: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    whoami: dict[str, Any] | None = field(default_factory=lambda: dict(WHOAMI))
    by_digest: dict[str, bytes] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    location: str | None = None

    def add(self, repo: str, folder: Path, **more: bytes) -> None:
        """Add a repository with the files of a folder."""
        self.files[repo] = {path.name: path.read_bytes() for path in folder.iterdir()} | more

    def tree(self, repo: str, commit: str) -> dict[str, bytes]:
        """The files of a repository at a commit."""
        return self.trees.get((repo, commit)) or self.files[repo]

    def sibling(self, name: str, content: bytes) -> dict[str, Any]:
        """A file as the answer about a repository has it."""
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
        if name.endswith(LFS):
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
        return entry

    def settings(self, settings: Settings, **changes: Any) -> Settings:
        """The settings of a server that uses this hub."""
        own = {
            "hub": "on",
            "hub_endpoint": self.url,
            "hub_hosts": (self.cdn.removeprefix("http://"),),
        }
        return settings.model_copy(update=own | changes)

    def names(self, host: str = "hub") -> list[str]:
        """The last parts of the paths that one of the servers was asked for."""
        return [one.name for one in self.asked if one.host == host]


@contextmanager
def a_hub() -> Generator[Hub]:
    """A hub and the server of its weights, while the block runs."""
    hub = Hub()
    with ExitStack() as stack:
        hub.url = stack.enter_context(_serving(hub, "hub"))
        hub.cdn = stack.enter_context(_serving(hub, "cdn"))
        yield hub


@contextmanager
def _serving(hub: Hub, host: str) -> Generator[str]:
    handler = type("OwnHandler", (Handler,), {"hub": hub, "host": host})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
