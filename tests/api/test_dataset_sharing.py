"""Datasets are shared with other projects, and taken back."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import entries, person
from tests.making import a_study_document
from tests.texts import CLASSIFICATION, reviews, without

Sessions = sessionmaker[Session]
Header = dict[str, str]
TASK = without(CLASSIFICATION, tokens={"longest": 64})
READER = {
    "kind": "pretrain",
    "name": "reader",
    "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 32},
    "task": TASK,
}
HERE, THERE = {"project": "here"}, {"project": "there"}


@pytest.fixture
def owner(anonymous: TestClient, sessions: Sessions) -> Header:
    """Somebody with a dataset in one project, who submits to another one."""
    header = person(sessions, "owner", {"here": "submitter", "there": "submitter"})
    body = {"name": "reviews", "records": reviews(200)}
    made = anonymous.post("/v1/datasets", json=body, params=HERE, headers=header)
    assert made.status_code == 201, made.text
    return header


@pytest.fixture
def neighbour(sessions: Sessions) -> Header:
    """Somebody of the other project alone."""
    return person(sessions, "neighbour", {"there": "admin"})


@pytest.fixture
def shared(anonymous: TestClient, owner: Header) -> Any:
    answer = anonymous.post("/v1/datasets/reviews/shares", json=THERE, headers=owner)
    assert answer.status_code == 200, answer.text
    return answer.json()


def listed(client: TestClient, header: Header, **query: str) -> list[tuple[str, str, str | None]]:
    data = client.get("/v1/datasets", headers=header, params=query).json()["data"]
    return [(one["name"], one["project"], one["shared_from"]) for one in data if one["project"]]


def test_a_shared_dataset_is_used_by_the_other_project(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    assert shared["shared_with"] == ["there"]
    seen = anonymous.get("/v1/datasets/reviews", headers=neighbour).json()
    assert (seen["project"], seen["shared_from"]) == ("there", "here")
    assert (seen["digest"], seen["shared_with"]) == (shared["digest"], [])
    content = anonymous.get("/v1/datasets/reviews/content", headers=neighbour)
    assert len(content.text.splitlines()) == 200
    made = anonymous.post("/v1/jobs", json=READER, headers=neighbour)
    assert made.status_code == 201, made.text
    assert made.json()["project"] == "there"
    assert listed(anonymous, neighbour) == [("reviews", "there", "here")]


def test_its_owner_still_means_the_original(
    anonymous: TestClient, shared: Any, owner: Header
) -> None:
    both = [("reviews", "here", None), ("reviews", "there", "here")]
    assert listed(anonymous, owner) == both
    assert anonymous.get("/v1/datasets/reviews", headers=owner).json() == shared
    there = anonymous.get("/v1/datasets/reviews", headers=owner, params=THERE).json()
    assert there["shared_from"] == "here"
    again = anonymous.post("/v1/datasets/reviews/shares", json=THERE, headers=owner)
    assert again.json() == shared, "repeated calls change nothing"


def test_what_is_shared_is_read_only(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    refused = anonymous.delete("/v1/datasets/reviews", headers=neighbour)
    assert refused.status_code == 409
    assert "shared by another project" in refused.json()["detail"]
    on = anonymous.post("/v1/datasets/reviews/shares", json=HERE, headers=neighbour)
    assert "Share it from there" in on.json()["detail"]
    original = anonymous.delete("/v1/datasets/reviews", headers=owner)
    assert original.status_code == 409
    assert "shared with there. Take it back first." in original.json()["detail"]


def test_it_is_taken_back_when_nothing_there_needs_it(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    job = anonymous.post("/v1/jobs", json=READER, headers=neighbour).json()
    place = "/v1/datasets/reviews/shares/there"
    refused = anonymous.delete(place, headers=owner)
    assert refused.status_code == 409
    assert "the base model reader" in refused.json()["detail"]
    anonymous.post(f"/v1/jobs/{job['id']}/cancel", headers=neighbour)
    assert anonymous.delete(place, headers=owner).status_code == 204
    assert listed(anonymous, neighbour) == []
    assert anonymous.get("/v1/datasets/reviews", headers=neighbour).status_code == 404
    assert anonymous.get(f"/v1/jobs/{job['id']}", headers=neighbour).status_code == 200
    assert anonymous.delete(place, headers=owner).status_code == 404
    assert anonymous.delete("/v1/datasets/reviews", headers=owner).status_code == 204


def test_strangers_learn_nothing_of_what_needs_it(
    anonymous: TestClient, sessions: Sessions, shared: Any, neighbour: Header
) -> None:
    anonymous.post("/v1/jobs", json=READER, headers=neighbour)
    no_longer_there = person(sessions, "owner", {"here": "submitter"})
    refused = anonymous.delete("/v1/datasets/reviews/shares/there", headers=no_longer_there)
    assert refused.status_code == 409
    assert "reader" not in refused.json()["detail"]


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
def test_its_owner_and_admins_of_its_project_share_it(
    anonymous: TestClient, sessions: Sessions, owner: Header, roles: dict[str, str], status: int
) -> None:
    header = person(sessions, "other", roles)
    answer = anonymous.post("/v1/datasets/reviews/shares", json=THERE, headers=header)
    assert answer.status_code == status, answer.text


def test_a_name_that_the_other_project_has_is_refused(
    anonymous: TestClient, owner: Header, sessions: Sessions
) -> None:
    there = person(sessions, "neighbour", {"there": "submitter"})
    body = {"name": "reviews", "records": reviews(150)}
    anonymous.post("/v1/datasets", json=body, headers=there)
    params = HERE
    answer = anonymous.post("/v1/datasets/reviews/shares", json=THERE, headers=owner, params=params)
    assert answer.status_code == 409
    assert "has another dataset" in answer.json()["detail"]
    own = anonymous.post("/v1/datasets/reviews/shares", json=HERE, headers=owner, params=params)
    assert own.status_code == 409


def test_sharing_is_in_the_audit_log(api: TestClient, shared: Any, owner: Header) -> None:
    api.delete("/v1/datasets/reviews/shares/there", headers=owner)
    noted = [(one["action"], one["object"], one["details"]) for one in entries(api)]
    assert ("share_dataset", "reviews", {"project": "there"}) in noted
    assert ("take_dataset_back", "reviews/there", {"project": "there"}) in noted


def test_a_study_of_the_other_project_keeps_it(
    anonymous: TestClient, shared: Any, owner: Header, neighbour: Header
) -> None:
    anonymous.post("/v1/jobs", json=READER, headers=neighbour)
    study = a_study_document(
        base_models=["reader"], tasks=[TASK], methods=["lora"], budgets=[2000], name="theirs"
    )
    made = anonymous.post("/v1/studies", json=study, headers=neighbour)
    assert made.status_code == 201, made.text
    refused = anonymous.delete("/v1/datasets/reviews/shares/there", headers=owner)
    assert "the study theirs" in refused.json()["detail"]
