"""What a request names on a hub is there before it is answered.

Models are planned: the fetcher reads the configuration and the headers. Datasets are fetched, since
their fields and labels decide the resolved spec. The request waits without a thread.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from fastapi import Request
from starlette.responses import Response

from adaptlab.errors import Problem
from adaptlab_api.answers.problems import FETCHING, HUB_SLOW, Refused, problem
from adaptlab_api.answers.state import resources_of
from adaptlab_api.limits.auditing import entry_of
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.requests.dependencies import Units, principal_of
from adaptlab_services.hub import plans, wanted_datasets
from adaptlab_services.hub.plans import FetchInWork

PLANNING_SHARE = 0.4
"""Share of a request's time for the plans of models and the fetches of datasets."""
LOOK_SECONDS = 0.2
LONGEST_LOOK_SECONDS = 1.0
SLOWING = 1.3
RETRY_SECONDS = 5


async def not_there(
    request: Request, models: Mapping[str, str], datasets: Mapping[str, str], units: Units
) -> Response | None:
    """Wait for what `here` waits for; return the answer if it takes too long.

    Raises:
        InvalidSpec: something cannot be fetched.
    """
    late = await here(request, models, datasets, units)
    if late is None:
        return None
    retry = {"Retry-After": str(RETRY_SECONDS)}
    return problem(late.kind, late.detail, faults=late.faults, headers=retry)


async def here(
    request: Request, models: Mapping[str, str], datasets: Mapping[str, str], units: Units
) -> Refused | None:
    """Wait for plans and datasets; return what takes too long.

    Args:
        request: the request.
        models: the pointers of models, by their names on the hub.
        datasets: likewise of datasets.
        units: opens the units of work, in the project that gets the datasets.

    Raises:
        InvalidSpec: something cannot be fetched.
    """
    turn, clock, pause = turn_of(request), asyncio.get_running_loop(), LOOK_SECONDS
    seconds = PLANNING_SHARE * resources_of(request.app).settings.answer_seconds
    deadline = clock.time() + seconds
    begun = await turn.call(_begun, request, units, models, datasets, timedelta(seconds=seconds))
    while begun and (in_work := await turn.call(_in_work, units, begun)):
        if clock.time() >= deadline:
            return _late(in_work, begun)
        await asyncio.sleep(pause)
        pause = min(SLOWING * pause, LONGEST_LOOK_SECONDS)
    return None


def _begun(
    request: Request,
    units: Units,
    models: Mapping[str, str],
    datasets: Mapping[str, str],
    patience: timedelta,
) -> Mapping[UUID, str]:
    who, settings = principal_of(request), resources_of(request.app).settings
    with units() as session:
        planned = plans.begin(session, who, models, settings)
        fetched = wanted_datasets.begin(
            session, who, datasets, settings, patience, entry_of(request, 201)
        )
    return {**planned, **fetched}


def _in_work(units: Units, begun: Mapping[UUID, str]) -> Sequence[FetchInWork]:
    with units() as session:
        return plans.in_work(session, begun)


def _late(in_work: Sequence[FetchInWork], begun: Mapping[UUID, str]) -> Refused:
    """Return the refusal about fetches that take too long.

    A fetch with an error waits for the hub; another goes on.
    """
    troubled = [one for one in in_work if one.error or not one.is_dataset]
    if troubled:
        names = "; ".join(" ".join(filter(None, (one.source, one.error))) for one in troubled)
        detail = f"The hub has not described {names} yet. Send the request again."
        return Refused(HUB_SLOW, detail, *_faults("hub_slow", detail, troubled, begun))
    names = "; ".join(f"{one.source} (/v1/hub-fetches/{one.id})" for one in in_work)
    detail = (
        f"The server is fetching {names}. Send the request again, with the same Idempotency-Key, "
        "until the fetch has ended."
    )
    return Refused(FETCHING, detail, *_faults("fetching", detail, in_work, begun))


def _faults(
    code: str, detail: str, late: Sequence[FetchInWork], begun: Mapping[UUID, str]
) -> tuple[Problem, ...]:
    return tuple(Problem(begun[one.id], code, detail) for one in late)
