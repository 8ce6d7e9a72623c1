"""`/v1/leases`: jobs of workers without a database connection.

The fence of `DatabaseLedger` decides if a write is accepted, and `token_leases` if the lease
belongs to the token.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from adaptlab_answers.server import WorkerLoad
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.limits.auditing import unaudited
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import at_once, principal_of
from adaptlab_api.requests.describing import WITH_BODY, bytes_body, failures, succeeds
from adaptlab_api.requests.receiving import BYTES, check_digest, receive
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import FILE
from adaptlab_services.leases import token_leases
from adaptlab_services.leases.lease_views import (
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
)
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Lease
from adaptlab_services.people.tokens import Principal

PIECE = 2**20  # bytes

LeaseId = Annotated[UUID, Path(description="The id of a lease, chosen by its worker.")]
WorkerId = Annotated[UUID, Path(description="The id of a worker.")]
AttemptNumber = Annotated[
    int,
    Query(
        ge=1,
        le=2**31 - 1,
        description="The number of the attempt that the lease belongs to.",
    ),
]
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="The SHA-256 of content.")]

_DIGEST = {
    "name": "Content-Digest",
    "in": "header",
    "required": False,
    "description": "The SHA-256 of the body (RFC 9530), as `sha-256=:BASE64:`; it is checked.",
    "schema": {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class _Door:
    """The token, resources and ledger of a worker's request."""

    token: Principal
    opened: Resources
    ledger: DatabaseLedger

    def lease(self, lease_id: UUID, attempt: int) -> Lease:
        """Return a lease of this token; raises `Absent`."""
        seconds = self.opened.settings.lease_seconds
        with self.opened.worker_sessions.begin() as session:
            return token_leases.lease_of(session, self.token, lease_id, attempt, seconds)


def _door_of(request: Request) -> _Door:
    who, opened = principal_of(request), resources_of(request.app)
    settings = opened.settings
    ledger = DatabaseLedger(
        opened.worker_sessions, settings.lease_seconds, settings.max_running_jobs, who
    )
    return _Door(who, opened, ledger)


DoorDep = Annotated[_Door, Depends(at_once(_door_of))]


router = api_router(tag="leases")


@router.post(
    "/workers",
    status_code=201,
    response_model=RegisteredWorker,
    responses=failures(*WITH_BODY),
)
@needs("worker")
def register_worker(
    body: Annotated[Body[NewWorker], json_body(NewWorker)], door: DoorDep
) -> Response:
    """Register a worker, so that it can claim jobs."""
    new = body.read()
    worker_id = door.ledger.register_worker(new.host, new.process_id, new.queues, new.model_roots)
    return json_answer(RegisteredWorker(id=worker_id), status=201)


@router.post(
    "/workers/{worker_id}/stand-back",
    status_code=204,
    responses=failures(404, *WITH_BODY),
)
@needs("worker")
@unaudited
def stand_back(
    worker_id: WorkerId, body: Annotated[Body[StandingBack], json_body(StandingBack)], door: DoorDep
) -> Response:
    """Report that a worker is alive but takes no jobs until it claims again."""
    report = body.read()
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_worker(session, door.token, worker_id)
    door.ledger.stand_back(worker_id, report.why)
    return _nothing()


@router.post(
    "/workers/{worker_id}/load",
    status_code=204,
    responses=failures(404, *WITH_BODY),
)
@needs("worker")
@unaudited
def report_load(
    worker_id: WorkerId, body: Annotated[Body[WorkerLoad], json_body(WorkerLoad)], door: DoorDep
) -> Response:
    """Report the memory of a worker and of its machine and GPUs, for the server's metrics."""
    load = body.read()
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_worker(session, door.token, worker_id)
    door.ledger.report_load(worker_id, load)
    return _nothing()


@router.post("/workers/{worker_id}/goodbye", status_code=204, responses=failures(404))
@needs("worker")
@unaudited
def say_goodbye(worker_id: WorkerId, door: DoorDep) -> Response:
    """Report that a worker has stopped and claims no more jobs."""
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_worker(session, door.token, worker_id)
    door.ledger.say_goodbye(worker_id)
    return _nothing()


@router.post(
    "/leases",
    status_code=201,
    response_model=LeaseView,
    responses=succeeds(204, "There is no eligible job.") | failures(404, 409, *WITH_BODY),
)
@needs("worker")
@unaudited
def claim_job(body: Annotated[Body[NewLease], json_body(NewLease)], door: DoorDep) -> Response:
    """Claim the most urgent job of some queues; 204 if there is none."""
    new = body.read()
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_claim(session, door.token, new)
    claim = door.ledger.claim(new.worker, new.queues, new.id, within_seconds=new.within_seconds)
    return _nothing() if claim is None else json_answer(LeaseView.of(claim), status=201)


