"""Jobs: submit, look, wait, follow, cancel, pause, resume, make anew."""

import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from httpx_sse import ServerSentEvent
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import AnySpec
from adaptlab_answers.jobs import EventPage, EventView, JobSummary, JobView, Preview, ProgressNews
from adaptlab_answers.reading import read
from adaptlab_client.errors import PASSING, UnexpectedAnswer, WaitTimedOut
from adaptlab_client.resources.documents import Document
from adaptlab_client.resources.job_results import JobResults
from adaptlab_client.transport import event_stream
from adaptlab_client.transport.connection import Identity, Query, Request, path_of
from adaptlab_client.transport.paging import entries

Spec = Mapping[str, object] | AnySpec
LONG_POLL = 25.0
PROGRESS_POLL = 1.0
PATIENCE = 300.0
SILENCE = 45.0  # the server sends a comment every 15 s


class Jobs(JobResults):
    """The jobs of one server, and what they have measured."""

    def submit(self, spec: Spec, *, idempotency_key: str | None = None) -> JobView:
        """Make a job; a key that is used again with the same spec returns the first job.

        Without `idempotency_key` a fresh one makes the retries of this one call safe. Raises
        `InvalidRequest` with a pointer to every fault.
        """
        key = idempotency_key or str(uuid.uuid4())
        headers = {"Idempotency-Key": key}
        request = Request("POST", path_of("jobs"), body=document_of(spec), headers=headers)
        return self._connection.ask(request, JobView)

    def preview(self, spec: Spec) -> Preview:
        """What `submit` would make: every `auto` decided and the budget solved; nothing is kept."""
        query = {"validate_only": "true"}
        request = Request("POST", path_of("jobs"), query=query, body=document_of(spec))
        return self._connection.ask(request, Preview)

    def get(self, job_id: Identity) -> JobView:
        """One job as it is now; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("jobs", job_id)), JobView)

    def list(
        self,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        order_by: str | None = None,
        page_size: int = 100,
    ) -> Iterator[JobView]:
        """All jobs that fit, the newest first unless `order_by` says otherwise, page by page.

        `filter` is such as `state IN (queued, running) AND method = lora`.
        """
        query: Query = {"filter": filter, "order_by": order_by, "page_size": page_size}
        return entries(self._connection, path_of("jobs"), JobView, query)

    def summaries(
        self,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        order_by: str | None = None,
        page_size: int = 100,
    ) -> Iterator[JobSummary]:
        """The same jobs as `list` without their specs, in half the time and a quarter the bytes."""
        query: Query = {"filter": filter, "order_by": order_by, "page_size": page_size}
        return entries(self._connection, path_of("jobs"), JobSummary, query | {"view": "basic"})

    def cancel(self, job_id: Identity) -> JobView:
        """Cancel; a job that is running stops soon after, one that has ended is returned as is."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "cancel")), JobView)

    def pause(self, job_id: Identity) -> JobView:
        """Pause; a job that is running stops soon after with its state saved. Raises `Conflict`."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "pause")), JobView)

    def resume(self, job_id: Identity) -> JobView:
        """Let a paused job go on where it was; one that was not paused is returned as is."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "resume")), JobView)

    def retry(self, job_id: Identity) -> JobView:
        """Make a job that failed or was cancelled anew; the same new job however often called."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "retry")), JobView)

    def wait(
        self,
        job_id: Identity,
        *,
        timeout: float | None = None,
        on_progress: Callable[[JobView], None] | None = None,
    ) -> JobView:
        """Wait until the job has ended, however it ends, and return it.

        `on_progress` gets the job about once a second. Outages of up to five minutes are waited
        through. Raises `WaitTimedOut` after `timeout` seconds.
        """
        return next(self.as_ended([job_id], timeout=timeout, on_progress=on_progress))

    def as_ended(
        self,
        job_ids: Sequence[Identity],
        *,
        timeout: float | None = None,
        on_progress: Callable[[JobView], None] | None = None,
    ) -> Iterator[JobView]:
        """The jobs in the order in which they end; raises `WaitTimedOut` for those that do not."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        known: dict[Identity, JobView | None] = dict.fromkeys(job_ids)
        while known:
            for job_id in list(known):
                step = PROGRESS_POLL if on_progress or len(known) > 1 else LONG_POLL
                seconds = min(step / len(known), deadline - time.monotonic())
                job = self._changed(job_id, known[job_id], max(0.0, seconds), deadline)
                known[job_id] = job
                if on_progress:
                    on_progress(job)
                if job.terminal:
                    del known[job_id]
                    yield job
            if known and time.monotonic() >= deadline:
                raise WaitTimedOut([*map(str, known)], timeout or 0.0)

    def _changed(
        self, job_id: Identity, last: JobView | None, seconds: float, deadline: float
    ) -> JobView:
        """The job after a change of state or the given time, through an outage if need be."""
        query = {"wait": round(seconds, 3), "if_state_not": last.state} if last else None
        request = Request("GET", path_of("jobs", job_id), query=query, seconds=seconds + 15)
        since = time.monotonic()
        while True:
            try:
                return self._connection.ask(request, JobView)
            except PASSING:
                if time.monotonic() > min(since + PATIENCE, deadline):
                    raise

    def events_so_far(self, job_id: Identity, *, after: int = 0) -> Iterator[EventView]:
        """What has happened to the job, from the event after `after`, without waiting for more."""
        while True:
            request = Request("GET", path_of("jobs", job_id, "events"), query={"after": after})
            page = self._connection.ask(request, EventPage)
            yield from page.data
            if not page.data or page.next_after <= after:
                return
            after = page.next_after

    def events(self, job_id: Identity, *, after: int = 0) -> Iterator[EventView | ProgressNews]:
        """What happens to the job, from the event after `after` to its end, as it happens.

        Steps of progress come in between. A stream that breaks is resumed where it broke, so that
        no event is missed or comes twice.
        """
        failures = 0
        while True:
            failures += 1
            try:
                for event in self._stream(job_id, after):
                    failures = 0
                    after = event.sequence if isinstance(event, EventView) else after
                    yield event
            except _Ended:
                return
            except PASSING:
                if failures >= self._connection.retries.attempts:
                    raise
            # A stream that ends without a word may be a proxy's doing; the next one will tell.
            if failures:
                self._connection.retries.pause(failures)

    def _stream(self, job_id: Identity, after: int) -> Iterator[EventView | ProgressNews]:
        """One connection's worth of events; raises `_Ended` when none can follow."""
        request = Request(
            "GET",
            path_of("jobs", job_id, "events"),
            headers={"Accept": event_stream.MEDIA_TYPE, "Last-Event-ID": str(after)},
            query={"after": after},
            seconds=SILENCE,
        )
        with self._connection.open(request) as response:
            if response.status_code == 204:
                raise _Ended
            if not event_stream.is_event_stream(response):
                raise UnexpectedAnswer(f"{request.path} is not an event stream.")
            yield from (_event(message) for message in event_stream.messages(response.iter_bytes()))


