"""Answers without a body to browsers that show the same page already."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers.files import has_current


class UnchangedPages:
    """Middleware that answers 304 for a page with the tag that was asked for.

    Files and JSON answer so by themselves, before they read their content.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        asked = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "if-none-match" not in asked:
            await self._app(scope, receive, send)
            return
        is_same = False

        async def shortened(message: Message) -> None:
            nonlocal is_same
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                tag = headers.get("etag")
                is_page = headers.get("content-type", "").startswith("text/html")
                is_same = tag is not None and is_page and has_current(asked, tag)
                if is_same:
                    del headers["content-length"]
                    message = {**message, "status": 304, "headers": headers.raw}
            elif is_same:
                message = {**message, "body": b""}
            await send(message)

        await self._app(scope, receive, shortened)
