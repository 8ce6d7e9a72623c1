"""A hub on loopback, with the requests and answers of the public one.

Weights are on a second server, as they are there. Tests change what either answers.
"""

import base64
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

import yaml

from adaptlab_services.settings import Settings

COMMIT = "c0ffee" + 34 * "0"
WHOAMI = {"name": "lab", "auth": {"accessToken": {"displayName": "server", "role": "read"}}}
OTHER = "0ddba11" + 33 * "0"
API = re.compile(r"/api/(?:models/)?(?P<repo>.+?)/revision/(?P<revision>[^/]+)")
HEAD = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)")
COMMITS = re.compile(r"/api/models/(?P<repo>.+?)/(?P<step>preupload|commit)/main")
BATCH = re.compile(r"/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
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
    sent: bytes

    def do_GET(self) -> None:
        self.noted(self.plainly)

    def do_POST(self) -> None:
        self.sent = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.noted(self.written)

    def do_PUT(self) -> None:
        self.do_POST()

    def noted(self, plainly: Callable[[str], None]) -> None:
        """Note a request, and answer it unless a test does."""
        path = urlsplit(self.path).path
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.host, path, headers)
        self.hub.asked.append(asked)
        change = self.hub.changes.get(asked.name) or self.hub.changes.get(self.host)
        if change is None or not change(self):
            plainly(path)

    def plainly(self, path: str) -> None:
        """Answer as a hub does."""
        if self.host == "cdn":
            self.bytes_of(self.hub.by_digest[path.rpartition("/")[2]])
        elif path == "/api/whoami-v2":
            self.account()
        elif found := HEAD.fullmatch(path):
            self.info(found["repo"], "main")
        elif found := API.fullmatch(path):
            self.info(found["repo"], unquote(found["revision"]))
        elif found := FILE.fullmatch(path):
            self.resolve(found["repo"], unquote(found["revision"]), unquote(found["file"]))
        else:
            self.answer(404)

    def written(self, path: str) -> None:
        """Answer a request that writes, as a hub does.

        Files of weights go to the other server; a commit is for the head that it names.
        """
        hub = self.hub
        if self.host == "cdn":
            hub.by_digest[hashlib.sha256(self.sent).hexdigest()] = self.sent
            self.answer(200)
            return
        body = [json.loads(line) for line in self.sent.splitlines()]
        if self.headers.get("authorization") != f"Bearer {hub.token}":
            self.answer(401, x_error_message="Invalid credentials in Authorization header")
        elif path == "/api/validate-yaml":
            self.json_of({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            name = f"{body[0]['organization']}/{body[0]['name']}"
            is_new = name not in hub.files
            hub.created.append((name, body[0]["visibility"]))
            hub.files.setdefault(name, {})
            hub.members["private"] = hub.members.get("private", body[0]["visibility"] == "private")
            self.json_of({"url": f"{hub.url}/{name}"}, 200 if is_new else 409)
        elif found := BATCH.fullmatch(path):
            objects = [self.upload(one["oid"], one["size"]) for one in body[0]["objects"]]
            self.json_of({"transfer": "basic", "objects": objects})
        elif (found := COMMITS.fullmatch(path)) and found["step"] == "preupload":
            files = [self.mode(found["repo"], one["path"]) for one in body[0]["files"]]
            self.json_of({"files": files})
        elif found:
            self.commit(found["repo"], body)
        else:
            self.answer(404)

    def mode(self, repo: str, path: str) -> dict[str, Any]:
        """How a file is uploaded, with the id of what is there."""
        is_large = path.endswith(".safetensors")
        entry: dict[str, Any] = {
            "path": path, "uploadMode": "lfs" if is_large else "regular", "shouldIgnore": False,
        }  # fmt: skip
        there = self.hub.files[repo].get(path)
        if there is not None:
            sibling = self.hub.sibling(path, there)
            entry["oid"] = sibling["lfs"]["sha256"] if is_large else sibling["blobId"]
        return entry

    def upload(self, oid: str, size: int) -> dict[str, Any]:
        """Where a large file goes, if it is not there yet."""
        action = {"upload": {"href": f"{self.hub.cdn}/upload/{oid}"}}
        return {"oid": oid, "size": size} | (
            {} if oid in self.hub.by_digest else {"actions": action}
        )

    def commit(self, repo: str, lines: list[dict[str, Any]]) -> None:
        """Add files to a repository, if its head is the one that is named."""
        hub = self.hub
        if lines[0]["value"]["parentCommit"] != hub.branches["main"]:
            self.answer(412)
            return
        for line in lines[1:]:
            value = line["value"]
            hub.files[repo][value["path"]] = (
                hub.by_digest[value["oid"]]
                if line["key"] == "lfsFile"
                else base64.b64decode(value["content"])
            )
        card = hub.files[repo]["README.md"].decode().split("---")[1]
        hub.members["cardData"] = yaml.safe_load(card)
        head = hashlib.sha1(self.sent).hexdigest()
        hub.branches = {"main": head, head: head}
        hub.commits.append(repo)
        if not hub.loses_commits:
            url = f"{hub.url}/{repo}/commit/{head}"
            self.json_of({"commitOid": head, "commitUrl": url, "hookOutput": ""})
        else:
            self.close_connection = True

    def json_of(self, document: object, status: int = 200) -> None:
        self.answer(status, json.dumps(document).encode(), content_type="application/json")

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
    answer about a repository. `location` replaces where weights are. `token` may write. If it
    `loses_commits`, it makes them without an answer.
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
    token: str = "hf_canary-1234"
    created: list[tuple[str, str]] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    loses_commits: bool = False

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
