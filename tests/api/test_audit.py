"""Changes in the audit log, with rights and users; counted refusals."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import bearer, entries, somebody
from tests.making import a_user

from adaptlab_api.app import create_app
from adaptlab_api.limits.refusals import MINUTE, REFUSALS_A_MINUTE, UNKNOWN_A_MINUTE, Refusals
from adaptlab_services.people.audit import FAILED_AUTHENTICATION, REFUSALS_LEFT_OUT, Entry
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
ADA = Principal(user_id=1, name="ada", token_id=1, scopes=("read",))
BEN = Principal(user_id=2, name="ben", token_id=2, scopes=("read",))
NOWHERE = "00000000-0000-0000-0000-000000000000"


def latest(api: TestClient, action: str) -> dict[str, Any]:
    return entries(api, f"action={action}")[0]


def test_a_role_that_is_given_changed_and_taken(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_user(session, "bert")
    api.post("/v1/projects", json={"name": "vision"})
    place = "/v1/projects/vision/members/bert"
    for role, before in (("reader", None), ("admin", "reader")):
        api.put(place, json={"role": role})
        told = latest(api, "put_member")
        assert told["object"] == "vision/bert"
        assert told["details"] == {"role": {"before": before, "after": role}}
    api.delete(place)
    told = latest(api, "delete_member")
    assert told["details"] == {"role": {"before": "admin", "after": None}}
    assert told["address"] == "testclient"


def test_the_rights_of_a_token_that_is_made_and_revoked(
    api: TestClient, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_user(session, "bert")
    asked = {"name": "x", "user": "bert", "scopes": ["read"], "project": "default"}
    made = api.post("/v1/tokens", json=asked).json()
    rights = {"user": "bert", "scopes": ["read"], "project": "default"}
    told = latest(api, "create_token")
    assert told["object"] == str(made["id"])
    ends = told["details"].pop("expires_at")
    assert ends[:16] == made["expires_at"][:16]
    assert told["details"] == rights | {"expires_in_days": 90}
    api.post(f"/v1/tokens/{made['id']}/revoke")
    assert latest(api, "revoke_token")["details"] == rights


def test_what_a_user_was_and_is(api: TestClient) -> None:
    api.post("/v1/users", json={"name": "bert", "is_admin": True})
    assert latest(api, "create_user")["details"] == {"is_admin": True}
    api.patch("/v1/users/bert", json={"is_admin": False})
    told = latest(api, "update_user")
    assert told["details"] == {"is_admin": {"before": True, "after": False}}
    api.patch("/v1/users/bert", json={"is_active": False})
    told = latest(api, "update_user")
    assert told["details"] == {"is_active": {"before": True, "after": False}}


def test_a_refusal_says_what_was_asked_for(api: TestClient, sessions: Sessions) -> None:
    header = somebody(sessions, "eve", "operator", "read")
    asked = {"name": "more", "scopes": ["admin"]}
    assert api.post("/v1/tokens", json=asked, headers=header).status_code == 403
    told = latest(api, "create_token")
    assert (told["actor"], told["status"]) == ("eve", 403)
    assert told["details"]["scopes"] == ["admin"]
    place = "/v1/projects/default/members/eve"
    assert api.put(place, json={"role": "admin"}, headers=header).status_code == 403
    told = latest(api, "put_member")
    assert told["details"] == {"role": {"after": "admin"}}


def test_who_is_refused_ten_thousand_times_is_a_few_entries_and_a_number(
    settings: Settings, sessions: Sessions, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted when the minute is over, at the latest when the server stops."""
    monkeypatch.setattr(
        "adaptlab_api.limits.refusals.MINUTE", 3600.0
    )  # a slow machine may need several
    reading = somebody(sessions, "eve", "reader")
    with TestClient(create_app(settings), headers=bearer(token)) as api:
        path = f"/v1/jobs/{NOWHERE}/cancel"
        refused = [api.post(path, headers=reading) for _ in range(REFUSALS_A_MINUTE + 30)]
        assert {one.status_code for one in refused} == {403}
        assert "x-request-id" in refused[0].headers
        wrong = bearer("al_wrong")
        for _ in range(REFUSALS_A_MINUTE + 7):
            assert api.get("/v1/me", headers=wrong).status_code == 401
    with TestClient(create_app(settings), headers=bearer(token)) as api:
        told = entries(api)
    of_eve = [one for one in told if one["actor"] == "eve"]
    unknown = [one for one in told if one["actor"] is None]
    for found, left_out, action, status in (
        (of_eve, 30, "cancel_job", 403),
        (unknown, 7, FAILED_AUTHENTICATION, 401),
    ):
        summed, *each = found
        assert summed["action"] == REFUSALS_LEFT_OUT
        assert summed["details"] == {"count": left_out, "last_action": action}
        assert summed["status"] == status
        assert summed["address"] == "testclient"
        assert [one["action"] for one in each] == [action] * REFUSALS_A_MINUTE


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def refusals(clock: Clock) -> Refusals:
    return Refusals(clock)


