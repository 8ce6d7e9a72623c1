"""A used-up quota refuses jobs and uploads; running jobs go on."""

import base64
import hashlib
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.api.people import somebody
from tests.making import a_base_model, a_job, a_study_document, an_adapt_document
from tests.watching import statements

from adaptlab_db.tables import AttemptRow, Job, UsageCount
from adaptlab_services.limits import quotas, usage_counts
from adaptlab_services.limits.usage_counts import DAYS
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def base(sessions: Sessions) -> None:
    """The base model that jobs adapt."""
    with sessions.begin() as session:
        a_base_model(session)


def has_run(sessions: Sessions, hours: float, days_ago: int = 0, queue: str = "cpu") -> date:
    """The day on which an attempt of that many hours ended, at noon or now."""
    noon = datetime.combine(datetime.now(UTC).date(), time(12), UTC) - timedelta(days=days_ago)
    ended = noon if days_ago else datetime.now(UTC)
    with sessions.begin() as session:
        job_id = a_job(session, state="succeeded", queue=queue, finished_at=ended)
        times = {"started_at": ended - hours * HOUR, "ended_at": ended}
        session.execute(update(AttemptRow).where(AttemptRow.job_id == job_id).values(times))
    return ended.date()


def forget_counts(sessions: Sessions) -> None:
    """Let the next who asks count anew."""
    with sessions.begin() as session:
        session.execute(text("UPDATE usage_counts SET counted_until = '2020-01-01Z'"))


@pytest.mark.long("long trainings")
def test_hours_of_a_queue_are_refused_when_they_are_used_up(
    settings: Settings, token: str, sessions: Sessions
) -> None:
    has_run(sessions, 3)
    oldest = has_run(sessions, 2, days_ago=DAYS - 2)
    has_run(sessions, 100, days_ago=DAYS)  # too long ago to count
    with a_server(settings, token, max_queue_hours={"cpu": 4, "gpu": 1}) as api:
        for path, document in (("jobs", an_adapt_document()), ("studies", a_study_document())):
            answer = api.post(f"/v1/{path}", json=document)
            assert answer.status_code == 429, answer.text
            assert (
                "5 hours of the queue 'cpu' in the last 30 days. The quota is 4 hours"
                in answer.text
            )
        # With nothing more, the oldest day is then out of the count, and 3 are less than 4.
        free = oldest + timedelta(days=DAYS)
        assert f"wait until {free}T00:00Z" in answer.json()["detail"]
        gpu = an_adapt_document(resources={"queue": "gpu"})
        assert api.post("/v1/jobs", json=gpu).status_code == 201
        cpu, other = api.get("/v1/me").json()["usage"]["queues"]
        assert (cpu["queue"], cpu["hours"], cpu["most_hours"]) == ("cpu", 5, 4)
        assert cpu["frees_at"].startswith(f"{free}T00:00:00")
        assert (other["queue"], other["hours"], other["frees_at"]) == ("gpu", 0, None)
        jobs = api.get("/v1/jobs?filter=queue = cpu AND state = queued").json()["data"]
        assert jobs == []


def test_an_attempt_that_runs_counts_until_now(
    settings: Settings, token: str, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, state="running")
        begun = {"started_at": datetime.now(UTC) - 7 * HOUR}
        session.execute(update(AttemptRow).where(AttemptRow.job_id == job_id).values(begun))
    with a_server(settings, token, max_queue_hours={"cpu": 7}) as api:
        assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 429
        assert api.get(f"/v1/jobs/{job_id}").json()["state"] == "running"


def test_an_admin_gives_a_user_other_quotas(
    settings: Settings, token: str, sessions: Sessions
) -> None:
    has_run(sessions, 3)
    with a_server(settings, token, max_queue_hours={"cpu": 1}, max_stored_bytes=10**9) as api:
        assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 429
        mine = {"queue_hours": {"cpu": 10}, "stored_bytes": 5 * 10**9}
        changed = api.patch("/v1/users/ada", json={"quotas": mine})
        assert changed.json()["quotas"] == mine
        told = api.get("/v1/audit?action=update_user").json()["data"][0]["details"]["quotas"]
        assert told == {"before": {"queue_hours": {}, "stored_bytes": None}, "after": mine}
        assert api.get("/v1/me").json()["usage"]["most_stored_bytes"] == 5 * 10**9
        assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 201
        api.patch("/v1/users/ada", json={"quotas": {}})
        assert api.post("/v1/jobs", json=an_adapt_document(seeds=3)).status_code == 429


SENSELESS: list[Any] = [
    {"queue_hours": {"cpu": -1}},
    {"queue_hours": {"CPU": 1}},
    {"queue_hours": {f"q{i}": 1 for i in range(17)}},
    {"queue_hours": {"cpu": "1"}},
    {"stored_bytes": -1},
    {"stored_bytes": 1.5},
    {"bytes": 1},
]


def test_quotas_that_make_no_sense(api: TestClient) -> None:
    for senseless in SENSELESS:
        assert api.patch("/v1/users/ada", json={"quotas": senseless}).status_code == 422


NEW = {"size_bytes": 1000, "sha256": hashlib.sha256(b"x" * 1000).hexdigest()}


def stored_bytes(settings: Settings, token: str) -> int:
    with a_server(settings, token) as api:
        return api.get("/v1/me").json()["usage"]["stored_bytes"]


