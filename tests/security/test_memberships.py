"""Attempts of project admins to receive, or to break, what others create."""

from collections.abc import Mapping

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import bearer, person
from tests.making import a_pretrain_document

Sessions = sessionmaker[Session]
Header = Mapping[str, str]

HERS, THEIRS = "hers", "theirs"


@pytest.fixture
def victim(sessions: Sessions) -> Header:
    return person(sessions, "victim", {HERS: "submitter"})


@pytest.fixture
def attacker(sessions: Sessions) -> Header:
    return person(sessions, "attacker", {"default": "admin", THEIRS: "admin"})


def invite(api: TestClient, attacker: Header, project: str, role: str = "submitter") -> None:
    path = f"/v1/projects/{project}/members/victim"
    answer = api.put(path, json={"role": role}, headers=attacker, params={"project": project})
    assert answer.status_code == 200, answer.text


def remove(api: TestClient, attacker: Header, project: str) -> None:
    path = f"/v1/projects/{project}/members/victim"
    assert api.delete(path, headers=attacker).status_code == 204


def submitted_to(api: TestClient, victim: Header, **changes: object) -> str:
    """The project of a job that is submitted without naming one."""
    made = api.post("/v1/jobs", json=a_pretrain_document(**changes), headers=victim)
    assert made.status_code == 201, made.text
    return made.json()["project"]


@pytest.mark.parametrize("project", ["default", THEIRS])
def test_who_is_added_elsewhere_keeps_submitting_to_their_own_project(
    anonymous: TestClient, victim: Header, attacker: Header, project: str
) -> None:
    for role in ("reader", "submitter", "admin"):
        invite(anonymous, attacker, project, role)
        assert submitted_to(anonymous, victim, name=f"as-{role}") == HERS
    path = "/v1/jobs"
    seen = anonymous.get(path, headers=attacker, params={"project": project}).json()["data"]
    assert seen == []


@pytest.mark.parametrize("project", ["default", THEIRS])
def test_an_invitation_opens_nothing_until_its_user_accepts_it(
    anonymous: TestClient, victim: Header, attacker: Header, project: str
) -> None:
    invite(anonymous, attacker, project, "admin")
    members = f"/v1/projects/{project}/members"
    assert anonymous.get(members, headers=victim).status_code == 404
    named = anonymous.get("/v1/jobs", headers=victim, params={"project": project})
    assert named.status_code == 422
    me = anonymous.get("/v1/me", headers=victim).json()
    assert [one["name"] for one in me["projects"]] == [HERS]
    assert [(one["project"], one["role"]) for one in me["invitations"]] == [(project, "admin")]
    listed = anonymous.get(members, headers=attacker).json()["data"]
    states = {one["user"]: one["accepted_at"] is not None for one in listed}
    assert states == {"attacker": True, "victim": False}


def test_who_accepts_an_invitation_keeps_their_usual_project_until_they_change_it(
    anonymous: TestClient, victim: Header, attacker: Header
) -> None:
    invite(anonymous, attacker, "default")
    accepted = anonymous.post("/v1/projects/default/accept", headers=victim)
    assert accepted.json()["role"] == "submitter"
    assert submitted_to(anonymous, victim, name="before") == HERS
    me = anonymous.patch("/v1/me", json={"usual_project": "default"}, headers=victim)
    assert me.json()["usual_project"] == "default"
    assert submitted_to(anonymous, victim, name="after") == "default"


def test_who_loses_their_usual_project_is_asked_where_to_submit(
    anonymous: TestClient, sessions: Sessions, attacker: Header, victim: Header
) -> None:
    invite(anonymous, attacker, THEIRS)
    anonymous.post(f"/v1/projects/{THEIRS}/accept", headers=victim)
    admin_there = person(sessions, "admin-there", {HERS: "admin"})
    remove(anonymous, admin_there, HERS)
    unclear = anonymous.post("/v1/jobs", json=a_pretrain_document(), headers=victim)
    assert unclear.status_code == 403
    assert "adaptlab projects use" in unclear.json()["detail"]
    anonymous.patch("/v1/me", json={"usual_project": THEIRS}, headers=victim)
    assert submitted_to(anonymous, victim) == THEIRS


