"""Routes that answer with a file, and their description."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.responses import Response

from adaptlab_api.requests.describing import failures, succeeds

H = TypeVar("H", bound=Callable[..., Any])

BYTES = "application/octet-stream"
HEADERS = {
    "ETag": "The SHA-256 of the whole file, in double quotes.",
    "Accept_Ranges": "Always `bytes`.",
    "Content_Length": "The number of bytes that follow.",
    "Content_Disposition": "A name for the file.",
}
FILE = (
    succeeds(200, "The file.", BYTES, **HEADERS)
    | succeeds(206, "A range of the file.", BYTES, **HEADERS, Content_Range="Range and file size.")
    | succeeds(304, "The content matches `If-None-Match`.")
)


def file_route(router: APIRouter, path: str) -> Callable[[H], H]:
    """Return a decorator that routes GET and HEAD to a handler of a file."""

    def register(handler: H) -> H:
        content = handler.__name__.removeprefix("get_")
        for method in ("GET", "HEAD"):
            router.add_api_route(
                path,
                handler,
                methods=[method],
                operation_id=f"{method.lower()}_{content}",
                response_class=Response,
                responses=FILE | failures(404, 410, 416),
            )
        return handler

    return register
