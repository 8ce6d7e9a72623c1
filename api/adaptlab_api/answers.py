"""Answers in JSON, with an entity tag where a client may want to ask whether anything changed."""

import hashlib
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response

from adaptlab.values import Value

NO_STORE = {"Cache-Control": "no-store"}


def json_answer(
    value: Value, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The value as JSON."""
    fixed = NO_STORE | dict(headers or {})
    return Response(value.model_dump_json(), status, fixed, media_type="application/json")


def tagged_answer(
    value: Value,
    asked: Headers | None = None,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The value as JSON with an ETag; 304 if `asked` says that this content is known already."""
    content = value.model_dump_json().encode()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    fixed = {"Cache-Control": "private, no-cache", "ETag": etag} | dict(headers or {})
    if asked is not None and etag in asked.get("if-none-match", "").replace("W/", "").split(", "):
        return Response(status_code=304, headers=fixed)
    return Response(content, status, fixed, media_type="application/json")
