"""Workers by the API: permissions of their tokens, and refusals."""

import hashlib
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.cluster import LOST, WRITES, Cluster
from tests.job_rows import change, job, new_job
from tests.ledgers import a_worker_token
from tests.making import (
    a_base_model,
    a_checkpoint,
    a_claim,
    a_job,
    a_ledger,
    a_pretrain_document,
    a_project,
    a_study_document,
    a_token,
    a_worker,
    metric_points,
    weights_content,
)

from adaptlab.runs.events import CheckpointWritten, Metrics
from adaptlab_api.app import create_app
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import AuditEntry, CheckpointRow, MetricPointRow
from adaptlab_services.leases.lease_views import LeaseView
from adaptlab_services.leases.reaping import reap
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
Json = dict[str, Any]


@pytest.fixture
def cluster(anonymous: TestClient, sessions: Sessions) -> Cluster:
    return Cluster(anonymous, a_worker_token(sessions))


@pytest.fixture
def other(anonymous: TestClient, sessions: Sessions) -> Cluster:
    """A worker of the same user, with a token of its own."""
    return Cluster(anonymous, a_worker_token(sessions))


# --- what goes on between claim and end -----------------------------------------------------------


def test_what_is_recorded_and_ended_twice_is_stored_once(
    cluster: Cluster, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        job_id = a_job(session)
    lease = cluster.claimed()
    content = weights_content()
    stored = cluster.store(lease, content)
    sha256 = hashlib.sha256(content).hexdigest()
    assert (stored.status_code, stored.json()) == (201, {"sha256": sha256, "size": len(content)})
    written = CheckpointWritten(checkpoint=a_checkpoint(), path="a.safetensors")  # type: ignore[arg-type]
    told = (Metrics(points=metric_points()), written)
    for _ in range(2):  # the second time nothing changes
        recorded = cluster.record(lease, *told, **{"a.safetensors": sha256})
        assert recorded.status_code == 204, recorded.text
    for _ in range(2):
        ended = cluster.under(lease, "end", {"outcome": "succeeded"})
        assert ended.status_code == 200, ended.text
    with sessions() as session:
        assert session.scalars(select(func.count()).select_from(MetricPointRow)).one() == 3
        kept = select(CheckpointRow.artifact_sha256).where(CheckpointRow.job_id == job_id)
        assert session.scalars(kept).one() == sha256
    assert job(sessions, job_id).state == "succeeded"
    assert cluster.post(f"/v1/workers/{cluster.id}/goodbye").status_code == 204


# --- whose lease it is ----------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
def test_a_lease_of_another_token_is_not_there(
    cluster: Cluster, other: Cluster, sessions: Sessions, write: str
) -> None:
    job_id = new_job(sessions)
    lease = cluster.claimed()
    assert WRITES[write](other, lease).status_code == 404
    row = job(sessions, job_id)
    assert (row.state, row.step) == ("running", 0)
    wrong = lease.model_copy(update={"attempt": 2})
    assert WRITES[write](cluster, wrong).status_code == 404


@pytest.mark.parametrize("write", WRITES)
def test_a_lost_lease_is_a_conflict(cluster: Cluster, sessions: Sessions, write: str) -> None:
    job_id = new_job(sessions)
    lease = cluster.claimed()
    past = func.clock_timestamp() - func.make_interval(0, 0, 0, 1)
    change(sessions, job_id, lease_expires_at=past)
    with sessions.begin() as session:
        assert reap(session).count == 1
    answer = WRITES[write](cluster, lease)
    assert (answer.status_code, answer.json()["type"]) == (409, LOST)
    assert job(sessions, job_id).state == "queued"


def test_a_worker_of_another_token_neither_claims_nor_leaves(
    cluster: Cluster, other: Cluster, sessions: Sessions
) -> None:
    new_job(sessions)
    assert other.claim(worker=cluster.id).status_code == 404
    why = {"why": "The disk is full."}
    assert other.post(f"/v1/workers/{cluster.id}/stand-back", why).status_code == 404
    assert other.post(f"/v1/workers/{cluster.id}/goodbye").status_code == 404
    assert cluster.post(f"/v1/workers/{cluster.id}/stand-back", why).status_code == 204


def test_the_name_of_anothers_claim_brings_nothing(
    cluster: Cluster, other: Cluster, sessions: Sessions
) -> None:
    new_job(sessions)
    lease = cluster.claimed()
    assert other.claim(lease.id).status_code == 409


def test_a_lease_of_a_worker_beside_the_database_is_not_there(
    cluster: Cluster, sessions: Sessions
) -> None:
    new_job(sessions)
    claim = a_claim(a_ledger(sessions))
    lease = LeaseView.of(claim)
    assert cluster.under(lease, "heartbeat", {"step": 1}).status_code == 404


def test_a_worker_fetches_what_its_run_needs_and_nothing_else(
    cluster: Cluster, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session)
        others = ArtifactStore(session).write([b"of others"]).sha256
    lease = cluster.claimed()
    for base in lease.inputs.bases:
        path = f"/v1/leases/{lease.id}/artifacts/{base.sha256}"
        assert cluster.get(path, attempt=1).status_code == 200
    for sha256 in (others, "f" * 64):
        answer = cluster.get(f"/v1/leases/{lease.id}/artifacts/{sha256}", attempt=1)
        assert answer.status_code == 404


def test_a_token_of_one_project_takes_jobs_of_that_alone(
    anonymous: TestClient, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        here = a_project(session, "here")
        for project in ("there", "here", "there"):
            a_job(session, project=project, owner="ada")
    bound, free = (Cluster(anonymous, a_worker_token(sessions, p)) for p in (here, None))
    assert job(sessions, bound.claimed().job_id).project_id == here
    assert bound.claim().status_code == 204
    assert job(sessions, free.claimed().job_id).project_id != here


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/workers", "/v1/me", "/"])
def test_a_workers_token_opens_nothing_else(cluster: Cluster, path: str) -> None:
    assert cluster.get(path).status_code == 403


def test_no_other_scope_opens_leases(anonymous: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        token = a_token(session, "root", ("read", "submit", "admin"))
    header = {"Authorization": f"Bearer {token}"}
    asked = {"id": str(uuid4()), "worker": str(uuid4()), "queues": ["cpu"]}
    assert anonymous.post("/v1/leases", json=asked, headers=header).status_code == 403


def test_that_a_worker_came_is_audited_and_what_it_does_all_day_is_not(
    cluster: Cluster, sessions: Sessions
) -> None:
    new_job(sessions)
    lease = cluster.claimed()
    cluster.under(lease, "heartbeat", {"step": 1})
    cluster.under(lease, "end", {"outcome": "succeeded"})
    with sessions() as session:
        assert session.scalars(select(AuditEntry.action)).all() == ["register_worker"]


# --- what cannot be -------------------------------------------------------------------------------


UNSTORABLE: dict[str, Json] = {
    "no digest": {"event": "saved", "step": 1, "path": "nowhere"},
    "a large number": {"event": "progress", "phase": "training", "step": 2**40, "total": 1},
    "a negative score": {
        "event": "evaluated",
        "evaluation": {
            "replicate": 0, "seed": 0, "task": {"name": "x"}, "split": "test",
            "correct": -1, "total": 0, "outcomes": "",
        },
    },
    "no task": {
        "event": "evaluated",
        "evaluation": {
            "replicate": 0, "seed": 0, "task": {}, "split": "test",
            "correct": 0, "total": 1, "outcomes": "xyz",
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("event", UNSTORABLE.values(), ids=UNSTORABLE)
def test_what_cannot_be_stored_is_refused(
    cluster: Cluster, sessions: Sessions, event: Json
) -> None:
    job_id = new_job(sessions)
    lease = cluster.claimed()
    before = job(sessions, job_id).event_sequence
    answer = cluster.under(lease, "records", {"events": [event]})
    assert answer.status_code == 422, answer.text
    assert job(sessions, job_id).event_sequence == before


def test_content_that_is_not_stored_cannot_be_named(cluster: Cluster, sessions: Sessions) -> None:
    new_job(sessions)
    lease = cluster.claimed()
    written = CheckpointWritten(checkpoint=a_checkpoint(), path="a")  # type: ignore[arg-type]
    assert cluster.record(lease, written, a="0" * 64).status_code == 422


def test_other_content_than_announced_is_refused(cluster: Cluster, sessions: Sessions) -> None:
    new_job(sessions)
    lease = cluster.claimed()
    answer = cluster.store(lease, b"content", digest=bytes(32))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "wrong_digest"


@pytest.fixture
def narrow(settings: Settings) -> Iterator[TestClient]:
    """A server that takes little."""
    limits = {"max_upload_bytes": 2**20, "lease_burst": 4, "lease_rate": 1}
    app = create_app(settings.model_copy(update=limits))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_content_and_requests_are_limited(narrow: TestClient, sessions: Sessions) -> None:
    worker = Cluster(narrow, a_worker_token(sessions))
    new_job(sessions)
    lease = worker.claimed()
    assert worker.store(lease, bytes(2**20)).status_code == 201
    assert worker.store(lease, bytes(2**20 + 1)).status_code == 413
    beats = (worker.under(lease, "heartbeat", {"step": 1}) for _ in range(500))
    refused = next(answer for answer in beats if answer.status_code != 200)
    assert refused.status_code == 429
    assert refused.headers["retry-after"]


def test_a_plan_warns_of_files_that_the_workers_of_its_queue_cannot_store(
    settings: Settings, sessions: Sessions, token: str
) -> None:
    app = create_app(settings.model_copy(update={"max_upload_bytes": 2**10}))
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as client:
        with sessions.begin() as session:
            a_base_model(session)

        def warned(path: str, document: Json) -> bool:
            answer = client.post(f"{path}?validate_only=true", json=document)
            assert answer.status_code == 200, answer.text
            return any("ADAPTLAB_MAX_UPLOAD_BYTES" in text for text in answer.json()["warnings"])

        def of_all() -> list[bool]:
            job = a_pretrain_document(name="other")
            plans = (("/v1/jobs", job), ("/v1/studies", a_study_document()))
            return [warned(*plan) for plan in plans]

        assert of_all() == [False, False], "no worker serves the queue"
        Cluster(client, a_worker_token(sessions))
        assert of_all() == [True, True]
        a_worker(a_ledger(sessions))
        assert of_all() == [False, False], "a worker next to the database has no such limit"
