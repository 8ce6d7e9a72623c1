"""Studies and base models are shared with other projects, and taken back."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import entries, person
from tests.making import a_base_model, a_job, a_study_document, an_adapt_document

from adaptlab_db.tables import Job

Sessions = sessionmaker[Session]
Header = dict[str, str]
HERE, THERE = {"project": "here"}, {"project": "there"}


@pytest.fixture
def owner(sessions: Sessions) -> Header:
    """The owner of a study and its base model, who submits to another project."""
    return person(sessions, "owner", {"here": "submitter", "there": "submitter"})


@pytest.fixture
def neighbour(sessions: Sessions) -> Header:
    """An admin of the other project alone."""
    return person(sessions, "neighbour", {"there": "admin"})


@pytest.fixture
def study(anonymous: TestClient, sessions: Sessions, owner: Header) -> Any:
    """A study of the owner, and another one with the same jobs."""
    with sessions.begin() as session:
        a_base_model(session, "tiny", owner="owner", project="here")
    for name in ("private", "small"):
        document = a_study_document(base_models=["tiny"], name=name, methods=["frozen", "lora"])
        made = anonymous.post("/v1/studies", json=document, params=HERE, headers=owner)
        assert made.status_code == 201, made.text
    return made.json()


@pytest.fixture
def shared(anonymous: TestClient, owner: Header, study: Any) -> Any:
    place = f"/v1/studies/{study['id']}/shares"
    answer = anonymous.post(place, json=THERE, headers=owner)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def base_model(anonymous: TestClient, owner: Header, study: Any) -> Any:
    """The base model, shared."""
    answer = anonymous.post("/v1/base-models/tiny/shares", json=THERE, headers=owner)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(client: TestClient, path: str, header: Header, **query: str) -> list[str]:
    return [one["id"] for one in client.get(path, headers=header, params=query).json()["data"]]


def test_a_shared_study_is_read_by_the_other_project(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    assert (shared["shared_with"], shared["shared_from"]) == (["there"], None)
    for study in (shared["id"], shared["name"]):
        seen = anonymous.get(f"/v1/studies/{study}", headers=neighbour).json()
        assert (seen["project"], seen["shared_from"]) == ("here", "here")
        assert (seen["shared_with"], seen["cells"]) == ([], shared["cells"])
    jobs = ids(anonymous, f"/v1/studies/{shared['id']}/jobs", owner)
    assert len(jobs) > 2
    assert ids(anonymous, f"/v1/studies/{shared['id']}/jobs", neighbour) == jobs
    assert ids(anonymous, "/v1/studies", neighbour) == [shared["id"]]
    for job in jobs:
        assert anonymous.get(f"/v1/jobs/{job}", headers=neighbour).json()["project"] == "here"


def test_its_base_model_and_comparison_are_the_same_for_both(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    model = anonymous.get("/v1/base-models/tiny", headers=neighbour).json()
    assert model["project"] == "here"
    assert anonymous.get(f"/v1/jobs/{model['job_id']}", headers=neighbour).status_code == 200
    of_both = [anonymous.get(f"/v1/studies/{shared['id']}/comparison", headers=header).json()
               for header in (owner, neighbour)]  # fmt: skip
    assert of_both[0] == of_both[1]


def test_other_studies_with_the_same_jobs_stay_hidden(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    job = shared["cells"][0]["jobs"][0]["id"]
    assert len(ids(anonymous, "/v1/studies", owner, job=job)) == 2
    assert ids(anonymous, "/v1/studies", neighbour, job=job) == [shared["id"]]
    assert anonymous.get("/v1/studies/private", headers=neighbour).status_code == 404
    assert ids(anonymous, "/v1/jobs", neighbour, filter="study = private") == []
    assert "private" not in anonymous.get(f"/jobs/{job}", headers=neighbour).text


def test_jobs_of_an_extension_are_shared_at_once(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    place = f"/v1/studies/{shared['id']}"
    before = ids(anonymous, f"{place}/jobs", neighbour)
    extended = anonymous.post(
        f"{place}/extend", json={"methods": ["full_finetuning"]}, headers=owner
    )
    assert extended.status_code == 200, extended.text
    assert set(ids(anonymous, f"{place}/jobs", neighbour)) > set(before)


def test_a_base_model_of_a_shared_study_is_not_one_of_the_other_project(
    anonymous: TestClient, shared: Any, neighbour: Header
) -> None:
    models = anonymous.get("/v1/base-models", headers=neighbour).json()["data"]
    assert models == []
    refused = anonymous.post(
        "/v1/jobs", json=an_adapt_document(base_model="tiny"), headers=neighbour
    )
    assert refused.json()["errors"][0]["code"] == "unknown_base_model"
    assert "tiny" not in str(refused.json()["errors"][0]["allowed"])


@pytest.mark.usefixtures("base_model")
def test_a_shared_study_is_repeated_where_its_base_model_is_shared(
    anonymous: TestClient, shared: Any, neighbour: Header
) -> None:
    clone = f"/v1/studies/{shared['id']}/clone"
    made = anonymous.post(clone, json={"name": "ours"}, headers=neighbour)
    assert made.status_code == 201, made.text
    assert made.json()["project"] == "there"
    ours = [job["id"] for cell in made.json()["cells"] for job in cell["jobs"]]
    theirs = [job["id"] for cell in shared["cells"] for job in cell["jobs"]]
    assert not set(ours) & set(theirs), "jobs of another project are never reused"


def test_a_shared_base_model_is_adapted_by_the_other_project(
    anonymous: TestClient, base_model: Any, owner: Header, neighbour: Header
) -> None:
    assert base_model["shared_with"] == ["there"]
    seen = anonymous.get("/v1/base-models/tiny", headers=neighbour).json()
    assert (seen["project"], seen["shared_from"], seen["shared_with"]) == ("there", "here", [])
    assert (seen["job_id"], seen["digest"]) == (base_model["job_id"], base_model["digest"])
    listed = anonymous.get("/v1/base-models", headers=neighbour).json()["data"]
    assert [(one["name"], one["shared_from"]) for one in listed] == [("tiny", "here")]
    assert anonymous.get(f"/v1/jobs/{seen['job_id']}", headers=neighbour).status_code == 200


def test_jobs_of_the_other_project_adapt_a_shared_base_model(
    anonymous: TestClient, base_model: Any, neighbour: Header
) -> None:
    page = anonymous.get("/base-models/tiny", headers=neighbour)
    assert "shared by" in page.text
    document = an_adapt_document(base_model="tiny")
    made = anonymous.post("/v1/jobs", json=document, headers=neighbour)
    assert made.status_code == 201, made.text
    assert (made.json()["project"], made.json()["state"]) == ("there", "queued")
    assert anonymous.get(f"/v1/jobs/{made.json()['id']}", headers=neighbour).json()["links"]


def test_its_owner_still_means_the_original_base_model(
    anonymous: TestClient, base_model: Any, owner: Header, neighbour: Header
) -> None:
    assert anonymous.get("/v1/base-models/tiny", headers=owner).json() == base_model
    there = anonymous.get("/v1/base-models/tiny", headers=owner, params=THERE).json()
    assert there["shared_from"] == "here"
    again = anonymous.post("/v1/base-models/tiny/shares", json=THERE, headers=owner)
    assert again.json() == base_model, "repeated calls change nothing"
    on = anonymous.post("/v1/base-models/tiny/shares", json=HERE, headers=neighbour)
    assert on.status_code == 403
    assert "for reading only" in on.json()["detail"]


def test_a_base_model_is_taken_back_when_nothing_there_needs_it(
    anonymous: TestClient, base_model: Any, owner: Header, neighbour: Header
) -> None:
    document = an_adapt_document(base_model="tiny")
    job = anonymous.post("/v1/jobs", json=document, headers=neighbour).json()
    place = "/v1/base-models/tiny/shares/there"
    refused = anonymous.delete(place, headers=owner)
    assert refused.status_code == 409
    assert job["id"] in refused.json()["detail"]
    anonymous.post(f"/v1/jobs/{job['id']}/cancel", headers=neighbour)
    ours = a_study_document(base_models=["tiny"], name="ours", methods=["frozen"])
    anonymous.post("/v1/studies", json=ours, headers=neighbour)
    assert "the study ours" in anonymous.delete(place, headers=owner).json()["detail"]
    anonymous.post("/v1/studies/ours/cancel", headers=neighbour)
    assert anonymous.delete(place, headers=owner).status_code == 204
    for path in ("/v1/base-models/tiny", f"/v1/jobs/{base_model['job_id']}"):
        assert anonymous.get(path, headers=neighbour).status_code == 404
    assert anonymous.post("/v1/jobs", json=document, headers=neighbour).status_code == 422
    assert anonymous.get(f"/v1/jobs/{job['id']}", headers=neighbour).status_code == 200
    assert anonymous.delete(place, headers=owner).status_code == 404


def test_strangers_learn_nothing_of_what_needs_a_base_model(
    anonymous: TestClient, sessions: Sessions, base_model: Any, neighbour: Header
) -> None:
    job = anonymous.post(
        "/v1/jobs", json=an_adapt_document(base_model="tiny"), headers=neighbour
    ).json()
    no_longer_there = person(sessions, "owner", {"here": "submitter"})
    refused = anonymous.delete("/v1/base-models/tiny/shares/there", headers=no_longer_there)
    assert refused.status_code == 409
    assert job["id"] not in refused.json()["detail"]


def test_a_base_model_that_is_not_ready_or_whose_name_is_taken_is_refused(
    anonymous: TestClient, sessions: Sessions, study: Any, owner: Header
) -> None:
    with sessions.begin() as session:
        a_base_model(session, "coming", owner="owner", project="here", state="queued")
        a_base_model(session, "tiny", owner="neighbour", project="there")
    coming = anonymous.post("/v1/base-models/coming/shares", json=THERE, headers=owner)
    assert (coming.status_code, coming.json()["state"]) == (409, "queued")
    params = HERE
    taken = anonymous.post("/v1/base-models/tiny/shares", json=THERE, headers=owner, params=params)
    assert taken.status_code == 409
    assert "another base model" in taken.json()["detail"]
    for place in (f"/v1/studies/{study['id']}", "/v1/base-models/tiny"):
        own = anonymous.post(f"{place}/shares", json=HERE, headers=owner, params=params)
        assert own.status_code == 409, place


def test_the_job_of_a_shared_base_model_is_not_deleted(
    anonymous: TestClient, sessions: Sessions, base_model: Any
) -> None:
    with sessions.begin() as session:
        a_base_model(session, "alone", owner="owner", project="here")
    admin = person(sessions, "boss", {"here": "admin", "there": "submitter"})
    here_alone = person(sessions, "chief", {"here": "admin"})
    made = anonymous.post("/v1/base-models/alone/shares", json=THERE, headers=admin).json()
    path = f"/v1/jobs/{made['job_id']}"
    refused = anonymous.delete(path, headers=here_alone)
    assert refused.status_code == 409
    assert refused.json()["errors"][0]["code"] == "needed_by_share"
    anonymous.delete("/v1/base-models/alone/shares/there", headers=admin)
    assert anonymous.delete(path, headers=here_alone).status_code == 204


def test_taking_a_study_back_ends_it(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    job = shared["cells"][0]["jobs"][0]["id"]
    paths = (f"/v1/studies/{shared['id']}", f"/v1/jobs/{job}", f"/v1/jobs/{job}/events",
             f"/studies/{shared['id']}", "/v1/base-models/tiny")  # fmt: skip
    for path in paths:
        assert anonymous.get(path, headers=neighbour).status_code == 200, path
    place = f"/v1/studies/{shared['id']}/shares/there"
    assert anonymous.delete(place, headers=owner).status_code == 204
    for path in paths:
        assert anonymous.get(path, headers=neighbour).status_code == 404, path
    assert ids(anonymous, "/v1/studies", neighbour) == []
    assert anonymous.delete(place, headers=owner).status_code == 404


@pytest.mark.parametrize(
    ("roles", "status"),
    [
        ({"here": "operator", "there": "admin"}, 403),
        ({"here": "submitter", "there": "admin"}, 403),
        ({"here": "admin"}, 404),
        ({"there": "admin"}, 404),
        ({"here": "admin", "there": "submitter"}, 200),
    ],
)
def test_owners_and_admins_of_the_project_share(
    anonymous: TestClient, sessions: Sessions, study: Any, roles: dict[str, str], status: int
) -> None:
    header = person(sessions, "other", roles)
    for place in (f"/v1/studies/{study['id']}", "/v1/base-models/tiny"):
        answer = anonymous.post(f"{place}/shares", json=THERE, headers=header)
        assert answer.status_code == status, answer.text


def test_nobody_shares_on_what_is_shared_with_them(
    anonymous: TestClient, sessions: Sessions, shared: Any, base_model: Any
) -> None:
    header = person(sessions, "neighbour", {"there": "operator", "third": "admin"})
    for place in (f"/v1/studies/{shared['id']}", "/v1/base-models/tiny"):
        third = anonymous.post(f"{place}/shares", json={"project": "third"}, headers=header)
        assert third.status_code == 403, place
        back = anonymous.delete(f"{place}/shares/there", headers=header)
        assert back.status_code == 403, place


def test_sharing_is_in_the_audit_log(
    api: TestClient, shared: Any, base_model: Any, owner: Header
) -> None:
    api.delete(f"/v1/studies/{shared['id']}/shares/there", headers=owner)
    api.delete("/v1/base-models/tiny/shares/there", headers=owner)
    noted = [(one["action"], one["details"]) for one in entries(api)]
    of_study = {"name": "small", "project": "there"}
    for action in ("share_study", "take_study_back"):
        assert (action, of_study) in noted
    for action in ("share_base_model", "take_base_model_back"):
        assert (action, {"project": "there"}) in noted


def test_a_member_of_both_projects_sees_everything_once(
    anonymous: TestClient, shared: Any, base_model: Any, owner: Header
) -> None:
    jobs = ids(anonymous, "/v1/jobs", owner)
    assert len(jobs) == len(set(jobs))
    assert len(ids(anonymous, "/v1/studies", owner)) == 2
    there = ids(anonymous, "/v1/studies", owner, project="there")
    assert there == [shared["id"]]


def test_a_job_of_the_base_model_is_counted_in_its_project(
    anonymous: TestClient, sessions: Sessions, base_model: Any, owner: Header, neighbour: Header
) -> None:
    """The page of the base model lists the adaptations of the project in view."""
    with sessions.begin() as session:
        a_job(session, owner="neighbour", project="there", base_model="tiny")
        there = session.scalars(select(Job.id).order_by(Job.created_at.desc()).limit(1)).one()
        assert session.execute(text("SELECT count(*) FROM base_models")).scalar_one() == 2
    for header, is_listed in ((neighbour, True), (owner, False)):
        page = anonymous.get("/base-models/tiny", headers=header)
        assert page.status_code == 200
        assert (str(there) in page.text) == is_listed
