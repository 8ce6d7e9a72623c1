"""`/v1/leases`: how workers that reach nothing but the API take jobs, keep them and report on them.

What a write may change is decided by the fence of `DatabaseLedger`, which carries it out; whose
lease it is, by `token_leases`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.answers.state import Resources, resources_of
from adaptlab_api.limits.turns import turn_of
from adaptlab_api.requests.dependencies import BodyDep, at_once, principal_of, valid
from adaptlab_api.requests.describing import WITH_BODY, bytes_body, failures, json_body, succeeds
from adaptlab_api.requests.receiving import BYTES, check_digest, receive
from adaptlab_api.requests.routing import api_router
from adaptlab_api.routes.files import FILE
from adaptlab_services.leases import token_leases
from adaptlab_services.leases.lease_views import (
    HeartbeatAnswer,
    HeartbeatReport,
    LeaseEnd,
    LeaseView,
    NewLease,
    NewRecords,
    NewWorker,
    QueuesWithWork,
    RegisteredWorker,
    StandingBack,
    StoredContent,
)
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.claims import Lease
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

_WORKER = TypeAdapter(NewWorker)
_STANDING_BACK = TypeAdapter(StandingBack)
_LEASE = TypeAdapter(NewLease)
_HEARTBEAT = TypeAdapter(HeartbeatReport)
_RECORDS = TypeAdapter(NewRecords)
_END = TypeAdapter(LeaseEnd)
_DIGEST = {
    "name": "Content-Digest",
    "in": "header",
    "required": False,
    "description": "The SHA-256 of the body (RFC 9530), as `sha-256=:BASE64:`; it is checked.",
    "schema": {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class _Door:
    """What a request of a worker works with."""

    token: Principal
    opened: Resources
    ledger: DatabaseLedger

    def lease(self, lease_id: UUID, attempt: int) -> Lease:
        """A lease of this token; raises `NotFound`."""
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


def leases_router() -> APIRouter:
    """The routes of workers and their leases."""
    router = api_router(tag="leases")
    _add_workers(router)
    router.add_api_route(
        "/leases",
        claim_job,
        methods=["POST"],
        status_code=201,
        response_model=LeaseView,
        openapi_extra=json_body("NewLease"),
        responses=succeeds(204, "There is no eligible job.") | failures(404, 409, *WITH_BODY),
    )
    one = "/leases/{lease_id}"
    router.add_api_route(
        f"{one}/heartbeat",
        heartbeat,
        methods=["POST"],
        response_model=HeartbeatAnswer,
        openapi_extra=json_body("HeartbeatReport"),
        responses=failures(404, 409, *WITH_BODY),
    )
    router.add_api_route(
        f"{one}/records",
        record_results,
        methods=["POST"],
        status_code=204,
        openapi_extra=json_body("NewRecords"),
        responses=failures(404, 409, *WITH_BODY),
    )
    router.add_api_route(
        f"{one}/end",
        end_lease,
        methods=["POST"],
        response_model=QueuesWithWork,
        openapi_extra=json_body("LeaseEnd"),
        responses=failures(404, 409, *WITH_BODY),
    )
    _add_artifacts(router, f"{one}/artifacts")
    return router


def _add_workers(router: APIRouter) -> None:
    router.add_api_route(
        "/workers",
        register_worker,
        methods=["POST"],
        status_code=201,
        response_model=RegisteredWorker,
        openapi_extra=json_body("NewWorker"),
        responses=failures(*WITH_BODY),
    )
    router.add_api_route(
        "/workers/{worker_id}/stand-back",
        stand_back,
        methods=["POST"],
        status_code=204,
        openapi_extra=json_body("StandingBack"),
        responses=failures(404, *WITH_BODY),
    )
    router.add_api_route(
        "/workers/{worker_id}/goodbye",
        say_goodbye,
        methods=["POST"],
        status_code=204,
        responses=failures(404),
    )


def _add_artifacts(router: APIRouter, path: str) -> None:
    router.add_api_route(
        path,
        put_lease_artifact,
        methods=["POST"],
        status_code=201,
        response_model=StoredContent,
        openapi_extra=bytes_body(BYTES) | {"parameters": [_DIGEST]},
        responses=failures(404, 409, *WITH_BODY),
    )
    router.add_api_route(
        f"{path}/{{sha256}}",
        get_lease_artifact,
        response_class=Response,
        responses=FILE | failures(404, 409, 410, 416),
    )


def register_worker(body: BodyDep, door: DoorDep) -> Response:
    """Register a worker, so that it can claim jobs."""
    new = valid(_WORKER, body)
    worker_id = door.ledger.register_worker(new.host, new.process_id, new.queues)
    return json_answer(RegisteredWorker(id=worker_id), status=201)


def stand_back(worker_id: WorkerId, body: BodyDep, door: DoorDep) -> Response:
    """Report that a worker is alive but takes no jobs until it claims again."""
    told = valid(_STANDING_BACK, body)
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_worker(session, door.token, worker_id)
    door.ledger.stand_back(worker_id, told.why)
    return _nothing()


def say_goodbye(worker_id: WorkerId, door: DoorDep) -> Response:
    """Report that a worker has stopped and claims no more jobs."""
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_worker(session, door.token, worker_id)
    door.ledger.say_goodbye(worker_id)
    return _nothing()


def claim_job(body: BodyDep, door: DoorDep) -> Response:
    """Claim the most urgent job of some queues; 204 if there is none."""
    asked = valid(_LEASE, body)
    with door.opened.worker_sessions.begin() as session:
        token_leases.check_claim(session, door.token, asked)
    claim = door.ledger.claim(
        asked.worker, asked.queues, asked.id, within_seconds=asked.within_seconds
    )
    return _nothing() if claim is None else json_answer(LeaseView.of(claim), status=201)


def heartbeat(lease_id: LeaseId, attempt: AttemptNumber, body: BodyDep, door: DoorDep) -> Response:
    """Renew a lease; return whether to continue, to stop, or to save and stop."""
    told = valid(_HEARTBEAT, body)
    command = door.ledger.heartbeat(door.lease(lease_id, attempt), told.step)
    return json_answer(HeartbeatAnswer(command=command))


def record_results(
    lease_id: LeaseId, attempt: AttemptNumber, body: BodyDep, door: DoorDep
) -> Response:
    """Record results of a run; the same request again only adds the job's events."""
    records = valid(_RECORDS, body)
    with token_leases.refusing_what_cannot_be_stored():
        door.ledger.record(door.lease(lease_id, attempt), records.events, records.by_path)
    return _nothing()


def end_lease(lease_id: LeaseId, attempt: AttemptNumber, body: BodyDep, door: DoorDep) -> Response:
    """End an attempt by success, failure or returning the job; safe to repeat."""
    end = valid(_END, body)
    queues = _ended(door.ledger, door.lease(lease_id, attempt), end)
    if queues:
        door.opened.bell.ring(queues)
    return json_answer(QueuesWithWork(queues=queues))


async def put_lease_artifact(
    lease_id: LeaseId, attempt: AttemptNumber, request: Request, door: DoorDep
) -> Response:
    """Store content; it belongs to the job once a recorded event names it."""
    turn = turn_of(request)
    lease = await turn.call(_held, door, lease_id, attempt)
    # Nothing is held while it arrives: neither a connection nor one of the threads.
    async with receive(request, door.opened.settings.data_dir) as received:
        check_digest(request, received.sha256)
        stored = await turn.call(door.ledger.put_artifact, lease, _pieces(received.file))
    return json_answer(StoredContent(sha256=stored.sha256, size=stored.size), status=201)


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
