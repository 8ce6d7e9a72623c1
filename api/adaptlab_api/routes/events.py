"""`/v1/jobs/{id}/events`, as JSON or as a stream of server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from typing import Annotated
from uuid import UUID

from fastapi import Header, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import Response, StreamingResponse

from adaptlab_answers.jobs import EventPage, EventView, ProgressNews
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.feed import Watch
from adaptlab_api.limits.thread_turns import Turn, turn_of
from adaptlab_api.requests.dependencies import ResourcesDep, Units, UnitsDep
from adaptlab_api.requests.describing import failures, succeeds
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.lifecycle import events
from adaptlab_services.lifecycle.events import LARGEST_EVENT_PAGE, Pulse

HEARTBEAT_SECONDS = 15.0
STREAM = "text/event-stream"
LARGEST_SEQUENCE = 2**31 - 1

After = Annotated[
    int, Query(ge=0, le=LARGEST_SEQUENCE, description="Only events after this number.")
]
Limit = Annotated[int, Query(ge=1, le=LARGEST_EVENT_PAGE, description="The most events to return.")]
LastEventId = Annotated[
    int | None, Header(ge=0, le=LARGEST_SEQUENCE, description="Resume a stream after this event.")
]


router = api_router("/jobs/{job_id}/events", tag="events")


@router.get(
    "",
    response_model=EventPage,
    responses={
        200: {"content": {STREAM: {"schema": {"type": "string"}}}},
        **succeeds(204, "The job has ended; no events follow."),
        **failures(404),
    },
)
@needs("reader")
async def list_events(
    job_id: JobId,
    request: Request,
    opened: ResourcesDep,
    opens: UnitsDep,
    after: After = 0,
    limit: Limit = LARGEST_EVENT_PAGE,
    last_event_id: LastEventId = None,
) -> Response:
    """List the events of a job, or with `Accept: text/event-stream`, stream them until it ends."""
    streaming = STREAM in request.headers.get("accept", "")
    start = last_event_id if streaming and last_event_id is not None else after
    turn = turn_of(request)
    page = await turn.call(_load, opens, job_id, start, limit)
    if not streaming:
        return json_answer(page)
    if page.terminal and not page.data:
        return Response(status_code=204)  # an EventSource then stops reconnecting
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    watching = opened.feed.watch(job_id, request.state.admitted)
    content = _follow(watching, turn, opens, page)
    return StreamingResponse(content, headers=headers, media_type=STREAM)


async def _follow(
    watching: AbstractContextManager[Watch], turn: Turn, opens: Units, page: EventPage
) -> AsyncGenerator[bytes]:
    with watching as watch:
        last: Pulse | None = None
        while not watch.is_over:  # it may have ended while the page was read
            for event in page.data:
                yield _event(event)
            if page.terminal or watch.closed:
                return
            if last is None or page.next_after >= last.sequence:
                async for heartbeat in _quiet(watch, last):
                    yield heartbeat
            if watch.is_over:
                return  # without later events
            if watch.pulse is not None and _progressed(last, watch.pulse):
                yield _progress(watch.pulse)
            last = watch.pulse
            if last is not None and _has_all_events(page, last):
                page = EventPage(data=(), next_after=page.next_after, terminal=False)
            else:
                page = await turn.call(_load, opens, watch.job_id, page.next_after)


def _has_all_events(page: EventPage, pulse: Pulse) -> bool:
    """Return True if the page has every event up to the pulse."""
    return pulse.sequence <= page.next_after and not pulse.terminal


async def _quiet(watch: Watch, last: Pulse | None) -> AsyncGenerator[bytes]:
    """Yield heartbeats until there is news or the feed closes."""
    while not await watch.changed(last, HEARTBEAT_SECONDS):
        yield KEEPALIVE_COMMENT


def _load(opens: Units, job_id: UUID, after: int, limit: int = LARGEST_EVENT_PAGE) -> EventPage:
    with opens() as session:
        return events.after(session, job_id, after, limit)


def _progressed(last: Pulse | None, pulse: Pulse) -> bool:
    now = _progress_of(pulse)
    return now != ProgressNews(step=0, total=pulse.total) and (
        last is None or now != _progress_of(last)
    )


def _event(event: EventView) -> bytes:
    return format_sse_event(
        id=str(event.sequence), event=event.type, data_str=event.model_dump_json()
    )


def _progress(pulse: Pulse) -> bytes:
    return format_sse_event(
        event="progress", data_str=_progress_of(pulse).model_dump_json(exclude_none=True)
    )


def _progress_of(pulse: Pulse) -> ProgressNews:
    return ProgressNews.model_validate(pulse, from_attributes=True)
