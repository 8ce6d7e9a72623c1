"""Where a request comes from, on the word of the one proxy in front of this server."""

from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class NearestProxy:
    """Puts the client's address and scheme in place of the proxy's.

    Only the last entry of a header is believed: the proxy wrote it, while those before it are
    whatever the client sent along.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            scope = {**scope, **_client(headers), **_scheme(headers)}
        await self._app(scope, receive, send)


def _client(headers: Headers) -> dict[str, tuple[str, int]]:
    told = _last(headers, "x-forwarded-for")
    try:
        return {"client": (str(ip_address(told)), 0)}
    except ValueError:
        return {}


def _scheme(headers: Headers) -> dict[str, str]:
    told = _last(headers, "x-forwarded-proto").lower()
    return {"scheme": told} if told in {"http", "https"} else {}


def _last(headers: Headers, name: str) -> str:
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()
