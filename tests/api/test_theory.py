"""Theory checks over HTTP."""

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_pretrain_document


def test_another_kind_of_job_has_no_reports_and_no_job_is_not_found(api: TestClient) -> None:
    job = api.post("/v1/jobs", json=a_pretrain_document()).json()
    assert api.get(job["links"]["theory"]).json() == {"data": [], "attempt": 0}
    unknown = "00000000-0000-0000-0000-000000000000"
    assert api.get(f"/v1/jobs/{unknown}/theory").status_code == 404


def test_an_adaptation_is_named_by_its_job(
    api: TestClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        base = str(a_base_model(session))
        adapted = str(a_job(session, state="succeeded"))
    document = {"kind": "theory", "checks": ["relative_attention"], "adaptation": adapted}
    preview = api.post("/v1/jobs?validate_only=true", json=document).json()
    (known,) = preview["resolved_spec"]["adaptations"]
    assert (known["job"], known["seeds"]) == (adapted, [0, 1])
    job = api.post("/v1/jobs", json=document)
    assert (job.status_code, job.json()["state"]) == (201, "queued")
    assert job.json()["spec"] == document | {"checks": [{"name": "relative_attention"}]}
    faults = {base: "not_an_adaptation", "no-id": "uuid_parsing"}
    for given, code in faults.items():
        answer = api.post("/v1/jobs", json=document | {"adaptation": given})
        assert answer.status_code == 422
        found = {(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]}
        assert ("/adaptation", code) in found
