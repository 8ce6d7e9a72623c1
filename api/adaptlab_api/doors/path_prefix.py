"""Addresses below a path of the host, as `https://lab/adaptlab/`.

Routes and templates know only addresses from `/` on. The prefix is removed from what a request asks
for, and added to redirects, cookies, links in JSON and, by the renderer, the addresses in pages.
"""

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab.errors import BadSettings
from adaptlab_answers.links import path_prefix

KEY = "adaptlab.prefix"
"""Where the proxy's prefix is kept in the scope of a request."""
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_COOKIE_PATH = re.compile(r"(;\s*path=)/(?=;|$)", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r'(\s(?:href|src|srcset|action|formaction|data-(?:address|charts|from|preview|source|stream))="'
    r'|<option value="(?=/jobs/))/(?!/)'
)


def prefix_in(address: str | None) -> str:
    """Return the path of the server's address, without a last slash."""
    return urlsplit(address or "").path.rstrip("/")


def forwarded_prefix(text: str) -> str:
    """Return the prefix that a proxy sends; empty if it is no plain path."""
    prefix = text.rstrip("/")
    return prefix if _PREFIX.fullmatch(prefix) else ""


def current_prefix() -> str:
    """Return the prefix of the request that is being answered."""
    return path_prefix.get()


def below_prefix(page: str) -> str:
    """Return a page whose addresses on this server begin with the prefix.

    Only attributes are changed: text in a page has its quotation marks escaped.
    """
    prefix = path_prefix.get()
    return _ATTRIBUTE.sub(rf"\g<1>{prefix}/", page) if prefix else page


class PathPrefix:
    """Removes the prefix from requests, and adds it to redirects and cookies.

    Args:
        app: what answers.
        prefix: the path of `ADAPTLAB_PUBLIC_URL`; a proxy that is trusted may name another one.
        taken: first parts of the server's own paths, which a prefix cannot begin with.

    Raises:
        BadSettings: the prefix is no plain path, or begins like an address of the server.
    """

    def __init__(self, app: ASGIApp, prefix: str, taken: Collection[str]) -> None:
        if prefix and (not _PREFIX.fullmatch(prefix) or prefix.split("/")[1] in taken):
            raise BadSettings(
                f"ADAPTLAB_PUBLIC_URL has the path {prefix}, which this server cannot be below: "
                "use letters and digits, as in https://lab.example.org/adaptlab."
            )
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        prefix = scope.get(KEY) or self._prefix
        if scope["type"] != "http" or not prefix:
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            scope = {**scope, "path": path.removeprefix(self._prefix) or "/"}
        path_prefix.set(prefix)

        async def prefixed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [_prefixed(name, value, prefix) for name, value in message["headers"]]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, prefixed)


def _prefixed(name: bytes, value: bytes, prefix: str) -> tuple[bytes, bytes]:
    match name.lower():
        case b"location" if value.startswith(b"/") and not value.startswith(b"//"):
            return name, prefix.encode() + value
        case b"set-cookie":
            text = value.decode("latin-1")
            return name, _COOKIE_PATH.sub(rf"\g<1>{prefix}", text).encode("latin-1")
        case _:
            return name, value


def prefix_of(headers: Headers) -> dict[str, str]:
    """Return the entry of a scope for the prefix that a proxy sends."""
    prefix = forwarded_prefix(headers.get("x-forwarded-prefix", ""))
    return {KEY: prefix} if prefix else {}
