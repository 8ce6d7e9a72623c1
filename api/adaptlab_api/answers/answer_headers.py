"""Security headers of every answer: no type guessing, scripts or frames.

Pages and files set stricter ones themselves; headers that an answer already has are kept.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVERYWHERE = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
UNDER_TLS = (b"strict-transport-security", b"max-age=31536000")


def always(scheme: str) -> dict[str, str]:
    """Return the headers of every answer by this scheme, by name."""
    added = (*EVERYWHERE, UNDER_TLS) if scheme == "https" else EVERYWHERE
    return {name.decode(): value.decode() for name, value in added}


class AnswerHeaders:
    """Middleware that adds the headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added = (*EVERYWHERE, UNDER_TLS) if scope["scheme"] == "https" else EVERYWHERE

        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                more = [header for header in added if header[0] not in present]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, adding)
