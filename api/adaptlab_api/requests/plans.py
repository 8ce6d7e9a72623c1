"""Models on a hub that a request names are planned before it is answered.

The fetcher reads the configuration and the headers; the request waits without a thread.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from fastapi import Request
from starlette.responses import Response

from adaptlab.values import Value
from adaptlab_api.answers.problems import HUB_SLOW, problem
from adaptlab_api.answers.state import resources_of
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.requests.dependencies import principal_of, units_of
from adaptlab_services.hub import plans

S = TypeVar("S", bound=Value)

PLANNING_SHARE = 0.4
"""Share of a request's time for the plans of models."""
LOOK_SECONDS = 0.2
RETRY_SECONDS = 5


async def with_plans(
    request: Request, read: Callable[[], S], answer: Callable[[S], Response]
) -> Response:
    """Answer with a value whose models on the hub are planned first.

    Raises:
        InvalidSpec: a model cannot be fetched.
    """

    def at_once() -> Response | tuple[S, Mapping[str, str]]:
        value = read()
        sources = plans.sources_in(value)
        return (value, sources) if sources else answer(value)

    found = await turn_of(request).call(at_once)
    if isinstance(found, Response):
        return found
    value, sources = found
    late = await not_planned(request, sources)
    return late or await turn_of(request).call(answer, value)


async def not_planned(request: Request, sources: Mapping[str, str]) -> Response | None:
    """Wait for the plans of models; return the answer if they take too long.

    Raises:
        InvalidSpec: a model cannot be fetched.
    """
    turn, clock = turn_of(request), asyncio.get_running_loop()
    seconds = PLANNING_SHARE * resources_of(request.app).settings.answer_seconds
    deadline = clock.time() + seconds
    begun = await turn.call(_begun, request, sources)
    while begun and (unread := await turn.call(_unread, request, begun)):
        if clock.time() >= deadline:
            detail = f"The hub has not described {'; '.join(unread)} yet. Send the request again."
            return problem(HUB_SLOW, detail, headers={"Retry-After": str(RETRY_SECONDS)})
        await asyncio.sleep(LOOK_SECONDS)
    return None


def _begun(request: Request, sources: Mapping[str, str]) -> Mapping[UUID, str]:
    with units_of(request)() as session:
        settings = resources_of(request.app).settings
        return plans.begin(session, principal_of(request), sources, settings)


def _unread(request: Request, begun: Mapping[UUID, str]) -> Sequence[str]:
    with units_of(request)() as session:
        return plans.unread(session, begun)
