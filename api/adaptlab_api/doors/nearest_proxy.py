"""The client's address, and ours, as reported by the proxy in front."""

from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from adaptlab_api.doors.path_prefix import prefix_of


class NearestProxy:
    """Replaces the proxy's address and scheme, and notes its prefix.

    Only the last entry of a header is trusted: the proxy wrote it, and the client can write those
    before it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            scope = {**scope, **_client(headers), **_scheme(headers), **prefix_of(headers)}
        await self._app(scope, receive, send)


def _client(headers: Headers) -> dict[str, tuple[str, int]]:
    address = _last(headers, "x-forwarded-for")
    try:
        return {"client": (str(ip_address(address)), 0)}
    except ValueError:
        return {}


def _scheme(headers: Headers) -> dict[str, str]:
    scheme = _last(headers, "x-forwarded-proto").lower()
    return {"scheme": scheme} if scheme in {"http", "https"} else {}


def _last(headers: Headers, name: str) -> str:
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()