def test_an_invitation_that_is_taken_back_or_declined_cannot_be_accepted(
    anonymous: TestClient, victim: Header, attacker: Header
) -> None:
    invite(anonymous, attacker, THEIRS)
    remove(anonymous, attacker, THEIRS)
    assert anonymous.post(f"/v1/projects/{THEIRS}/accept", headers=victim).status_code == 404
    invite(anonymous, attacker, THEIRS)
    declined = anonymous.delete(f"/v1/projects/{THEIRS}/members/victim", headers=victim)
    assert declined.status_code == 204
    assert anonymous.post(f"/v1/projects/{THEIRS}/accept", headers=victim).status_code == 404


def test_nobody_accepts_for_others_or_with_a_token_of_less(
    anonymous: TestClient, sessions: Sessions, victim: Header, attacker: Header
) -> None:
    invite(anonymous, attacker, THEIRS)
    other = person(sessions, "other", {HERS: "admin"})
    reading = person(sessions, "victim", {HERS: "submitter"}, ("read",))
    accept = f"/v1/projects/{THEIRS}/accept"
    assert anonymous.post(accept, headers=other).status_code == 404
    invite(anonymous, attacker, THEIRS)  # `person` removes all memberships
    narrow = anonymous.post(
        "/v1/tokens", json={"name": "narrow", "project": HERS}, headers=victim
    ).json()["token"]
    for header in (reading, bearer(narrow)):
        assert anonymous.post(accept, headers=header).status_code == 403
        choice = {"usual_project": HERS}
        assert anonymous.patch("/v1/me", json=choice, headers=header).status_code == 403
    assert anonymous.post(accept, headers=victim).status_code == 200


def test_an_admin_of_the_server_adds_members_without_moving_what_they_submit(
    api: TestClient, sessions: Sessions
) -> None:
    victim = person(sessions, "victim", {HERS: "submitter"})
    added = api.put("/v1/projects/default/members/victim", json={"role": "submitter"})
    assert added.json()["accepted_at"] is not None
    assert submitted_to(api, victim) == HERS


def test_who_becomes_an_admin_of_the_server_submits_where_they_did(
    api: TestClient, sessions: Sessions
) -> None:
    victim = person(sessions, "victim", {HERS: "submitter"})
    api.patch("/v1/users/victim", json={"is_admin": True})
    assert submitted_to(api, victim, name="as-admin") == HERS
    api.patch("/v1/users/victim", json={"is_admin": False})
    assert submitted_to(api, victim, name="afterwards") == HERS


def test_both_sides_read_changes_of_members_in_the_audit_log(
    anonymous: TestClient, sessions: Sessions, victim: Header, attacker: Header
) -> None:
    invite(anonymous, attacker, THEIRS)
    anonymous.post(f"/v1/projects/{THEIRS}/accept", headers=victim)
    remove(anonymous, attacker, THEIRS)
    stranger = person(sessions, "stranger", {HERS: "admin"})
    expected = [
        ("attacker", "delete_member", f"{THEIRS}/victim"),
        ("victim", "accept_invitation", THEIRS),
        ("attacker", "put_member", f"{THEIRS}/victim"),
    ]
    for header in (victim, attacker):
        rows = anonymous.get("/v1/audit", headers=header).json()["data"]
        assert [(row["actor"], row["action"], row["object"]) for row in rows] == expected
    rows = anonymous.get("/v1/audit", headers=victim).json()["data"]
    assert [row["address"] for row in rows] == [None, "testclient", None]
    assert anonymous.get("/v1/audit", headers=stranger).json()["data"] == []
