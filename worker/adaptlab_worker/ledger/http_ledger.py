"""The ledger of a worker without a database, over HTTP."""

import hashlib
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from pydantic import ValidationError

from adaptlab.runs.events import Event, Progress
from adaptlab.values import Value
from adaptlab_answers.server import WorkerLoad
from adaptlab_db.artifacts import StoredArtifact
from adaptlab_services.errors import LedgerUnreachable, ReportRefused
from adaptlab_services.leases.lease_views import (
    LONGEST_WHY,
    HeartbeatAnswer,
    HeartbeatReport,
    LeaseEnd,
    LeaseView,
    NewEvents,
    NewLease,
    NewWorker,
    QueuesWithWork,
    RegisteredWorker,
    StandingBack,
    StoredContent,
    path_of,
)
from adaptlab_services.leases.leases import NO_ARTIFACTS, Command
from adaptlab_services.lifecycle.held_leases import Claim, Lease
from adaptlab_services.lifecycle.transitions import Reason, storable
from adaptlab_worker.errors import UnexpectedServerAnswer
from adaptlab_worker.ledger.api_connection import ApiConnection

MOST_BYTES = 2 * 2**20  # of results in one request; a single larger event goes by itself
MOST_EVENTS = 2000

A = TypeVar("A", bound=Value)


