"""Files of records are read one at a time.

They are read before the unit of work that needs them, because others may wait for that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from fastapi import Request
from starlette.responses import Response

from adaptlab.values import Value
from adaptlab_api.answers.problems import TOO_MANY, problem
from adaptlab_api.answers.state import resources_of
from adaptlab_api.limits.thread_turns import Turn, turn_of
from adaptlab_api.requests.dependencies import Units, principal_of, units_of
from adaptlab_api.requests.plans import not_there
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


@dataclass(frozen=True, slots=True)
class _Named(Generic[S]):
    """A spec, with the pointers of what it names by paths and on the hub."""

    spec: S
    paths: Mapping[str, str]
    datasets: Mapping[str, str]
    models: Mapping[str, str]

    @property
    def has_nothing(self) -> bool:
        return not (self.paths or self.datasets or self.models)


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
    *,
    is_preview: bool,
    units: Units | None = None,
) -> Response:
    """Answer with a spec and the files that it names, which are read first.

    So are the descriptions of models on the hub that are not here yet, and datasets on the hub are
    fetched, unless the answer is a preview.

    Args:
        request: the request.
        read: returns the spec.
        answer: returns the answer to the spec.
        idempotency_key: nothing is read or fetched again for a request that was answered.
        is_preview: True if nothing is created.
        units: opens the units of work, in the project that gets the datasets; by default, that of
            the request.

    Raises:
        InvalidSpec: something is no file of records, or cannot be fetched.
    """

    def at_once() -> Response | _Named[S]:
        spec = read()
        named = _Named(
            spec,
            task_files.paths_in(spec),
            task_files.datasets_of_hub_in(spec),
            plans.sources_in(spec),
        )
        if named.has_nothing or _is_answered(request, idempotency_key, spec):
            return answer(spec, NO_FILES)
        return named

    found = await turn_of(request).call(at_once)
    if isinstance(found, Response):
        return found
    units = units or units_of(request)
    wanted: Mapping[str, str] = {} if is_preview else found.datasets
    if late := await not_there(request, found.models, wanted, units):
        return late
    if not found.paths:
        return await turn_of(request).call(answer, found.spec, TaskFiles({}, found.datasets))
    after = partial(_after_reading, request, found, answer, idempotency_key, units)
    patience = WAITING_SHARE * resources_of(request.app).settings.answer_seconds
    return await in_turn(request, patience, after) or busy()


def _after_reading(
    request: Request,
    named: _Named[S],
    answer: Callable[[S, TaskFiles], Response],
    idempotency_key: str | None,
    units: Units,
) -> Response:
    spec = named.spec
    if _is_answered(request, idempotency_key, spec):
        return answer(spec, NO_FILES)
    opened, who = resources_of(request.app), principal_of(request)
    seconds = READING_SHARE * opened.settings.answer_seconds
    limits = ReadingLimits(opened.settings.max_dataset_bytes, seconds, FIRST)
    roots = opened.dataset_roots
    with task_files.read(units, opened.sessions, who, named.paths, roots, limits) as files:
        return answer(spec, TaskFiles(files, named.datasets))


def _is_answered(request: Request, idempotency_key: str | None, spec: Value) -> bool:
    with units_of(request)() as session:
        return task_files.is_answered(session, principal_of(request), idempotency_key, spec)
