"""Jobs created: stored, answered, refused, and repeated requests."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
import redis
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_pretrain_document, an_adapt_document
from tests.watching import statements

from adaptlab_db.tables import AuditEntry, BaseModel, IdempotencyKey, Job

Sessions = sessionmaker[Session]
REFUSED_AT_COMMIT = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE 'not today'; END $$",
    "CREATE CONSTRAINT TRIGGER refusing AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION refuse()",
)

FORGOTTEN = (
    "The base model 'tiny-sort' has changed because the database was restored or replaced. "
    "Nothing was created. Send the request again."
)


def jobs_stored(sessions: Sessions) -> int:
    with sessions.begin() as session:
        return session.scalars(select(func.count()).select_from(Job)).one()


@pytest.fixture(scope="module")
def created(shared_api: TestClient, shared_sessions: Sessions) -> httpx2.Response:
    """The answer that a job was created, on the module's own database."""
    with shared_sessions.begin() as session:
        a_base_model(session)
    document = an_adapt_document(labels={"paper": "table-1"})
    answer = shared_api.post("/v1/jobs", json=document)
    assert answer.status_code == 201
    return answer


def test_a_job_is_created_and_can_be_looked_at(
    shared_api: TestClient, created: httpx2.Response
) -> None:
    assert created.headers["location"] == f"/v1/jobs/{created.json()['id']}"
    looked_at = shared_api.get(created.headers["location"])
    assert looked_at.json() == created.json()
    assert looked_at.headers["etag"] == created.headers["etag"]


def test_a_new_job_waits_in_its_queue_for_its_owner(created: httpx2.Response) -> None:
    job = created.json()
    assert job["state"] == "queued"
    assert job["terminal"] is False
    assert job["owner"] == "ada"
    assert job["labels"] == {"paper": "table-1"}
    assert job["queue"] == {"name": "cpu", "priority": 5, "position": 1, "unread_roots": []}


def test_the_budget_of_a_new_job_is_resolved(created: httpx2.Response) -> None:
    job = created.json()
    # A prefix of width 8 in one layer: 16 parameters are two rows.
    assert job["resolved_spec"]["method"]["length"] == 2
    assert job["budget"] | {"flops_per_token": 0} == {
        "requested": 16,
        "trainable_parameters": 16,
        "gap": 0,
        "stored_bytes": 64,
        "stored_bits": 512,
        "extra_context_tokens": 2,
        "flops_per_token": 0,
        "tensors": {"blocks.0.attn.input": 16},
    }


def test_what_was_asked_for_is_shown_and_can_be_asked_for_again(
    api: TestClient, base: None
) -> None:
    asked = an_adapt_document(method="lora", budget=64, task="sort_descending")
    asked["task"] = {"name": "sort_descending", "length": 3, "alphabet": 4}
    job = api.post("/v1/jobs", json=asked).json()
    assert job["spec"]["method"] == {"name": "lora"}
    assert job["spec"]["budget"] == {"trainable_parameters": 64}
    again = api.post("/v1/jobs", json=job["spec"]).json()
    assert again["spec_digest"] == job["spec_digest"]
    assert again["id"] != job["id"]


@pytest.mark.usefixtures("patient_bell")
def test_the_workers_of_the_queue_are_woken(api: TestClient, base: None, broker_url: str) -> None:
    api.post("/v1/jobs", json=an_adapt_document())
    with redis.Redis.from_url(broker_url) as client:
        assert client.brpop(["doorbell.cpu"], timeout=60)  # it is rung from a thread
        assert client.llen("doorbell.cpu") == 0


