"""Answers in JSON, with an entity tag where a client may want to ask whether anything changed."""

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
    """What a service did: whether it was done before, and the queues that have new work."""

    @property
    def replayed(self) -> bool:
        """Whether an idempotency key brought back an earlier answer."""
        ...

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues to ring after the commit."""
        ...


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


def changed_answer(
    value: Value,
    done: Done,
    opened: Resources,
    background: BackgroundTasks,
    *,
    location: str | None = None,
) -> Response:
    """What was changed, or created at `location`; the queues with new work are rung."""
    if done.queues:
        # After the answer, and so after the commit: a message about a job that is not there yet
        # would be lost.
        background.add_task(opened.bell.ring, done.queues)
    status = 201 if location and not done.replayed else 200
    return tagged_answer(value, status=status, headers=changed_headers(done, location))


def changed_headers(done: Done, location: str | None) -> Mapping[str, str]:
    """What an answer says of a change beside its body."""
    headers = {"Location": location} if location else {}
    if done.replayed:
        headers["Idempotency-Replayed"] = "true"
    return headers