class HttpLedger:
    """The `Ledger` over HTTP; also raises the errors of `ApiConnection`."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._known: dict[UUID, NewWorker] = {}
        self._renamed: dict[UUID, UUID] = {}

    def register_worker(
        self,
        host: str,
        process_id: int,
        queues: Sequence[str],
        model_roots: Sequence[str] | None = None,
    ) -> UUID:
        """See `Ledger`."""
        new = NewWorker(
            host=host,
            process_id=process_id,
            queues=tuple(queues),
            model_roots=None if model_roots is None else tuple(model_roots),
        )
        worker_id = self._registered(new)
        self._known[worker_id] = new
        return worker_id

    def claim(
        self,
        worker_id: UUID,
        queues: Sequence[str],
        claim_id: UUID | None = None,
        within_seconds: float | None = None,
    ) -> Claim | None:
        """See `Ledger`. A worker that the server has forgotten registers again."""
        request = NewLease(
            id=claim_id or uuid.uuid4(),
            worker=self._name(worker_id),
            queues=tuple(queues),
            within_seconds=within_seconds,
        )
        try:
            return self._claimed(request)
        except UnexpectedServerAnswer as answer:
            if answer.status != HTTPStatus.NOT_FOUND or worker_id not in self._known:
                raise
        # The server was restored from a backup that is older than this worker.
        self._renamed[worker_id] = self._registered(self._known[worker_id])
        return self._claimed(request.model_copy(update={"worker": self._name(worker_id)}))

    def stand_back(self, worker_id: UUID, why: str) -> None:
        """See `Ledger`."""
        report = StandingBack(why=(storable(why) or "It gave no reason.")[:LONGEST_WHY])
        self._connection.post(f"/v1/workers/{self._name(worker_id)}/stand-back", _json(report))

    def report_load(self, worker_id: UUID, load: WorkerLoad) -> None:
        """See `Ledger`."""
        self._connection.post(f"/v1/workers/{self._name(worker_id)}/load", _json(load))

    def say_goodbye(self, worker_id: UUID) -> None:
        """See `Ledger`."""
        self._connection.post(f"/v1/workers/{self._name(worker_id)}/goodbye", None)

    def heartbeat(self, lease: Lease, step: int, phase: Progress | None = None) -> Command:
        """See `Ledger`."""
        body = _json(HeartbeatReport(step=step, phase=phase))
        answer = self._connection.post(_path(lease, "heartbeat"), body, lease)
        return _read(HeartbeatAnswer, answer).command

    def put_artifact(self, lease: Lease, chunks: Iterable[bytes]) -> StoredArtifact:
        """See `Ledger`."""
        sent = _Counted(chunks)
        try:
            answer = self._connection.upload(_path(lease, "artifacts"), sent.pieces(), lease)
        except UnexpectedServerAnswer as refused:
            if refused.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            raise UnexpectedServerAnswer(f"{refused} {_TOO_LARGE}", refused.status) from refused
        stored = _read(StoredContent, answer)
        if (stored.sha256, stored.size) != (sent.sha256, sent.size):
            raise LedgerUnreachable(
                f"The server stored {stored.size} bytes that differ from the {sent.size} bytes "
                "sent."
            )
        return StoredArtifact(stored.sha256, stored.size)

    def fetch_artifact(self, lease: Lease, sha256: str) -> Iterator[bytes]:
        """See `Ledger`."""
        return self._connection.download(_path(lease, f"artifacts/{sha256}"), lease)

    def record(
        self, lease: Lease, events: Sequence[Event], artifacts: Mapping[Path, str] = NO_ARTIFACTS
    ) -> None:
        """See `Ledger`. Each request is a unit of work, if one is not enough."""
        for batch in batches(events):
            paths = {path for event in batch if (path := path_of(event)) is not None}
            named = {str(path): artifacts[path] for path in paths}
            records = NewEvents.model_construct(events=tuple(batch), artifacts=named)
            with _refusals():
                self._connection.post(_path(lease, "records"), _json(records), lease)

    def finish(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`."""
        return self._end(lease, LeaseEnd(outcome="succeeded"))

    def fail(self, lease: Lease, reason: Reason, error: str, *, retry: bool) -> tuple[str, ...]:
        """See `Ledger`."""
        message = storable(error)
        return self._end(
            lease, LeaseEnd(outcome="failed", reason=reason, error=message, retry=retry)
        )

    def release(self, lease: Lease, reason: Reason, error: str | None = None) -> tuple[str, ...]:
        """See `Ledger`."""
        message = storable(error)
        return self._end(lease, LeaseEnd(outcome="released", reason=reason, error=message))

    def stopped(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`."""
        return self._end(lease, LeaseEnd(outcome="stopped"))

    def paused(self, lease: Lease) -> tuple[str, ...]:
        """See `Ledger`."""
        return self._end(lease, LeaseEnd(outcome="paused"))

    def _end(self, lease: Lease, end: LeaseEnd) -> tuple[str, ...]:
        with _refusals():
            answer = self._connection.post(_path(lease, "end"), _json(end), lease)
        return _read(QueuesWithWork, answer).queues

    def _registered(self, new: NewWorker) -> UUID:
        return _read(RegisteredWorker, self._connection.post("/v1/workers", _json(new))).id

    def _claimed(self, asked: NewLease) -> Claim | None:
        answer = self._connection.post("/v1/leases", _json(asked))
        return None if answer is None else _read(LeaseView, answer).claim()

    def _name(self, worker_id: UUID) -> UUID:
        """Return the id under which the server has the worker registered now."""
        return self._renamed.get(worker_id, worker_id)


class _Counted:
    """A stream of bytes, with their number and digest so far."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._digest.update(chunk)
            self.size += len(chunk)
            yield chunk


def batches(events: Sequence[Event], most: int = MOST_BYTES) -> Iterator[list[Event]]:
    """Yield events in batches of about `most` bytes of JSON.

    Without events there is one empty batch.
    """
    batch: list[Event] = []
    held = 0
    for event in events:
        size = len(event.model_dump_json())
        if batch and (held + size > most or len(batch) == MOST_EVENTS):
            yield batch
            batch, held = [], 0
        batch.append(event)
        held += size
    if batch or not events:
        yield batch


def _path(lease: Lease, what: str) -> str:
    return f"/v1/leases/{lease.claim_id}/{what}"


def _json(value: Value) -> bytes:
    return value.model_dump_json().encode()


_TOO_LARGE = (
    "The server stores no larger file of a worker by the API: raise ADAPTLAB_MAX_UPLOAD_BYTES "
    "there, or leave the job to a worker next to the database."
)


@contextmanager
def _refusals() -> Generator[None]:
    """Raise `ReportRefused` if a report does not fit its job."""
    try:
        yield
    except UnexpectedServerAnswer as answer:
        if answer.status != HTTPStatus.UNPROCESSABLE_ENTITY or not answer.problems:
            raise
        raise ReportRefused(*answer.problems) from answer


def _read(kind: type[A], content: bytes | None) -> A:
    try:
        return kind.model_validate_json(content or b"")
    except ValidationError as error:
        raise UnexpectedServerAnswer(
            "The server's answer does not fit this worker's version. Install the server's "
            f"version of adaptlab. {error}"
        ) from error
