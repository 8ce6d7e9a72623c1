"""Names, labels, notes and archiving of jobs and studies."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import entries, person, somebody
from tests.making import a_job, a_study_document, an_adapt_document

from adaptlab.specs.annotations import LONGEST_JOB_NAME, LONGEST_NOTES
from adaptlab.specs.spec import MOST_LABELS
from adaptlab_db.job_states import TERMINAL_STATES

Sessions = sessionmaker[Session]
Json = dict[str, Any]


@pytest.fixture
def study(api: TestClient, base: None) -> str:
    """The address of a study."""
    answer = api.post("/v1/studies", json=a_study_document(name="small", methods=["frozen"]))
    return answer.headers["location"]


def listed(api: TestClient, of: str, query: str = "") -> list[str]:
    return [one["id"] for one in api.get(f"/v1/{of}?{query}").json()["data"]]


@pytest.mark.parametrize("of", ["job", "study"])
def test_labels_are_added_replaced_and_removed(
    api: TestClient, request: pytest.FixtureRequest, of: str
) -> None:
    place = request.getfixturevalue(of)
    first = api.patch(place, json={"labels": {"paper": "table-1", "team": "nlp"}, "notes": "Why?"})
    assert first.status_code == 200, first.text
    assert first.json()["notes"] == "Why?"

    second = api.patch(place, json={"labels": {"paper": "table-2", "team": None, "gone": None}})
    assert second.json()["labels"] == {"paper": "table-2"}
    assert second.json()["notes"] == "Why?", "members that are missing change nothing"
    assert api.get(place).json() == second.json()

    assert api.patch(place, json={"notes": None}).json()["notes"] is None
    assert api.patch(place, json={}).json()["labels"] == {"paper": "table-2"}


def test_a_filter_finds_new_labels_and_the_spec_keeps_its_own(api: TestClient, base: None) -> None:
    document = an_adapt_document(labels={"paper": "table-1"})
    job = api.post("/v1/jobs", json=document).json()
    changed = api.patch(f"/v1/jobs/{job['id']}", json={"labels": {"paper": "table-2"}}).json()

    assert listed(api, "jobs", 'filter=labels.paper = "table-2"') == [job["id"]]
    assert listed(api, "jobs", 'filter=labels.paper = "table-1"') == []
    assert changed["spec"] == job["spec"]
    assert changed["spec_digest"] == job["spec_digest"]


def test_a_job_gets_a_name_that_a_filter_finds(api: TestClient, base: None) -> None:
    place = api.post("/v1/jobs", json=an_adapt_document()).headers["location"]
    named = api.patch(place, json={"name": "Best rate, ünder α"})
    assert named.json()["name"] == "Best rate, ünder α"
    assert listed(api, "jobs", 'filter=name = "Best rate, ünder α"') == [named.json()["id"]]
    assert api.patch(place, json={"notes": "Why?"}).json()["name"] == "Best rate, ünder α"
    assert api.patch(place, json={"name": None}).json()["name"] is None


def test_a_job_that_creates_a_base_model_has_its_name(api: TestClient, base: None) -> None:
    (pretraining,) = api.get("/v1/jobs?filter=kind=pretrain").json()["data"]
    refused = api.patch(f"/v1/jobs/{pretraining['id']}", json={"name": "other"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "name_of_base_model"
    assert api.get(f"/v1/jobs/{pretraining['id']}").json()["name"] == pretraining["name"]


def test_a_renamed_study_is_found_by_its_new_name(api: TestClient, study: str) -> None:
    before = api.get(study).json()
    renamed = api.patch(study, json={"name": "large"})
    assert renamed.status_code == 200, renamed.text
    assert api.get("/v1/studies/large").json()["id"] == before["id"]
    assert renamed.json()["spec"] == before["spec"] | {"name": "large"}
    assert api.get("/v1/studies/small").status_code == 404
    again = api.post("/v1/studies", json=a_study_document(name="small", methods=["frozen"]))
    assert again.status_code == 201, "the old name is free"


def test_two_studies_of_a_project_have_two_names(api: TestClient, study: str) -> None:
    api.post("/v1/studies", json=a_study_document(name="large", methods=["frozen"]))
    refused = api.patch(study, json={"name": "large", "notes": "Mine."})
    assert refused.status_code == 409
    assert "already exists" in refused.json()["detail"]
    assert api.get(study).json()["notes"] is None
    assert api.patch(study, json={"name": None}).json()["name"] == "small"
    assert api.patch(study, json={"name": "small"}).status_code == 200


@pytest.mark.parametrize("state", TERMINAL_STATES)
def test_what_users_write_on_an_ended_job_can_change(
    api: TestClient, base: None, sessions: Sessions, state: str
) -> None:
    with sessions.begin() as session:
        job = f"/v1/jobs/{a_job(session, state=state)}"
    body = {"labels": {"a": "b"}, "notes": "Done.", "archived": True, "name": "Last"}
    changed = api.patch(job, json=body)
    assert changed.status_code == 200, changed.text
    assert changed.json()["labels"] == {"a": "b"}
    assert changed.json()["state"] == state
    assert changed.json()["name"] == "Last"
    assert changed.json()["archived_at"]


def test_an_archived_job_is_left_out_of_lists_and_nothing_else(
    api: TestClient, job: str, study: str
) -> None:
    own = job.rsplit("/", 1)[1]
    (archived,) = listed(api, "jobs", "filter=method=frozen")
    member = f"/v1/jobs/{archived}"
    at = api.patch(member, json={"archived": True}).json()["archived_at"]

    assert archived not in listed(api, "jobs")
    assert own in listed(api, "jobs")
    assert listed(api, "jobs", "filter=method=frozen") == []
    assert listed(api, "jobs", "archived=only") == [archived]
    assert {own, archived} <= {*listed(api, "jobs", "archived=include")}
    assert archived in listed(api, f"studies/{study.rsplit('/', 1)[1]}/jobs")
    again = api.patch(member, json={"archived": True})
    assert again.json()["archived_at"] == at, "it was archived before"


def test_an_archived_job_can_be_listed_again(api: TestClient, job: str) -> None:
    before = listed(api, "jobs")
    api.patch(job, json={"archived": True})
    assert len(listed(api, "jobs")) == len(before) - 1
    assert api.patch(job, json={"archived": False}).json()["archived_at"] is None
    assert listed(api, "jobs") == before


def test_an_archived_study_keeps_its_name_and_its_jobs(api: TestClient, study: str) -> None:
    api.patch(study, json={"archived": True})
    assert listed(api, "studies") == []
    assert listed(api, "studies", "archived=only") == [api.get(study).json()["id"]]
    assert listed(api, "jobs"), "its jobs are still listed"
    again = api.post("/v1/studies", json=a_study_document(name="small", methods=["frozen"]))
    assert again.status_code == 409


def test_pages_of_archived_jobs_continue_as_they_began(api: TestClient, base: None) -> None:
    for seed in range(3):
        place = api.post("/v1/jobs", json=an_adapt_document(seeds=[seed])).headers["location"]
        api.patch(place, json={"archived": True})
    first = api.get("/v1/jobs?archived=only&page_size=2").json()
    token = first["next_page_token"]
    rest = api.get(f"/v1/jobs?archived=only&page_size=2&page_token={token}").json()
    assert len({one["id"] for page in (first, rest) for one in page["data"]}) == 3
    assert api.get(f"/v1/jobs?page_size=2&page_token={token}").status_code == 422


UNWRITABLE: list[Any] = [
    ({"labels": {"": "x"}}, "/labels/"),
    ({"labels": {"a": 1}}, "/labels/a"),
    ({"labels": {"a": "x" * 257}}, "/labels/a"),
    ({"labels": ["a"]}, "/labels"),
    ({"labels": {f"l{n}": "x" for n in range(MOST_LABELS + 1)}}, "/labels"),
    ({"notes": "x" * (LONGEST_NOTES + 1)}, "/notes"),
    ({"notes": "a\x00b"}, ""),
    ({"archived": "yes"}, "/archived"),
    ({"name": ""}, "/name"),
    ({"name": "a\nb"}, "/name"),
    ({"name": "x" * (LONGEST_JOB_NAME + 1)}, "/name"),
    ({"state": "succeeded"}, "/state"),
]


@pytest.mark.parametrize("of", ["job", "study"])
def test_what_cannot_be_written_is_refused_and_changes_nothing(
    api: TestClient, request: pytest.FixtureRequest, of: str
) -> None:
    for body, pointer in UNWRITABLE:
        place = request.getfixturevalue(of)
        before = api.get(place).json()
        answer = api.patch(place, json=body)
        assert answer.status_code in (400, 422), answer.text
        assert answer.json()["errors"][0]["pointer"].startswith(pointer)
        assert api.get(place).json() == before


@pytest.mark.parametrize("of", ["job", "study"])
def test_labels_that_are_added_do_not_exceed_the_limit(
    api: TestClient, request: pytest.FixtureRequest, of: str
) -> None:
    place = request.getfixturevalue(of)
    full = {f"l{n}": "x" for n in range(MOST_LABELS)}
    assert api.patch(place, json={"labels": full}).status_code == 200
    one_more = api.patch(place, json={"labels": {"more": "x"}})
    assert one_more.status_code == 422
    assert one_more.json()["errors"][0]["code"] == "too_many_labels"
    exchanged = api.patch(place, json={"labels": {"more": "x", "l0": None}})
    assert len(exchanged.json()["labels"]) == MOST_LABELS


@pytest.mark.parametrize("of", ["job", "study"])
def test_only_owners_and_operators_write(
    api: TestClient, request: pytest.FixtureRequest, sessions: Sessions, of: str
) -> None:
    place, body = request.getfixturevalue(of), {"notes": "Mine now."}
    roles = {"reader": 403, "submitter": 403, "operator": 200}
    for role, status in roles.items():
        header = somebody(sessions, f"a-{role}", role)
        assert api.patch(place, json=body, headers=header).status_code == status, role
    stranger = person(sessions, "stranger", {"elsewhere": "admin"})
    assert api.patch(place, json=body, headers=stranger).status_code == 404
    reading = somebody(sessions, "careful", "admin", "read")
    assert api.patch(place, json=body, headers=reading).status_code == 403


def test_changes_are_in_the_audit_log(api: TestClient, job: str) -> None:
    api.patch(job, json={"labels": {"a": "b"}})
    (entry,) = entries(api, "action=annotate_job")
    assert entry["object"] == job.rsplit("/", 1)[1]
    assert entry["status"] == 200
