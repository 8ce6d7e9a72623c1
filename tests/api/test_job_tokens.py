"""Tokens of one job: permissions, lifetime, creation and revocation."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.cluster import LOST, WRITES, Cluster
from tests.api.people import person
from tests.job_rows import AGO, change, job, new_job
from tests.making import a_base_model, a_job

from adaptlab_db.tables import AuditEntry, Membership, Token
from adaptlab_services.jobs.batch_tokens import MOST_HOURS
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle import workers
from adaptlab_services.people import tokens

Sessions = sessionmaker[Session]
Header = dict[str, str]
HERE = "default"


@pytest.fixture
def ada(sessions: Sessions) -> Header:
    """A submitter, whose token neither has the scope `worker` nor may give it."""
    return person(sessions, "ada", {HERE: "submitter"}, ("read", "submit"))


def asked(client: TestClient, header: Header, job_id: UUID, **body: object) -> Any:
    return client.post(f"/v1/jobs/{job_id}/tokens", json=body, headers=header)


def a_job_token(client: TestClient, header: Header, job_id: UUID) -> str:
    answer = asked(client, header, job_id)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def registers(client: TestClient, token: str) -> int:
    """The status with which a worker of this token is let in, or not."""
    new = {"host": "node-1", "process_id": 7, "queues": ["cpu"]}
    header = {"Authorization": f"Bearer {token}"}
    return client.post("/v1/workers", json=new, headers=header).status_code


# --- what it opens --------------------------------------------------------------------------------


def test_it_takes_its_job_and_no_other(
    anonymous: TestClient, sessions: Sessions, ada: Header
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        first, mine = (a_job(session, priority=urgent) for urgent in (90, 10))
        elsewhere = a_job(session, queue="gpu")
    worker = Cluster(anonymous, a_job_token(anonymous, ada, mine))
    lease = worker.claimed()
    assert lease.job_id == mine
    assert worker.claim().status_code == 204, "the other one is for others"
    assert job(sessions, first).state == "queued"
    base = f"/v1/leases/{lease.id}/artifacts/{lease.inputs.bases[0].sha256}"
    assert worker.get(base, attempt=1).status_code == 200
    assert worker.under(lease, "heartbeat", {"step": 1}).json() == {"command": "continue"}
    for _ in range(2):  # the answer may have been lost
        assert worker.under(lease, "end", {"outcome": "succeeded"}).status_code == 200
    assert worker.post(f"/v1/workers/{worker.id}/goodbye").status_code == 204
    stranger = Cluster(anonymous, a_job_token(anonymous, ada, elsewhere))
    assert stranger.claim().status_code == 204, "its job is not in the queue that it asks for"


@pytest.mark.parametrize("write", WRITES)
def test_leases_of_other_tokens_are_not_there(
    anonymous: TestClient, sessions: Sessions, ada: Header, write: str
) -> None:
    job_id = new_job(sessions)
    one, other = (Cluster(anonymous, a_job_token(anonymous, ada, job_id)) for _ in range(2))
    lease = one.claimed()
    assert WRITES[write](other, lease).status_code == 404
    assert job(sessions, job_id).state == "running"


def test_its_worker_serves_no_queue(anonymous: TestClient, sessions: Sessions, ada: Header) -> None:
    Cluster(anonymous, a_job_token(anonymous, ada, new_job(sessions)))
    with sessions() as session:
        (worker,) = workers.recent(session)
        assert (worker.live, worker.queues) == (True, ())
        assert workers.live_queues(session) == ()


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/me", "/v1/tokens", "/", "/jobs/{job}"])
def test_it_opens_nothing_else(
    anonymous: TestClient, sessions: Sessions, ada: Header, path: str
) -> None:
    job_id = new_job(sessions)
    header = {"Authorization": f"Bearer {a_job_token(anonymous, ada, job_id)}"}
    assert anonymous.get(path.format(job=job_id), headers=header).status_code == 403
    assert asked(anonymous, header, job_id).status_code == 403, "it makes none like it"


# --- for how long ---------------------------------------------------------------------------------


def test_the_next_attempt_is_had_with_it_and_the_lost_one_is_closed(
    anonymous: TestClient, sessions: Sessions, ada: Header
) -> None:
    job_id = new_job(sessions)
    token = a_job_token(anonymous, ada, job_id)
    killed = Cluster(anonymous, token)
    lost = killed.claimed()
    change(sessions, job_id, lease_expires_at=AGO)
    with sessions.begin() as session:
        assert reap(session).count == 1
    change(sessions, job_id, run_at=AGO)
    requeued = Cluster(anonymous, token)
    lease = requeued.claimed()
    assert (lease.job_id, lease.attempt) == (job_id, 2)
    for write in WRITES.values():
        answer = write(killed, lost)
        assert (answer.status_code, answer.json()["type"]) == (409, LOST)
    assert requeued.under(lease, "end", {"outcome": "succeeded"}).status_code == 200


def test_nothing_is_written_with_it_once_its_job_is_over(
    anonymous: TestClient, sessions: Sessions, ada: Header
) -> None:
    job_id = new_job(sessions)
    one, another = (a_job_token(anonymous, ada, job_id) for _ in range(2))
    worker = Cluster(anonymous, one)
    lease = worker.claimed()
    assert worker.under(lease, "end", {"outcome": "succeeded"}).status_code == 200
    for name in ("heartbeat", "records", "failure", "release", "artifact", "content"):
        assert WRITES[name](worker, lease).status_code == 409, name
    assert Cluster(anonymous, another).claim().status_code == 204
    refused = asked(anonymous, ada, job_id)
    assert refused.status_code == 409
    assert "succeeded" in refused.json()["detail"]


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_it_ends_with_its_job(
    anonymous: TestClient, sessions: Sessions, ada: Header, state: str
) -> None:
    job_id = new_job(sessions, state="running")
    # What was let in is known for a second, so each is asked with once.
    before, after = (a_job_token(anonymous, ada, job_id) for _ in range(2))
    assert registers(anonymous, before) == 201
    ended = func.clock_timestamp() - tokens.FAREWELL
    change(sessions, job_id, state=state, finished_at=ended, lease_expires_at=None)
    assert registers(anonymous, after) == 401
    listed = anonymous.get("/v1/tokens", headers=ada).json()["data"]
    assert [one["state"] for one in listed if one["job"]] == ["expired", "expired"]


@pytest.mark.parametrize("lost", ["membership", "role"])
def test_it_ends_with_the_right_to_submit(
    anonymous: TestClient, sessions: Sessions, ada: Header, lost: str
) -> None:
    job_id = new_job(sessions)
    before, after = (a_job_token(anonymous, ada, job_id) for _ in range(2))
    assert registers(anonymous, before) == 201
    with sessions.begin() as session:
        if lost == "role":
            session.execute(update(Membership).values(role="reader"))
        else:
            session.execute(Membership.__table__.delete())  # type: ignore[attr-defined]
    assert registers(anonymous, after) == 401


@pytest.mark.parametrize("column", ["expires_at", "revoked_at"])
def test_its_own_end_holds_too(
    anonymous: TestClient, sessions: Sessions, ada: Header, column: str
) -> None:
    token = a_job_token(anonymous, ada, new_job(sessions))
    with sessions.begin() as session:
        session.execute(
            update(Token).where(Token.job_id.is_not(None)).values({column: func.clock_timestamp()})
        )
    assert registers(anonymous, token) == 401


# --- who makes and ends it ------------------------------------------------------------------------


def test_what_is_told_of_it(anonymous: TestClient, sessions: Sessions, ada: Header) -> None:
    job_id = new_job(sessions)
    answer = asked(anonymous, ada, job_id, name="slurm", expires_in_hours=5)
    made = answer.json()
    assert answer.headers["location"] == f"/v1/tokens/{made['id']}"
    assert (made["name"], made["user"], made["scopes"]) == ("slurm", "ada", ["worker"])
    assert (made["job"], made["project"], made["state"]) == (str(job_id), HERE, "valid")
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=4) < left < timedelta(hours=6)
    secret = made.pop("token")
    assert anonymous.get("/v1/tokens", headers=ada).json()["data"][0] == made
    with sessions() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert (entry.action, entry.object) == ("create_job_token", str(made["id"]))
    assert entry.details is not None
    assert (entry.details["job"], entry.details["scopes"]) == (str(job_id), ["worker"])
    assert secret not in str(entry.details)


@pytest.mark.parametrize(
    "body", [{"expires_in_hours": 0}, {"expires_in_hours": MOST_HOURS + 1}, {"name": ""}], ids=str
)
def test_what_cannot_be_asked_for(
    anonymous: TestClient, sessions: Sessions, ada: Header, body: dict[str, object]
) -> None:
    job_id = new_job(sessions)
    assert asked(anonymous, ada, job_id, **body).status_code == 422
    assert asked(anonymous, ada, job_id, expires_in_hours=MOST_HOURS).status_code == 201


def test_it_ends_with_the_token_that_makes_it(
    anonymous: TestClient, sessions: Sessions, ada: Header
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    with sessions.begin() as session:
        session.execute(update(Token).values(expires_at=soon))
    made = asked(anonymous, ada, new_job(sessions)).json()
    assert datetime.fromisoformat(made["expires_at"]) == soon


def test_who_may_submit_ends_it(anonymous: TestClient, sessions: Sessions, ada: Header) -> None:
    job_id = new_job(sessions)
    made = asked(anonymous, ada, job_id).json()
    assert registers(anonymous, made["token"]) == 201
    revoke = f"/v1/tokens/{made['id']}/revoke"
    reading = person(sessions, "ada", {HERE: "submitter"}, ("read",))
    assert anonymous.post(revoke, headers=reading).status_code == 403
    assert anonymous.post(revoke, headers=ada).status_code == 200
    assert registers(anonymous, made["token"]) == 401