class _Ended(Exception):
    """Nothing more can happen to the job."""


def document_of(spec: Spec) -> Document:
    """The spec as the JSON that is sent; what was left out stays left out.

    Raises `InvalidSpec` for a value that JSON does not have: NaN, infinity, a date, a set.
    """
    if isinstance(spec, BaseModel):
        return TypeAdapter(Document).validate_python(
            spec.model_dump(mode="json", exclude_unset=True) | {"kind": spec.kind}
        )
    try:
        document = TypeAdapter(Document).validate_python(dict(spec))
    except ValidationError as error:
        fault = error.errors()[0]
        pointer = "".join(f"/{part}" for part in fault["loc"] if "[" not in str(part))
        problem = Problem(pointer, "not_json", f"{fault['input']!r} cannot be sent as JSON.")
        raise InvalidSpec(problem) from error
    for pointer, number in _numbers(document, ""):
        if not math.isfinite(number):
            detail = f"{number} is not a finite number, and JSON has no others."
            raise InvalidSpec(Problem(pointer, "not_finite", detail))
    return document


def _numbers(value: JsonValue, pointer: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield pointer, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _numbers(member, f"{pointer}/{name}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _numbers(member, f"{pointer}/{index}")


def _event(message: ServerSentEvent) -> EventView | ProgressNews:
    """The event or the progress in a message; raises `UnexpectedAnswer`."""
    try:
        return read(ProgressNews if message.event == "progress" else EventView, message.data)
    except ValidationError as error:
        raise UnexpectedAnswer(f"An event could not be read: {message.data[:200]!r}") from error
