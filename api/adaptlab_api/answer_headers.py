"""What every answer tells a browser: never guess its type, run nothing, show it in no frame.

Pages and files say more of themselves; what an answer has already is left as it is.
"""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVERYWHERE = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
UNDER_TLS = ("Strict-Transport-Security", "max-age=31536000")


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
                headers = MutableHeaders(scope=message)
                for name, value in added:
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, adding)