def test_stored_bytes_are_refused_where_they_would_be_too_many(
    settings: Settings, token: str
) -> None:
    before = stored_bytes(settings, token)
    assert before > 0  # the base model's checkpoints
    with a_server(settings, token, max_stored_bytes=before + 999) as api:
        refused = api.post("/v1/uploads", json=NEW)
        assert refused.status_code == 429
        assert (
            f"would store {before + 1000:,} bytes. The quota is {before + 999:,} bytes"
            in refused.text
        )
        assert api.get("/v1/uploads").json()["data"] == []
        assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 201


def test_announced_bytes_are_as_good_as_stored(settings: Settings, token: str) -> None:
    before, content = stored_bytes(settings, token), b"x" * 1000
    with a_server(settings, token, max_stored_bytes=before + 1000) as api:
        upload = api.post("/v1/uploads", json=NEW).json()
        assert api.get("/v1/me").json()["usage"]["stored_bytes"] == before + 1000
        # No more jobs, but the upload itself goes on.
        assert api.post("/v1/jobs", json=an_adapt_document(seeds=3)).status_code == 429
        assert sent(api, upload["id"], content).status_code == 204
    with a_server(settings, token, max_stored_bytes=before + 999) as api:
        # What jobs have stored since may leave no room for what was announced before.
        assert sent(api, upload["id"], content).status_code == 429
        api.delete(f"/v1/uploads/{upload['id']}")
        assert api.post("/v1/jobs", json=an_adapt_document(seeds=3)).status_code == 201


def sent(api: TestClient, upload: str, content: bytes) -> Any:
    """The answer to the only chunk of an upload."""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    headers = {"Content-Digest": f"sha-256=:{digest}:", "Content-Type": "application/octet-stream"}
    return api.put(f"/v1/uploads/{upload}/chunks/0", content=content, headers=headers)


def test_a_dataset_counts_too(settings: Settings, token: str) -> None:
    triples = [[f"a{i:03}", f"b{i:03}", f"c{i:03}"] for i in range(300)]
    triples = [[w.translate(str.maketrans("0123456789", "qwertyuiop")) for w in t] for t in triples]
    document = {"name": "words", "triples": triples}
    with a_server(settings, token) as api:
        before = api.get("/v1/me").json()["usage"]["stored_bytes"]
    with a_server(settings, token, max_stored_bytes=before + 1) as api:
        assert api.post("/v1/datasets", json=document).status_code == 429
    with a_server(settings, token) as api:
        made = api.post("/v1/datasets", json=document)
        assert made.status_code == 201, made.text
        after = api.get("/v1/me").json()["usage"]["stored_bytes"]
        assert after == before + made.json()["size"]


def test_equal_bytes_and_collected_ones(api: TestClient, sessions: Sessions) -> None:
    """Checkpoints of equal content count once; collected ones do not."""
    counted = api.get("/v1/me").json()["usage"]["stored_bytes"]
    with sessions.begin() as session:
        stored = session.execute(text("SELECT DISTINCT artifact_sha256, size FROM checkpoints "
            "JOIN artifacts ON sha256 = artifact_sha256")).all()  # fmt: skip
        assert counted == sum(size for _, size in stored)
        session.execute(text("UPDATE artifacts SET state = 'collected', reason = 'old'"))
    forget_counts(sessions)
    assert api.get("/v1/me").json()["usage"]["stored_bytes"] == 0


def test_somebody_else_has_room(settings: Settings, token: str, sessions: Sessions) -> None:
    """What ada used is not counted for those whom she shares projects with."""
    has_run(sessions, 3)
    header = somebody(sessions, "eve", "submitter")
    with a_server(settings, token, max_queue_hours={"cpu": 1}) as api:
        assert api.post("/v1/jobs", json=an_adapt_document(), headers=header).status_code == 201


def test_a_submit_counts_nothing_anew_within_a_minute(
    settings: Settings, token: str, sessions: Sessions
) -> None:
    """One statement without a quota; with one, a count is made once."""
    with a_server(settings, token) as api, statements() as plain:
        api.post("/v1/jobs", json=an_adapt_document())
    assert [one for one in plain if "INSERT INTO usage_counts" in one] == []
    quotas = {"max_queue_hours": {"cpu": 100}, "max_stored_bytes": 10**12}
    with a_server(settings, token, **quotas) as api:
        with statements() as first:
            api.post("/v1/jobs", json=an_adapt_document(seeds=3))
        with statements() as second:
            api.post("/v1/jobs", json=an_adapt_document(seeds=4))
    assert len([one for one in first if "INSERT INTO usage_counts" in one]) == 1
    assert [one for one in second if "attempts" in one and "sum(" in one] == []
    with sessions() as session:
        kept = session.query(UsageCount).one()
        assert kept.counted_until - kept.counted_at >= timedelta(seconds=60)


def test_who_waited_for_a_turn_takes_what_was_counted_meanwhile(sessions: Sessions) -> None:
    with sessions.begin() as session:
        owner = session.scalars(select(Job.owner_id)).one()
        usage_counts.count(session, owner)
    forget_counts(sessions)
    with sessions.begin() as late:
        found = quotas.allowance_of(late, owner)
        with sessions.begin() as session:
            counted = usage_counts.count(session, owner)
        assert found.counted(late, owner).counted_at == counted.counted_at
