"""Jobs and studies are deleted unless something needs them."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import bearer, entries, person, somebody
from tests.comparing import Run, run_all
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_ledger,
    a_study_document,
    an_adapt_document,
)
from tests.services.recorded import record_a_whole_run

from adaptlab_db.tables import Artifact, Job, Table, Token
from adaptlab_services.errors import StillNeeded
from adaptlab_services.jobs import job_deletion
from adaptlab_services.models import base_models
from adaptlab_services.storage.collecting import collect

Sessions = sessionmaker[Session]
Json = dict[str, Any]


@pytest.fixture
def recorded(api: TestClient, base: None, sessions: Sessions) -> UUID:
    """A job that has ended with results of every kind."""
    document = an_adapt_document(capture={"attention": {"samples": 1}})
    api.post("/v1/jobs", json=document, headers={"Idempotency-Key": "once"})
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    record_a_whole_run(ledger, claim)
    ledger.finish(claim)
    return claim.job_id


@pytest.fixture
def study(api: TestClient, base: None, sessions: Sessions) -> Json:
    """A study that has ended."""
    document = a_study_document(name="small", methods=["frozen", "lora"], seeds=1)
    created = api.post("/v1/studies", json=document)
    assert created.status_code == 201, created.text
    run_all(sessions, lambda _: Run(right=300))
    return api.get("/v1/studies/small").json()


def rows_with(sessions: Sessions, column: str, id_: UUID | str) -> dict[str, int]:
    """The number of rows of each table that name something by its id."""
    tables = [table for table in Table.metadata.sorted_tables if column in table.columns]
    with sessions() as session:
        counts = {
            table.name: session.scalars(
                select(func.count()).select_from(table).where(table.c[column] == id_)
            ).one()
            for table in tables
        }
    return {name: count for name, count in counts.items() if count}


def jobs_of(api: TestClient, study: str = "small") -> list[str]:
    return [job["id"] for job in api.get(f"/v1/studies/{study}/jobs").json()["data"]]


def needs(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 409, answer.text
    return [(error["code"], error["detail"]) for error in answer.json()["errors"]]


def test_a_job_goes_with_everything_that_it_has(
    api: TestClient, recorded: UUID, sessions: Sessions
) -> None:
    before = rows_with(sessions, "job_id", recorded)
    assert len(before) > 10, "every kind of result, events, and the key of its request"
    assert api.delete(f"/v1/jobs/{recorded}").status_code == 204
    assert rows_with(sessions, "job_id", recorded) == {}
    parts = ("", "/events", "/metrics", "/evaluations", "/attention", "/checkpoints")
    for place in (*(f"/v1/jobs/{recorded}{part}" for part in parts), f"/jobs/{recorded}"):
        assert api.get(place).status_code == 404, place
    assert api.delete(f"/v1/jobs/{recorded}").status_code == 404
    noted = [(one["action"], one["object"], one["status"]) for one in entries(api)]
    assert ("delete_job", str(recorded), 204) in noted


def test_content_goes_with_the_last_job_that_has_it(
    api: TestClient, recorded: UUID, sessions: Sessions
) -> None:
    def stored() -> set[str]:
        collect(sessions, unreferenced_for=timedelta(0))
        with sessions() as session:
            return set(session.scalars(select(Artifact.sha256)))

    bases = stored()
    api.post("/v1/jobs", json=an_adapt_document(capture={"attention": {"samples": 1}}))
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    record_a_whole_run(ledger, claim)
    ledger.finish(claim)
    assert stored() == bases, "both have the same bytes"
    api.delete(f"/v1/jobs/{recorded}")
    assert stored() == bases
    api.delete(f"/v1/jobs/{claim.job_id}")
    assert len(stored()) == len(bases) - 2


@pytest.mark.parametrize("state", ["waiting", "queued", "running", "paused"])
def test_a_job_that_has_not_ended_is_cancelled_first(
    api: TestClient, base: None, sessions: Sessions, state: str
) -> None:
    with sessions.begin() as session:
        job = a_job(session, state=state)
    answer = api.delete(f"/v1/jobs/{job}")
    assert answer.status_code == 409
    assert answer.json()["state"] == state
    assert "Cancel it first" in answer.json()["detail"]
    with sessions() as session, pytest.raises(DBAPIError, match="have ended"):
        job_deletion.remove(session, [job])
    assert api.get(f"/v1/jobs/{job}").status_code == 200


def test_what_needs_a_job_is_listed(api: TestClient, study: Json, sessions: Sessions) -> None:
    (adapted, *_) = [
        job for cell in study["cells"] for job in cell["jobs"] if cell["method"] == "lora"
    ]
    check = {"kind": "theory", "adaptation": adapted["id"]}
    theory = api.post("/v1/jobs", json=check)
    assert theory.status_code == 201, theory.text
    refused = api.delete(f"/v1/jobs/{adapted['id']}")
    assert needs(refused) == [
        ("needed_by_study", f"The study 'small' ({study['id']}) has it."),
        (
            "needed_by_check",
            f"The theory check {theory.json()['id']} measures its adaptation.",
        ),
    ]
    assert "The study 'small'" in refused.json()["detail"]
    assert api.get(f"/v1/jobs/{adapted['id']}").status_code == 200


def test_a_base_model_goes_after_its_adaptations(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    place = api.post("/v1/jobs", json=an_adapt_document()).headers["location"]
    maker = api.get("/v1/base-models/tiny-sort").json()["job_id"]
    api.post(f"{place}/cancel")
    adaptation = place.rpartition("/")[2]
    expected = f"The job {adaptation} uses the base model 'tiny-sort' that it created."
    assert needs(api.delete(f"/v1/jobs/{maker}")) == [("needed_by_job", expected)]
    assert api.delete(place).status_code == 204
    assert api.delete(f"/v1/jobs/{maker}").status_code == 204
    assert api.get("/v1/base-models/tiny-sort").status_code == 404
    again = api.post("/v1/jobs", json=an_adapt_document())
    assert again.status_code == 422, again.text
    assert again.json()["errors"][0]["code"] == "unknown_base_model"


def test_no_adaptation_begins_while_its_base_model_is_deleted(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_models, "LONGEST_WAIT", "200ms")
    with sessions.begin() as session:
        maker = a_base_model(session)
    with sessions.begin() as creating:
        creating.execute(select(func.count()).select_from(Table.metadata.tables["base_models"]))
        with pytest.raises(OperationalError), sessions.begin() as deleting:
            job_deletion.delete_job(deleting, maker)
        a_job(creating)
    with sessions.begin() as deleting, pytest.raises(StillNeeded):
        job_deletion.delete_job(deleting, maker)


def test_a_retry_outlives_the_job_that_it_retries(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        failed = a_job(session, state="failed")
    retry = api.post(f"/v1/jobs/{failed}/retry").json()
    assert retry["retry_of"] == str(failed)
    run_all(sessions, lambda _: Run(right=300))
    assert api.delete(f"/v1/jobs/{failed}").status_code == 204
    left = api.get(f"/v1/jobs/{retry['id']}").json()
    assert (left["retry_of"], left["state"]) == (None, "succeeded")
    with sessions.begin() as session:
        other = a_job(session, state="failed")
    change = update(Job).where(Job.id == UUID(retry["id"])).values(retry_of=other)
    with sessions() as session, pytest.raises(DBAPIError, match="has ended"):
        session.execute(change)


def test_a_token_of_a_deleted_job_stays_revoked(
    api: TestClient, job: str, sessions: Sessions
) -> None:
    token = api.post(f"{job}/tokens", json={}).json()
    worker = {"host": "node", "process_id": 1, "queues": ["cpu"]}
    api.post("/v1/workers", json=worker, headers=bearer(token["token"]))
    api.post(f"{job}/cancel")
    assert api.delete(job).status_code == 204
    with sessions() as session:
        row = session.scalars(select(Token).where(Token.id == token["id"])).one()
    assert row.revoked_at is not None
    assert row.job_id is None


@pytest.mark.parametrize("of", ["job", "study"])
def test_only_admins_of_the_project_delete(
    api: TestClient, request: pytest.FixtureRequest, sessions: Sessions, study: Json, of: str
) -> None:
    with sessions.begin() as session:
        job = a_job(session, state="failed", base_model=None)
    place = f"/v1/jobs/{job}" if of == "job" else f"/v1/studies/{study['id']}"
    for role in ("reader", "submitter", "operator"):
        header = somebody(sessions, f"a-{role}", role)
        assert api.delete(place, headers=header).status_code == 403, role
    stranger = person(sessions, "stranger", {"elsewhere": "admin"})
    assert api.delete(place, headers=stranger).status_code == 404
    cautious = somebody(sessions, "cautious", "admin", "read", "submit")
    assert api.delete(place, headers=cautious).status_code == 403
    assert api.get(place).status_code == 200
    admin = somebody(sessions, "an-admin", "admin")
    assert api.delete(place, headers=admin).is_success


def test_a_study_goes_and_its_jobs_stay(api: TestClient, study: Json, sessions: Sessions) -> None:
    jobs = jobs_of(api)
    gone = api.delete("/v1/studies/small").json()
    assert gone == {
        "id": study["id"],
        "object": "deleted_study",
        "name": "small",
        "deleted_jobs": 0,
        "kept_jobs": len(jobs),
    }
    assert rows_with(sessions, "study_id", study["id"]) == {}
    for part in ("", "/jobs", "/comparison", "/bundle"):
        assert api.get(f"/v1/studies/{study['id']}{part}").status_code == 404, part
    assert api.get(f"/studies/{study['id']}").status_code == 404
    assert all(api.get(f"/v1/jobs/{job}").status_code == 200 for job in jobs)
    assert api.delete("/v1/studies/small").status_code == 404
    (entry,) = entries(api, "action=delete_study&actor=ada")[-1:]
    assert entry["details"] == {"name": "small", "with_jobs": False}


def test_a_study_takes_the_jobs_along_that_only_it_has(
    api: TestClient, study: Json, sessions: Sessions
) -> None:
    document = a_study_document(name="other", methods=["frozen"], seeds=1)
    assert api.post("/v1/studies", json=document).status_code == 201
    shared, own = set(jobs_of(api, "other")), set(jobs_of(api)) - set(jobs_of(api, "other"))
    assert shared
    assert own
    gone = api.delete("/v1/studies/small?with_jobs=true").json()
    assert (gone["deleted_jobs"], gone["kept_jobs"]) == (len(own), len(shared))
    assert all(api.get(f"/v1/jobs/{job}").status_code == 404 for job in own)
    assert set(jobs_of(api, "other")) == shared
    gone = api.delete("/v1/studies/other?with_jobs=true").json()
    assert gone["kept_jobs"] >= 1, "the base model was there before"
    assert api.get("/v1/base-models/tiny-sort").status_code == 200


def test_a_running_study_is_cancelled_first(
    api: TestClient, base: None, sessions: Sessions
) -> None:
    api.post("/v1/studies", json=a_study_document(name="small", methods=["frozen"]))
    refused = api.delete("/v1/studies/small?with_jobs=true")
    assert refused.status_code == 409
    assert "Cancel it first" in refused.json()["detail"]
    assert api.post("/v1/studies/small/cancel").json()["state"] == "cancelled"
    jobs = jobs_of(api)
    assert api.delete("/v1/studies/small?with_jobs=true").status_code == 200
    left = [job for job in jobs if api.get(f"/v1/jobs/{job}").status_code == 200]
    assert len(left) == 1, "the base model"