def refusal(who: Principal | None, address: str = "10.0.0.1") -> Entry:
    return Entry(who, address, "cancel_job", None, 401 if who is None else 403, str(uuid4()))


def written(refusals: Refusals, entry: Entry, times: int) -> int:
    return sum(len(refusals.due(replace(entry, request_id=str(uuid4())))) for _ in range(times))


def test_each_person_has_a_ration_and_so_has_each_address(refusals: Refusals) -> None:
    for entry in (refusal(ADA), refusal(BEN), refusal(None), refusal(None, "10.0.0.2")):
        assert written(refusals, entry, 10_000) == REFUSALS_A_MINUTE
    network = "2001:db8:1:2::"
    addresses = [refusal(None, f"{network}{host:x}") for host in range(1, 100)]
    assert sum(written(refusals, one, 3) for one in addresses) == REFUSALS_A_MINUTE


def test_many_addresses_have_one_ration_besides(refusals: Refusals) -> None:
    many = [refusal(None, f"10.1.{number}.1") for number in range(250)]
    assert sum(written(refusals, one, 3) for one in many) == UNKNOWN_A_MINUTE
    assert written(refusals, refusal(ADA), 1) == 1
    left_out = [entry.details["count"] for entry in refusals.rest() if entry.details]
    assert sum(map(int, map(str, left_out))) == 250 * 3 - UNKNOWN_A_MINUTE


def test_a_minute_that_is_over_is_summed_up_once(refusals: Refusals, clock: Clock) -> None:
    written(refusals, refusal(ADA), REFUSALS_A_MINUTE + 5)
    clock.now = MINUTE
    summed, own = refusals.due(refusal(BEN))  # anybody's refusal brings it to light
    assert summed.details == {"count": 5, "last_action": "cancel_job"}
    assert (summed.principal, summed.action) == (ADA, REFUSALS_LEFT_OUT)
    assert own.principal == BEN
    assert written(refusals, refusal(ADA), REFUSALS_A_MINUTE) == REFUSALS_A_MINUTE
    assert refusals.rest() == []


def test_thousands_of_addresses_are_one_ration_and_one_sum(
    refusals: Refusals, clock: Clock
) -> None:
    """A sum per address would write the entries that the ration prevents."""
    each = [refusal(None, f"10.{number // 250}.{number % 250}.1") for number in range(5000)]
    assert sum(written(refusals, one, 1) for one in each) == UNKNOWN_A_MINUTE
    assert len(refusals._minutes) <= 1000
    clock.now = MINUTE
    summed, own = refusals.due(refusal(ADA))
    assert (summed.principal, summed.details) == (
        None, {"count": 5000 - UNKNOWN_A_MINUTE, "last_action": "cancel_job"},
    )  # fmt: skip
    assert own.principal == ADA
    assert refusals.rest() == []
