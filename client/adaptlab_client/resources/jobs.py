"""Jobs: submit, get, list, annotate, delete, wait, cancel, pause, retry."""

import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from httpx_sse import ServerSentEvent
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import AnySpec
from adaptlab_answers.jobs import EventPage, EventView, JobSummary, JobView, Preview, ProgressNews
from adaptlab_answers.reading import read
from adaptlab_client.errors import PASSING, UnexpectedAnswer, WaitTimedOut
from adaptlab_client.resources.documents import Document, annotations_of
from adaptlab_client.resources.job_results import JobResults
from adaptlab_client.transport import event_stream
from adaptlab_client.transport.connection import Identity, Query, Request, path_of
from adaptlab_client.transport.paging import entries

Spec = Mapping[str, object] | AnySpec
Archived = Literal["exclude", "only", "include"]
"""What a list does with jobs or studies that are archived."""
LONG_POLL = 25.0
PROGRESS_POLL = 1.0
PATIENCE = 300.0
SILENCE = 45.0  # the server sends a comment every 15 s


class Jobs(JobResults):
    """The jobs of one server, and their results."""

    def submit(self, spec: Spec, *, idempotency_key: str | None = None) -> JobView:
        """Create a job; the same key with the same spec returns the first job.

        The default for `idempotency_key` is a new one, which makes the retries of this call safe.
        Raises `InvalidRequest` with a pointer to every error.
        """
        key = idempotency_key or str(uuid.uuid4())
        headers = {"Idempotency-Key": key}
        request = Request("POST", path_of("jobs"), body=document_of(spec), headers=headers)
        return self._connection.ask(request, JobView)

    def preview(self, spec: Spec) -> Preview:
        """Return the job that `submit` would create, resolved; nothing is stored."""
        query = {"validate_only": "true"}
        request = Request("POST", path_of("jobs"), query=query, body=document_of(spec))
        return self._connection.ask(request, Preview)

    def get(self, job_id: Identity) -> JobView:
        """Return the current state of a job; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("jobs", job_id)), JobView)

    def list(
        self,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        order_by: str | None = None,
        page_size: int = 100,
        archived: Archived | None = None,
    ) -> Iterator[JobView]:
        """Iterate over the jobs that match, by default newest first, page by page.

        Archived jobs are left out unless `archived` is `only` or `include`. An example of a
        `filter` is `state IN (queued, running) AND method = lora`.
        """
        query = _listed(filter, order_by, page_size, archived)
        return entries(self._connection, path_of("jobs"), JobView, query)

    def summaries(
        self,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        order_by: str | None = None,
        page_size: int = 100,
        archived: Archived | None = None,
    ) -> Iterator[JobSummary]:
        """Iterate over the jobs as `list` does, without their specs.

        This takes half the time and a quarter of the bytes.
        """
        query: Query = {**_listed(filter, order_by, page_size, archived), "view": "basic"}
        return entries(self._connection, path_of("jobs"), JobSummary, query)

    def annotate(
        self,
        job_id: Identity,
        *,
        name: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        notes: str | None = None,
        archived: bool | None = None,
    ) -> JobView:
        """Change a job's name, labels and notes, or archive it.

        The job can be in any state. None leaves as it is. `labels` are added to those that exist; a
        label that is None is removed. An empty `name` or empty `notes` are removed. Raises
        `InvalidRequest`, also for the name of a job that creates a base model.
        """
        body = annotations_of(labels, notes, name=name, archived=archived)
        if name == "":
            body["name"] = None
        return self._connection.ask(Request("PATCH", path_of("jobs", job_id), body=body), JobView)

    def delete(self, job_id: Identity) -> None:
        """Delete a job that has ended, with its results.

        Only an admin of its project can do this. Raises `Conflict` for a job that has not ended,
        or that a study or another job needs; the error lists what does.
        """
        self._connection.send(Request("DELETE", path_of("jobs", job_id)))

    def cancel(self, job_id: Identity) -> JobView:
        """Cancel a job; a running one stops soon, an ended one does not change."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "cancel")), JobView)

    def pause(self, job_id: Identity) -> JobView:
        """Pause a job; a running one saves its state and stops soon.

        Raises `Conflict` for a job that cannot be paused.
        """
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "pause")), JobView)

    def resume(self, job_id: Identity) -> JobView:
        """Resume a paused job; any other job is returned unchanged."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "resume")), JobView)

    def retry(self, job_id: Identity) -> JobView:
        """Retry a failed or cancelled job; repeated calls return the same new job."""
        return self._connection.ask(Request("POST", path_of("jobs", job_id, "retry")), JobView)

    def wait(
        self,
        job_id: Identity,
        *,
        timeout: float | None = None,
        on_progress: Callable[[JobView], None] | None = None,
        progress: bool = False,
    ) -> JobView:
        """Wait until the job has ended, successfully or not, and return it.

        `on_progress` is called with the job about once a second; with `progress`, its place in the
        queue and its steps are shown on stderr. Outages of up to five minutes are tolerated. Raises
        `WaitTimedOut` after `timeout` seconds.
        """
        if progress and on_progress is None:
            from adaptlab_client.display.job_progress import job_progress

            with job_progress() as show:
                return next(self.as_ended([job_id], timeout=timeout, on_progress=show))
        return next(self.as_ended([job_id], timeout=timeout, on_progress=on_progress))

    def as_ended(
        self,
        job_ids: Sequence[Identity],
        *,
        timeout: float | None = None,
        on_progress: Callable[[JobView], None] | None = None,
    ) -> Iterator[JobView]:
        """Yield the jobs in the order in which they end; raises `WaitTimedOut`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        pending: dict[Identity, JobView | None] = dict.fromkeys(job_ids)
        while pending:
            for job_id in list(pending):
                step = PROGRESS_POLL if on_progress or len(pending) > 1 else LONG_POLL
                seconds = min(step / len(pending), deadline - time.monotonic())
                job = self._changed(job_id, pending[job_id], max(0.0, seconds), deadline)
                pending[job_id] = job
                if on_progress:
                    on_progress(job)
                if job.terminal:
                    del pending[job_id]
                    yield job
            if pending and time.monotonic() >= deadline:
                raise WaitTimedOut([*map(str, pending)], timeout or 0.0)

    def _changed(
        self, job_id: Identity, last: JobView | None, seconds: float, deadline: float
    ) -> JobView:
        """Return the job after a change of state or `seconds`; tolerate an outage."""
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
        """Iterate over the events after number `after` that exist already."""
        while True:
            request = Request("GET", path_of("jobs", job_id, "events"), query={"after": after})
            page = self._connection.ask(request, EventPage)
            yield from page.data
            if not page.data or page.next_after <= after:
                return
            after = page.next_after

    def events(self, job_id: Identity, *, after: int = 0) -> Iterator[EventView | ProgressNews]:
        """Follow the events after number `after` until the job ends.

        Progress is yielded between them. A broken stream is resumed, so no event is missed or
        repeated.
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
            # A proxy may have closed a stream that ended early, so it is opened again.
            if failures:
                self._connection.retries.pause(failures)

    def _stream(self, job_id: Identity, after: int) -> Iterator[EventView | ProgressNews]:
        """Yield the events of one connection; raises `_Ended` if none can follow."""
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


def _listed(
    filter_text: str | None, order_by: str | None, page_size: int, archived: Archived | None
) -> Query:
    return {
        "filter": filter_text,
        "order_by": order_by,
        "page_size": page_size,
        "archived": archived,
    }


class _Ended(Exception):
    """The job has ended, so no further events will follow."""


def document_of(spec: Spec) -> Document:
    """Return the spec as JSON, without defaults.

    Raises `InvalidSpec` for a value that JSON lacks: NaN, infinity, a date, a set.
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
            detail = f"{number} is not a finite number, so it cannot be sent as JSON."
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
    """Return the event or progress in a message; raises `UnexpectedAnswer`."""
    try:
        return read(ProgressNews if message.event == "progress" else EventView, message.data)
    except ValidationError as error:
        raise UnexpectedAnswer(f"An event could not be read: {message.data[:200]!r}") from error
