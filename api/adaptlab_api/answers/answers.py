"""JSON answers, with an entity tag for clients that ask for changes."""

import hashlib
from collections.abc import Mapping
from typing import Protocol

from starlette.background import BackgroundTasks
from starlette.datastructures import Headers
from starlette.responses import Response

from adaptlab.values import Value
from adaptlab_api.answers.state import Resources

NO_STORE = {"Cache-Control": "no-store"}


class Done(Protocol):
    """The result of a change: the queues with new work, or an earlier answer."""

    @property
    def replayed(self) -> bool:
        """True if an idempotency key returned an earlier answer."""
        ...

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues to ring after the commit."""
        ...


def json_answer(
    value: Value, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the value as JSON."""
    fixed = NO_STORE | dict(headers or {})
    return Response(value.model_dump_json(), status, fixed, media_type="application/json")


def tagged_answer(
    value: Value,
    asked: Headers | None = None,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return JSON with an ETag, or 304 if the headers `asked` have that tag."""
    content = value.model_dump_json().encode()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    fixed = {"Cache-Control": "private, no-cache", "ETag": etag} | dict(headers or {})
    if asked is not None and etag in asked.get("if-none-match", "").replace("W/", "").split(", "):
        return Response(status_code=304, headers=fixed)
    return Response(content, status, fixed, media_type="application/json")


def changed_answer(
    value: Value,
    done: Done,
    opened: Resources,
    background: BackgroundTasks,
    *,
    location: str | None = None,
) -> Response:
    """Return what was changed or created, and ring the queues with new work."""
    if done.queues:
        # After the answer, and so after the commit: a message about a job that is not stored yet
        # would be lost.
        background.add_task(opened.bell.ring, done.queues)
    status = 201 if location and not done.replayed else 200
    return tagged_answer(value, status=status, headers=changed_headers(done, location))


def changed_headers(done: Done, location: str | None) -> Mapping[str, str]:
    """Return the headers of the answer to a change."""
    headers = {"Location": location} if location else {}
    if done.replayed:
        headers["Idempotency-Replayed"] = "true"
    return headers