def test_a_job_and_its_entry_in_the_audit_log_are_one(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    before = jobs_stored(sessions)
    answer = api.post("/v1/jobs", json=an_adapt_document())
    with sessions.begin() as session:
        entry = session.scalars(select(AuditEntry)).one()
        assert (entry.actor, entry.action, entry.status) == ("ada", "create_job", 201)
        assert entry.object == answer.json()["id"]
        assert answer.headers["x-request-id"] == str(entry.request_id)
        session.execute(
            text("ALTER TABLE audit_entries ADD CHECK (action <> 'create_job') NOT VALID")
        )
    assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 500
    assert jobs_stored(sessions) == before + 1


def test_a_job_that_could_not_be_stored_has_no_entry(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    with sessions.begin() as session:  # a fault that shows at the commit only
        for statement in REFUSED_AT_COMMIT:
            session.execute(text(statement))
    before = jobs_stored(sessions)
    assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 500
    assert jobs_stored(sessions) == before
    with sessions.begin() as session:
        assert session.scalars(select(AuditEntry)).all() == []


def test_a_request_sent_again_has_an_entry_of_its_own(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    key = {"Idempotency-Key": "once"}
    made, again = (api.post("/v1/jobs", json=an_adapt_document(), headers=key) for _ in range(2))
    with sessions.begin() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
    assert [entry.status for entry in entries] == [201, 200]
    assert entries[0].object == made.json()["id"] == again.json()["id"]
    told = [answer.headers["x-request-id"] for answer in (made, again)]
    assert told == [str(entry.request_id) for entry in entries]


def test_a_pretraining_job_gives_its_model_a_name(api: TestClient) -> None:
    job = api.post("/v1/jobs", json=a_pretrain_document()).json()
    assert (job["name"], job["kind"], job["method"]) == ("tiny-sort", "pretrain", None)
    model = api.get("/v1/base-models/tiny-sort").json()
    assert (model["job_id"], model["ready"], model["state"]) == (job["id"], False, "queued")
    assert model["digest"] == job["spec_digest"]
    assert [m["name"] for m in api.get("/v1/base-models").json()["data"]] == ["tiny-sort"]


def test_a_taken_name_is_refused_until_its_job_has_failed(
    api: TestClient, sessions: Sessions
) -> None:
    job = api.post("/v1/jobs", json=a_pretrain_document()).json()
    refused = api.post("/v1/jobs", json=a_pretrain_document())
    assert refused.status_code == 409
    assert refused.json()["state"] == "queued"
    assert jobs_stored(sessions) == 1
    api.post(job["links"]["cancel"])
    taken_over = api.post("/v1/jobs", json=a_pretrain_document())
    assert taken_over.status_code == 201
    assert api.get("/v1/base-models/tiny-sort").json()["job_id"] == taken_over.json()["id"]


def test_an_adaptation_of_a_model_in_training_waits(api: TestClient) -> None:
    base = api.post("/v1/jobs", json=a_pretrain_document()).json()
    job = api.post("/v1/jobs", json=an_adapt_document()).json()
    assert job["state"] == "waiting"
    assert job["links"]["base_job"] == base["links"]["self"]
    # What waits for a model that will not come has failed too.
    api.post(base["links"]["cancel"])
    left = api.get(job["links"]["self"]).json()
    assert (left["state"], left["reason"]) == ("failed", "base_model_failed")


def test_a_base_model_that_is_ready_is_looked_for_once(api: TestClient, base: None) -> None:
    address = api.post("/v1/jobs", json=an_adapt_document()).headers["location"]
    with statements() as sent:
        again = api.post("/v1/jobs", json=an_adapt_document())
    inserted = [one for one in sent if one.startswith("INSERT")]
    assert len(inserted) == 3, "the job, its first event and the entry of the audit log"
    assert [one for one in sent if "jsonb_array_length" in one] == [], "the base model's facts"
    assert api.get(address).json()["resolved_spec"] == again.json()["resolved_spec"]


def test_a_base_model_that_the_database_forgot_is_looked_for_again(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 201
    with sessions.begin() as session:
        session.execute(delete(BaseModel))
    for _ in range(2):
        unknown = api.post("/v1/jobs", json=an_adapt_document())
        assert unknown.status_code == 422
        assert unknown.json()["errors"][0]["code"] == "unknown_base_model"
    assert jobs_stored(sessions) == 2  # the one that made it, and the first adaptation


def test_a_base_model_that_was_replaced_is_refused_once(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 201
    with sessions.begin() as session:
        other = a_base_model(session, name="other")
        session.execute(delete(BaseModel).where(BaseModel.name == "other"))
        session.execute(update(BaseModel).values(job_id=other))
    refused = api.post("/v1/jobs", json=an_adapt_document())
    assert (refused.status_code, refused.json()["detail"]) == (409, FORGOTTEN)
    assert jobs_stored(sessions) == 3
    assert api.post("/v1/jobs", json=an_adapt_document()).status_code == 201


def test_a_base_model_is_remembered_for_its_own_project(api: TestClient, base: None) -> None:
    assert api.post("/v1/projects", json={"name": "other"}).status_code == 201
    assert api.post("/v1/jobs", json=an_adapt_document()).json()["state"] == "queued"
    there = "/v1/jobs?project=other"
    unknown = api.post(there, json=an_adapt_document())
    assert unknown.json()["errors"][0]["code"] == "unknown_base_model"
    assert api.post(there, json=a_pretrain_document(seeds=3)).status_code == 201
    assert api.post(there, json=an_adapt_document()).json()["state"] == "waiting"


def test_a_base_model_that_is_not_ready_is_looked_for_each_time(api: TestClient) -> None:
    first = api.post("/v1/jobs", json=a_pretrain_document()).headers["location"]
    adaptation = an_adapt_document()
    assert api.post("/v1/jobs", json=adaptation).json()["state"] == "waiting"
    api.post(f"{first}/cancel")
    assert api.post("/v1/jobs", json=adaptation).status_code == 422
    api.post("/v1/jobs", json=a_pretrain_document())
    assert api.post("/v1/jobs", json=adaptation).json()["state"] == "waiting"


def test_an_inline_base_model_is_trained_once(api: TestClient, sessions: Sessions) -> None:
    spec = an_adapt_document(base_model=a_pretrain_document())
    first = api.post("/v1/jobs", json=spec).json()
    assert first["state"] == "waiting"
    assert jobs_stored(sessions) == 2
    second = api.post("/v1/jobs", json=spec | {"method": "lora", "budget": 64}).json()
    assert jobs_stored(sessions) == 3
    assert first["links"]["base_job"] == second["links"]["base_job"]
    # Equal in everything but the name: the model that is there is used.
    renamed = an_adapt_document(base_model=a_pretrain_document(name="another"))
    assert api.post("/v1/jobs", json=renamed).json()["base_model"] == "tiny-sort"
    other = a_pretrain_document(training={"steps": 5})
    assert api.post("/v1/jobs", json=an_adapt_document(base_model=other)).status_code == 409


def test_a_fault_in_an_inline_base_model_is_pointed_to(api: TestClient) -> None:
    family = {"name": "minigpt", "width": 8, "heads": 3}
    answer = api.post(
        "/v1/jobs", json=an_adapt_document(base_model=a_pretrain_document(family=family))
    )
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/base_model/family/heads"
    assert fault["nearest"] == [2, 4]


def test_a_preview_stores_nothing_and_is_what_would_be_stored(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    before = jobs_stored(sessions)
    preview = api.post("/v1/jobs?validate_only=true", json=an_adapt_document())
    assert preview.status_code == 200
    assert jobs_stored(sessions) == before
    said = preview.json()
    assert said["object"] == "job.preview"
    created = api.post("/v1/jobs", json=an_adapt_document()).json()
    assert created["spec_digest"] == said["spec_digest"]
    assert created["resolved_spec"] == said["resolved_spec"]


def test_a_preview_has_the_budget_an_estimate_and_a_warning_where_nobody_works(
    api: TestClient, base: None
) -> None:
    said = api.post("/v1/jobs?validate_only=true", json=an_adapt_document()).json()
    assert said["budget"]["trainable_parameters"] == 16
    assert (said["estimate"]["basis"], said["estimate"]["runs"]) == ("default", 0)
    assert said["estimate"]["seconds"] > 0
    assert said["base_estimate"] is None
    assert said["warnings"] == [
        "No live worker serves the queue 'cpu'. The job would wait until one does."
    ]


def test_a_preview_with_an_inline_base_model_reserves_no_name(
    api: TestClient, sessions: Sessions
) -> None:
    spec = an_adapt_document(base_model=a_pretrain_document())
    assert api.post("/v1/jobs?validate_only=true", json=spec).status_code == 200
    with sessions.begin() as session:
        assert session.scalars(select(BaseModel)).all() == []
    created = api.post("/v1/jobs", json=spec)
    assert created.status_code == 201


def test_a_mistyped_parameter_creates_no_job(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    before = jobs_stored(sessions)
    answer = api.post("/v1/jobs?validate_onyl=true", json=an_adapt_document())
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/query/validate_onyl"
    assert fault["nearest"] == ["validate_only"]
    assert jobs_stored(sessions) == before


def test_a_header_is_no_parameter(api: TestClient, base: None, sessions: Sessions) -> None:
    before = jobs_stored(sessions)
    answer = api.post("/v1/jobs?idempotency-key=mine", json=an_adapt_document())
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["allowed"] == ["project", "validate_only"]
    assert jobs_stored(sessions) == before


def test_the_same_key_with_another_body_is_refused(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    key = {"Idempotency-Key": "slurm-4711"}
    api.post("/v1/jobs", json=an_adapt_document(), headers=key)
    before = jobs_stored(sessions)
    other = api.post("/v1/jobs", json=an_adapt_document(seeds=3), headers=key)
    assert other.status_code == 422
    assert other.json()["type"].endswith("idempotency-key-reused")
    assert jobs_stored(sessions) == before


def test_a_key_is_forgotten_after_a_week(api: TestClient, base: None, sessions: Sessions) -> None:
    key = {"Idempotency-Key": "slurm-4711"}
    first = api.post("/v1/jobs", json=an_adapt_document(), headers=key).json()
    with sessions.begin() as session:
        row = session.scalars(select(IdempotencyKey)).one()
        row.created_at = func.clock_timestamp() - func.make_interval(0, 0, 1, 1)
    later = api.post("/v1/jobs", json=an_adapt_document(), headers=key)
    assert later.status_code == 201
    assert later.json()["id"] != first["id"]


def test_a_refused_request_does_not_use_its_key_up(api: TestClient, base: None) -> None:
    key = {"Idempotency-Key": "slurm-4711"}
    refused = api.post("/v1/jobs", json=an_adapt_document(budget=1), headers=key)
    assert refused.status_code == 422
    assert api.post("/v1/jobs", json=an_adapt_document(), headers=key).status_code == 201


def test_requests_with_one_key_at_the_same_time_make_one_job(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    before = jobs_stored(sessions)

    def create(_: int) -> Any:
        return api.post(
            "/v1/jobs", json=an_adapt_document(), headers={"Idempotency-Key": "at-once"}
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(create, range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert jobs_stored(sessions) == before + 1


def test_pretraining_jobs_of_one_name_at_the_same_time_are_one(
    api: TestClient, sessions: Sessions
) -> None:
    def create(_: int) -> int:
        return api.post("/v1/jobs", json=a_pretrain_document()).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(create, range(8)))
    assert sorted(statuses) == [201] + [409] * 7
    assert jobs_stored(sessions) == 1


def test_an_unknown_base_model_names_those_like_it(api: TestClient, base: None) -> None:
    answer = api.post("/v1/jobs", json=an_adapt_document(base_model="tiny-srot"))
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["nearest"]) == ("/base_model", ["tiny-sort"])
