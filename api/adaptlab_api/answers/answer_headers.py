"""What every answer tells a browser: never guess its type, run nothing, show it in no frame.

Pages and files say more of themselves; what an answer has already is left as it is.
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
    """The headers of every answer by this scheme, by name."""
    added = (*EVERYWHERE, UNDER_TLS) if scheme == "https" else EVERYWHERE
    return {name.decode(): value.decode() for name, value in added}


class AnswerHeaders:
    """Adds the headers to whatever the application answers."""

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
                there = {name for name, _ in message["headers"]}
                more = [header for header in added if header[0] not in there]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, adding)
