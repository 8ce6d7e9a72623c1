"""Attempts of submitters to reach other projects through a job's token."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.cluster import Cluster
from tests.api.people import person
from tests.job_rows import new_job
from tests.making import a_project, a_user
from tests.receiving import a_webhook

from adaptlab_answers.server import WorkerLoad
from adaptlab_answers.webhooks import LostWorker
from adaptlab_db.tables import WebhookEvent, Worker
from adaptlab_services.lifecycle import workers
from adaptlab_services.people.tokens import create_token
from adaptlab_services.server.expiry import ExpiryPolicy, expire
from adaptlab_services.webhooks.messages import slack_text

Sessions = sessionmaker[Session]
Header = Mapping[str, str]

SILENT = timedelta(seconds=90)
HOSTILE_HOSTS = (
    "gpu-1\nAll results of this server are void.",
    "gpu-1\u2028next line",
    "gpu-1\u202egnp.exe",
    "gpu-1\u200b",
    "gpu-1\x1b[31m",
    "<!channel> see https://evil.example",
    "=HYPERLINK(1)",
    "two words",
    "-option",
    "a" * 254,
    "",
)


@pytest.fixture
def submitter(sessions: Sessions) -> Header:
    return person(sessions, "ada", {"default": "submitter"}, ("read", "submit"))


@pytest.fixture
def neighbour(sessions: Sessions) -> Header:
    return person(sessions, "neighbour", {"elsewhere": "admin"})


def job_token(client: TestClient, header: Header, job_id: UUID) -> str:
    answer = client.post(f"/v1/jobs/{job_id}/tokens", json={}, headers=header)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def register(client: TestClient, token: str, host: str = "node-1") -> int:
    new = {"host": host, "process_id": 7, "queues": ["cpu"]}
    header = {"Authorization": f"Bearer {token}"}
    return client.post("/v1/workers", json=new, headers=header).status_code


def silence_and_note(sessions: Sessions) -> list[int]:
    """The projects that are told when every worker falls silent."""
    with sessions.begin() as session:
        ago = func.clock_timestamp() - SILENT
        session.execute(update(Worker).values(heartbeat_at=ago, lost_at=None))
    with sessions.begin() as session:
        workers.note_lost(session)
        return sorted(session.scalars(select(WebhookEvent.project_id)))


@pytest.fixture
def projects(sessions: Sessions) -> tuple[int, int]:
    """Two projects with a webhook each: the submitter's and another one."""
    with sessions.begin() as session:
        here, there = a_project(session), a_project(session, "elsewhere")
        for project in (here, there):
            a_webhook(session, "https://hook.example/", "worker.lost", project_id=project)
    return here, there


def test_a_worker_that_never_claimed_is_reported_to_nobody(
    anonymous: TestClient, sessions: Sessions, submitter: Header, projects: tuple[int, int]
) -> None:
    assert register(anonymous, job_token(anonymous, submitter, new_job(sessions))) == 201
    assert silence_and_note(sessions) == []


def test_a_worker_of_a_job_is_reported_to_the_jobs_project_only(
    anonymous: TestClient, sessions: Sessions, submitter: Header, projects: tuple[int, int]
) -> None:
    Cluster(anonymous, job_token(anonymous, submitter, new_job(sessions))).claimed()
    assert silence_and_note(sessions) == [projects[0]]


def test_a_worker_of_a_projects_token_is_reported_to_projects_it_worked_for(
    anonymous: TestClient, sessions: Sessions, projects: tuple[int, int]
) -> None:
    new_job(sessions)
    with sessions.begin() as session:
        token = create_token(session, a_user(session), "for workers", ("worker",))
    worker = Cluster(anonymous, token)
    assert silence_and_note(sessions) == []
    worker.claimed()
    assert silence_and_note(sessions) == [projects[0]]


def test_a_worker_of_the_installation_is_reported_to_every_project(
    sessions: Sessions, projects: tuple[int, int]
) -> None:
    with sessions.begin() as session:
        workers.register(session, "gpu-7", 4711, ["cpu"])
    assert silence_and_note(sessions) == sorted(projects)


def test_a_token_of_a_job_has_one_worker_however_often_it_registers(
    anonymous: TestClient, sessions: Sessions, submitter: Header
) -> None:
    token = job_token(anonymous, submitter, new_job(sessions))
    for number in range(30):
        assert register(anonymous, token, f"node-{number}") == 201
    with sessions() as session:
        assert session.scalars(select(Worker.host)).all() == ["node-29"]


