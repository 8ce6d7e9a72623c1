"""Attempts to change a project by sharing something into it."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import entries, person
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_study_document
from tests.texts import reviews

Sessions = sessionmaker[Session]
Header = dict[str, str]
HERE, THERE = {"project": "here"}, {"project": "there"}
BASES = [b"zero", b"one", b"two", b"three", b"four"]


@pytest.fixture
def attacker(sessions: Sessions) -> Header:
    """The owner of everything in one project, who reads another one."""
    return person(sessions, "attacker", {"here": "admin", "there": "reader"})


@pytest.fixture
def colleague(sessions: Sessions) -> Header:
    """The same in one project, and a submitter in the other."""
    return person(sessions, "colleague", {"here": "admin", "there": "submitter"})


@pytest.fixture
def receiver(sessions: Sessions) -> Header:
    return person(sessions, "receiver", {"there": "admin"})


@pytest.fixture
def study(anonymous: TestClient, sessions: Sessions, attacker: Header) -> Any:
    """A finished study with its base model, and a dataset."""
    with sessions.begin() as session:
        a_base_model(session, "tiny", contents=BASES, owner="attacker", project="here")
    body = {"name": "reviews", "records": reviews(150)}
    made = anonymous.post("/v1/datasets", json=body, params=HERE, headers=attacker)
    assert made.status_code == 201, made.text
    document = a_study_document(
        base_models=["tiny"], name="small", methods=["frozen", "lora"], budgets=[64], seeds=5
    )
    made = anonymous.post("/v1/studies", json=document, params=HERE, headers=attacker)
    assert made.status_code == 201, made.text
    run_all(sessions, lambda _: Run(right=300))
    return made.json()


def places(study: Any) -> tuple[str, ...]:
    return (
        "/v1/datasets/reviews/shares",
        "/v1/base-models/tiny/shares",
        f"/v1/studies/{study['id']}/shares",
    )


def test_a_reader_of_a_project_shares_nothing_with_it(
    anonymous: TestClient, study: Any, attacker: Header, receiver: Header
) -> None:
    for place in places(study):
        answer = anonymous.post(place, json=THERE, headers=attacker)
        assert answer.status_code == 403, answer.text
        assert "requires the role `submitter` in it" in answer.json()["detail"]
    for path in ("/v1/base-models", "/v1/studies", "/v1/jobs"):
        assert anonymous.get(path, headers=receiver).json()["data"] == []


def test_a_token_for_reading_shares_nothing(
    anonymous: TestClient, sessions: Sessions, study: Any, colleague: Header
) -> None:
    reading = person(sessions, "colleague", {"here": "admin", "there": "submitter"}, ("read",))
    for place in places(study):
        assert anonymous.post(place, json=THERE, headers=reading).status_code == 403


def test_an_admin_of_the_receiving_project_drops_what_is_shared(
    anonymous: TestClient, sessions: Sessions, study: Any, colleague: Header, receiver: Header
) -> None:
    submitter = person(sessions, "submitter", {"there": "submitter"})
    for place in places(study):
        assert anonymous.post(place, json=THERE, headers=colleague).status_code == 200
        dropped = f"{place}/there"
        assert anonymous.delete(dropped, headers=submitter).status_code in (403, 404, 409)
        assert anonymous.delete(dropped, headers=receiver).status_code == 204
        assert anonymous.delete(dropped, headers=receiver).status_code in (403, 404, 409)
    for path in ("/v1/base-models", "/v1/studies", "/v1/jobs"):
        assert anonymous.get(path, headers=receiver).json()["data"] == []
    own = {"name": "reviews", "records": reviews(150)}
    assert anonymous.post("/v1/datasets", json=own, headers=receiver).status_code == 201


def test_an_admin_of_the_receiving_project_drops_nothing_else(
    anonymous: TestClient, study: Any, colleague: Header, receiver: Header, sessions: Sessions
) -> None:
    third = person(sessions, "third", {"elsewhere": "admin"})
    for place in places(study):
        assert anonymous.post(place, json=THERE, headers=colleague).status_code == 200
        for project in ("there", "here"):
            answer = anonymous.delete(f"{place}/{project}", headers=third)
            assert answer.status_code in (403, 404, 409)
        assert anonymous.delete(f"{place}/here", headers=receiver).status_code in (403, 404, 409)
    assert len(anonymous.get("/v1/studies", headers=receiver).json()["data"]) == 1


def test_dropping_is_in_the_audit_log(
    api: TestClient, study: Any, colleague: Header, receiver: Header
) -> None:
    for place in places(study):
        api.post(place, json=THERE, headers=colleague)
        api.delete(f"{place}/there", headers=receiver)
    dropped = [one for one in entries(api, "actor=receiver") if one["status"] == 204]
    assert [one["details"]["project"] for one in dropped] == ["there"] * 3


def test_shared_jobs_are_evidence_only_where_asked_for(
    anonymous: TestClient, study: Any, colleague: Header, receiver: Header
) -> None:
    for place in places(study)[1:]:
        assert anonymous.post(place, json=THERE, headers=colleague).status_code == 200
    question = {
        "task": a_study_document()["tasks"][0],
        "base_model": "tiny",
        "budget": {"trainable_parameters": 64},
    }

    def recommended(**changes: object) -> Any:
        answer = anonymous.post("/v1/recommendations", json=question | changes, headers=receiver)
        assert answer.status_code == 200, answer.text
        return answer.json()["recommended"]

    assert recommended() is None
    assert recommended(include_shared=True) is not None
