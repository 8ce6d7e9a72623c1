"""Pages for browsers in place of problem documents.

The middleware is outside of all others, so these need not distinguish browsers from programs.
"""

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import FastAPI, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptlab_api.answers import problems
from adaptlab_api.answers.problems import MEDIA_TYPE, ProblemBody
from adaptlab_api.pages.rendering.renderer import Renderer

PAGE = "text/html"
DOCUMENTS = ("application/problem+json", "application/json", "application/*", "*/*")
NEXT_STEPS: Mapping[int, str] = MappingProxyType(
    {
        403: "An admin of the project can give you permission.",
        404: "The address may be mistyped, or the page may have been removed.",
        405: "This address belongs to a button or a form. Open the page that has it.",
        413: "Go back; what you typed is still in the form.",
        415: "Go back and send the form from its page.",
        422: "Go back, or correct the address.",
    }
)
"""Advice by status, for problems whose text has none."""


class ProblemPages:
    """Middleware that renders problem documents for clients that prefer pages."""

    def __init__(self, app: ASGIApp, renderer: Renderer) -> None:
        self._app = app
        self._renderer = renderer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http" or not wants_page(Headers(scope=scope).get("accept", "")):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def sending(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    page = self._page(HTTPConnection(scope), start, body)
                    start = None
                    await page(scope, receive, send)

        await self._app(scope, receive, sending)

    def _page(self, request: HTTPConnection, start: Message, body: bytes) -> Response:
        page = page_of(self._renderer, request, body)
        for name, value in MutableHeaders(raw=list(start["headers"])).items():
            if name not in ("content-type", "content-length"):
                page.headers.setdefault(name, value)
        return page


def install(app: FastAPI, renderer: Renderer) -> None:
    """Render server errors too, which are answered outside of all middleware."""

    def handle(request: Request, error: Exception) -> Response:
        document = problems.handle(request, error)
        if not wants_page(request.headers.get("accept", "")):
            return document
        page = page_of(renderer, request, bytes(document.body))
        for name, value in document.headers.items():
            if name not in ("content-type", "content-length"):
                page.headers.setdefault(name, value)
        return page

    app.add_exception_handler(Exception, handle)


def page_of(renderer: Renderer, request: HTTPConnection, body: bytes) -> Response:
    """Return the page of a problem document."""
    document = ProblemBody.model_validate_json(body)
    values = {
        "principal": getattr(request.state, "principal", None),
        "faults": [fault for fault in document.errors if fault.detail not in document.detail],
        "next_step": NEXT_STEPS.get(document.status),
        "signed_out": document.status == 401,
    }
    page = renderer.fault(document.status, document.title, document.detail, values)
    page.headers["Vary"] = "Accept"
    return page


def wants_page(accept: str) -> bool:
    """Return True if the client names pages and prefers them to documents."""
    weights = dict(_weights(accept))
    document = next((weights[kind] for kind in DOCUMENTS if kind in weights), 0.0)
    return weights.get(PAGE, 0.0) > document


def _weights(accept: str) -> list[tuple[str, float]]:
    """Return every media range with its weight; an invalid weight is 0."""
    weights: list[tuple[str, float]] = []
    for part in accept.lower().split(","):
        kind, _, parameters = part.partition(";")
        weights.append((kind.strip(), _weight(parameters)))
    return weights


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _is_problem(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type") == MEDIA_TYPE