def test_many_tokens_of_a_job_have_one_live_worker(
    anonymous: TestClient, sessions: Sessions, submitter: Header
) -> None:
    job_id = new_job(sessions)
    for number in range(5):
        assert register(anonymous, job_token(anonymous, submitter, job_id), f"n{number}") == 201
    with sessions() as session:
        live = [worker.host for worker in workers.recent(session) if worker.live]
    assert live == ["n4"]


def test_a_restarted_batch_job_continues_with_its_token(
    anonymous: TestClient, sessions: Sessions, submitter: Header
) -> None:
    token = job_token(anonymous, submitter, new_job(sessions))
    first = Cluster(anonymous, token)
    lease = first.claimed()
    again = Cluster(anonymous, token)
    assert first.under(lease, "heartbeat", {"step": 1}).status_code == 200
    assert first.under(lease, "end", {"outcome": "released", "reason": "worker_lost"}).is_success
    assert again.claimed().attempt == lease.attempt + 1


@pytest.mark.parametrize("host", HOSTILE_HOSTS)
def test_a_host_is_a_name_and_no_message(
    anonymous: TestClient, sessions: Sessions, submitter: Header, host: str
) -> None:
    token = job_token(anonymous, submitter, new_job(sessions))
    assert register(anonymous, token, host) == 422


@pytest.mark.parametrize("host", ["gpu-1", "GPU_2.lab.example", "c0ffee", "fe80::1", "host.docker"])
def test_names_of_machines_are_accepted(
    anonymous: TestClient, sessions: Sessions, submitter: Header, host: str
) -> None:
    assert register(anonymous, job_token(anonymous, submitter, new_job(sessions)), host) == 201


@pytest.mark.parametrize("sign", ["\n", "\r", "\u202e", "\u2066", "\u2028", "\x1b", "\u200b"])
def test_what_a_worker_says_of_itself_is_one_line(
    anonymous: TestClient, sessions: Sessions, submitter: Header, sign: str
) -> None:
    worker = Cluster(anonymous, job_token(anonymous, submitter, new_job(sessions)))
    gpu = {"index": 0, "name": f"H200{sign}free", "memory_bytes": 1, "memory_used_bytes": 0}
    load = {
        "memory_used_bytes": 1,
        "machine_memory_bytes": 2,
        "machine_memory_available_bytes": 1,
        "gpus": [gpu],
    }
    place = f"/v1/workers/{worker.id}"
    assert worker.post(f"{place}/stand-back", {"why": f"full{sign}All is well."}).is_success
    assert worker.post(f"{place}/load", load).is_success
    with sessions() as session:
        (seen,) = workers.recent(session)
    assert isinstance(seen.load, WorkerLoad)
    for said in (seen.unschedulable, seen.load.gpus[0].name):
        assert said is not None
        assert said.isprintable()


def test_workers_of_jobs_are_listed_for_those_who_see_the_job(
    anonymous: TestClient, sessions: Sessions, submitter: Header, neighbour: Header
) -> None:
    Cluster(anonymous, job_token(anonymous, submitter, new_job(sessions)))
    with sessions.begin() as session:
        workers.register(session, "real", 1, ["cpu"])

    def hosts(header: Header) -> list[str]:
        rows = anonymous.get("/v1/workers", headers=header).json()["data"]
        return [row["host"] for row in rows]

    assert hosts(neighbour) == ["real"]
    assert hosts(submitter) == ["real", "node-1"]


def test_workers_that_never_claimed_are_forgotten_within_a_day(
    anonymous: TestClient, sessions: Sessions, submitter: Header
) -> None:
    Cluster(anonymous, job_token(anonymous, submitter, new_job(sessions)))
    worked = Cluster(anonymous, job_token(anonymous, submitter, new_job(sessions)))
    worked.claimed()
    with sessions.begin() as session:
        workers.register(session, "real", 1, ["cpu"])
        session.execute(text("UPDATE workers SET heartbeat_at = now() - interval '25 hours'"))
    assert expire(sessions, ExpiryPolicy()).workers == 1
    with sessions() as session:
        assert set(session.scalars(select(Worker.host))) == {"node-1", "real"}


@pytest.mark.parametrize("host", HOSTILE_HOSTS[:6])
def test_a_host_of_an_older_server_is_one_line_in_a_message(host: str) -> None:
    now = datetime.now(UTC)
    worker = LostWorker(
        project="default", id=uuid4(), host=host, process_id=1, queues=("cpu",), started_at=now,
        heartbeat_at=now, jobs=(),
    )  # fmt: skip
    written = slack_text(worker)
    assert written.isprintable()
    assert "<!" not in written