@router.post(
    "/leases/{lease_id}/heartbeat",
    response_model=HeartbeatAnswer,
    responses=failures(404, 409, *WITH_BODY),
)
@needs("worker")
@unaudited
def heartbeat(
    lease_id: LeaseId,
    attempt: AttemptNumber,
    body: Annotated[Body[HeartbeatReport], json_body(HeartbeatReport)],
    door: DoorDep,
) -> Response:
    """Renew a lease; return whether to continue, to stop, or to save and stop."""
    report = body.read()
    command = door.ledger.heartbeat(door.lease(lease_id, attempt), report.step, report.phase)
    return json_answer(HeartbeatAnswer(command=command))


@router.post(
    "/leases/{lease_id}/records",
    status_code=204,
    responses=failures(404, 409, *WITH_BODY),
)
@needs("worker")
@unaudited
def record_results(
    lease_id: LeaseId,
    attempt: AttemptNumber,
    body: Annotated[Body[NewEvents], json_body(NewEvents)],
    door: DoorDep,
) -> Response:
    """Record results of a run; the same request again only adds the job's events."""
    records = body.read()
    with token_leases.refusing_what_cannot_be_stored():
        door.ledger.record(door.lease(lease_id, attempt), records.events, records.by_path)
    return _nothing()


@router.post(
    "/leases/{lease_id}/end",
    response_model=QueuesWithWork,
    responses=failures(404, 409, *WITH_BODY),
)
@needs("worker")
@unaudited
def end_lease(
    lease_id: LeaseId,
    attempt: AttemptNumber,
    body: Annotated[Body[LeaseEnd], json_body(LeaseEnd)],
    door: DoorDep,
) -> Response:
    """End an attempt by success, failure or returning the job; safe to repeat."""
    end = body.read()
    queues = _ended(door.ledger, door.lease(lease_id, attempt), end)
    if queues:
        door.opened.bell.ring(queues)
    return json_answer(QueuesWithWork(queues=queues))


@router.post(
    "/leases/{lease_id}/artifacts",
    status_code=201,
    response_model=StoredContent,
    openapi_extra=bytes_body(BYTES) | {"parameters": [_DIGEST]},
    responses=failures(404, 409, *WITH_BODY),
)
@needs("worker")
@unaudited
async def put_lease_artifact(
    lease_id: LeaseId, attempt: AttemptNumber, request: Request, door: DoorDep
) -> Response:
    """Store content; it belongs to the job once a recorded event names it."""
    turn = turn_of(request)
    lease = await turn.call(_held, door, lease_id, attempt)
    # While the body arrives, neither a connection nor a thread is held.
    async with receive(request, door.opened.settings.data_dir) as received:
        check_digest(request, received.sha256)
        stored = await turn.call(door.ledger.put_artifact, lease, _pieces(received.file))
    return json_answer(StoredContent(sha256=stored.sha256, size=stored.size), status=201)


@router.get(
    "/leases/{lease_id}/artifacts/{sha256}",
    response_class=Response,
    responses=FILE | failures(404, 409, 410, 416),
)
@needs("worker")
def get_lease_artifact(
    lease_id: LeaseId, attempt: AttemptNumber, sha256: Sha256, request: Request, door: DoorDep
) -> Response:
    """Get content that the run needs: weights, a dataset or the state to resume from."""
    lease = door.lease(lease_id, attempt)
    with door.opened.worker_sessions.begin() as session:
        file = token_leases.file_of(session, lease, sha256)
    return file_answer(door.opened.worker_sessions, file, request.headers)


def _held(door: _Door, lease_id: UUID, attempt: int) -> Lease:
    lease = door.lease(lease_id, attempt)
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_held(session, lease)
    return lease


def _ended(ledger: DatabaseLedger, lease: Lease, end: LeaseEnd) -> tuple[str, ...]:
    match end.outcome:
        case "succeeded":
            return ledger.finish(lease)
        case "stopped":
            return ledger.stopped(lease)
        case "paused":
            return ledger.paused(lease)
        case "released":
            return ledger.release(lease, end.reason or "preempted", end.error)
        case "failed":
            error = end.error or "The worker did not say why."
            return ledger.fail(lease, end.reason or "system_error", error, retry=end.retry)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while content := file.read(PIECE):
        yield content


def _nothing() -> Response:
    return Response(status_code=204, headers=NO_STORE)
