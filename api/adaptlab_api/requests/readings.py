"""Files of records are read one at a time.

They are read before the unit of work that needs them, because others may wait for that.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from fastapi import Request
from starlette.responses import Response

from adaptlab.values import Value
from adaptlab_api.answers.problems import TOO_MANY, problem
from adaptlab_api.answers.state import resources_of
from adaptlab_api.limits.thread_turns import Turn, turn_of
from adaptlab_api.requests.dependencies import principal_of, units_of
from adaptlab_api.requests.plans import not_planned
from adaptlab_services.hub import plans
from adaptlab_services.models import task_files
from adaptlab_services.models.record_datasets import ReadingLimits
from adaptlab_services.models.task_files import NO_FILES, TaskFiles

S = TypeVar("S", bound=Value)
T = TypeVar("T")

RETRY_SECONDS = 5
OTHERS = "The server is reading other files; try again in a few seconds."
READING_SHARE = 0.6
"""Share of a request's time for reading; the rest is for waiting and storing."""
WAITING_SHARE = 0.2
"""Share of a request's time for the reading of others."""
FIRST = (
    "Add the file first with `adaptlab datasets add`, which has more time, and name the dataset."
)


async def in_turn(request: Request, patience: float, read: Callable[[], T]) -> T | None:
    """Read a file in its turn; None if others take more than `patience`."""
    # The wait is here and not in one of the few threads, which other requests need.
    reading = Turn(resources_of(request.app).readings)
    if not await reading.take(patience):
        return None
    try:
        return await turn_of(request).call(read)
    finally:
        reading.give_back()


def busy() -> Response:
    """Return the answer if others are read for too long."""
    return problem(TOO_MANY, OTHERS, headers={"Retry-After": str(RETRY_SECONDS)})


async def with_files(
    request: Request,
    read: Callable[[], S],
    answer: Callable[[S, TaskFiles], Response],
    idempotency_key: str | None,
) -> Response:
    """Answer with a spec and the files that it names, which are read first.

    So are the descriptions of models on the hub that are not here yet.

    Args:
        request: the request.
        read: returns the spec.
        answer: returns the answer to the spec.
        idempotency_key: files are not read again for a request that was answered.

    Raises:
        InvalidSpec: something is no file of records.
    """

    def at_once() -> Response | tuple[S, Mapping[str, str], Mapping[str, str]]:
        spec = read()
        paths, models = task_files.paths_in(spec), plans.sources_in(spec)
        if not paths and (not models or _is_answered(request, idempotency_key, spec)):
            return answer(spec, NO_FILES)
        return spec, paths, models

    found = await turn_of(request).call(at_once)
    if isinstance(found, Response):
        return found
    spec, paths, models = found
    if models and (late := await not_planned(request, models)):
        return late
    if not paths:
        return await turn_of(request).call(answer, spec, NO_FILES)
    after = partial(_after_reading, request, spec, paths, answer, idempotency_key)
    patience = WAITING_SHARE * resources_of(request.app).settings.answer_seconds
    return await in_turn(request, patience, after) or busy()


def _after_reading(
    request: Request,
    spec: S,
    paths: Mapping[str, str],
    answer: Callable[[S, TaskFiles], Response],
    idempotency_key: str | None,
) -> Response:
    if _is_answered(request, idempotency_key, spec):
        return answer(spec, NO_FILES)
    opened, units, who = resources_of(request.app), units_of(request), principal_of(request)
    seconds = READING_SHARE * opened.settings.answer_seconds
    limits = ReadingLimits(opened.settings.max_dataset_bytes, seconds, FIRST)
    roots = opened.dataset_roots
    with task_files.read(units, opened.sessions, who, paths, roots, limits) as files:
        return answer(spec, files)


def _is_answered(request: Request, idempotency_key: str | None, spec: Value) -> bool:
    with units_of(request)() as session:
        return task_files.is_answered(session, principal_of(request), idempotency_key, spec)
