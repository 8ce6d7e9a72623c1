"""Webhooks over HTTP and on their page: who may, which addresses, limits."""

import re
from ipaddress import IPv6Address, ip_network
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import entries, person
from tests.ledgers import BY_THE_API, ledger_by
from tests.making import a_claim, a_job, a_pretrain_spec, a_principal
from tests.receiving import SECRET, a_webhook, open_to_loopback, outcomes, receiving
from tests.watching import until

from adaptlab_api.doors.gate import SESSION_COOKIE
from adaptlab_db.tables import Webhook, WebhookDelivery
from adaptlab_services.limits.addresses import AddressRefused, AddressRules
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings
from adaptlab_services.webhooks.webhooks import MOST_WEBHOOKS

Sessions = sessionmaker[Session]
URL = "https://hooks.example.org/lab"
SAME_SITE = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
FORM = {"url": URL, "event": ["job.ended"], "format": "json", "project": "default"}


@pytest.fixture
def webhook(api: TestClient) -> dict[str, Any]:
    """A webhook of `default`, with its secret."""
    made = api.post("/v1/webhooks", json={"url": URL})
    assert made.status_code == 201, made.text
    return made.json()


def test_what_a_worker_by_the_api_did_is_sent_where_no_other_worker_is(
    sessions: Sessions, settings: Settings
) -> None:
    often = open_to_loopback(settings.model_copy(update={"sweep_seconds": 0.1}))
    with receiving() as receiver, ledger_by(BY_THE_API, sessions, often) as ledger:
        with sessions.begin() as session:
            a_webhook(session, receiver.url, "job.ended")
            job_id = a_job(session, a_pretrain_spec(seeds=1))
        ledger.fail(a_claim(ledger), "diverged", "The loss is not finite", retry=False)
        until(lambda: outcomes(sessions) == [("job.ended", "delivered", 1)], "the message")
        (received,) = receiver.received
        assert received.is_signed_with(SECRET)
        assert received.message["data"]["id"] == str(job_id)
        assert received.message["data"]["state"] == "failed"


def test_the_secret_is_shown_once(api: TestClient, webhook: dict[str, Any]) -> None:
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", webhook["secret"])
    assert webhook["events"] == ["study.ended", "worker.lost"]
    place = f"/v1/webhooks/{webhook['id']}"
    for path in ("/v1/webhooks", place, f"{place}/deliveries", "/webhooks", "/v1/audit"):
        answer = api.get(path)
        assert answer.status_code == 200
        assert webhook["secret"] not in answer.text
    assert api.get(place).json() == {k: v for k, v in webhook.items() if k != "secret"}


def test_a_webhook_is_changed_tested_and_deleted(
    api: TestClient, webhook: dict[str, Any], sessions: Sessions
) -> None:
    place = f"/v1/webhooks/{webhook['id']}"
    tested = api.post(f"{place}/test")
    assert (tested.status_code, tested.json()["state"]) == (202, "pending")
    assert api.get(place).json()["last_delivery"] == tested.json()
    assert api.get(f"{place}/deliveries").json()["data"] == [tested.json()]
    changed = api.patch(place, json={"events": ["job.ended"], "enabled": False}).json()
    assert (changed["events"], changed["enabled"], changed["url"]) == (["job.ended"], False, URL)
    assert api.post(f"{place}/test").status_code == 409
    assert api.delete(place).status_code == 204
    assert api.get(place).status_code == 404
    with sessions() as session:
        assert session.scalars(select(WebhookDelivery.id)).all() == []


def test_changes_are_in_the_audit_log(api: TestClient, webhook: dict[str, Any]) -> None:
    place = f"/v1/webhooks/{webhook['id']}"
    api.patch(place, json={"enabled": False})
    api.delete(place)
    noted = [(entry["action"], entry["object"]) for entry in entries(api)][:3]
    names = ("delete_webhook", "update_webhook", "create_webhook")
    assert noted == [(name, str(webhook["id"])) for name in names]


def test_deliveries_come_in_pages(api: TestClient, webhook: dict[str, Any]) -> None:
    place = f"/v1/webhooks/{webhook['id']}"
    made = [api.post(f"{place}/test").json()["id"] for _ in range(3)]
    first = api.get(f"{place}/deliveries?page_size=2").json()
    token = first["next_page_token"]
    second = api.get(f"{place}/deliveries", params={"page_size": 2, "page_token": token}).json()
    assert [one["id"] for one in (*first["data"], *second["data"])] == made[::-1]
    assert second["next_page_token"] is None
    assert api.get(f"/v1/webhooks?page_token={token}").status_code == 422


@pytest.mark.parametrize(
    ("role", "expected"), [("reader", 403), ("submitter", 403), ("operator", 200), ("admin", 200)]
)
def test_only_operators_of_a_project_have_its_webhooks(
    api: TestClient, webhook: dict[str, Any], sessions: Sessions, role: str, expected: int
) -> None:
    """Readers could read secrets in the addresses of receivers."""
    header = person(sessions, "asker", {"default": role, "own": "operator"})
    place = f"/v1/webhooks/{webhook['id']}"
    listed = api.get("/v1/webhooks", headers=header).json()["data"]
    assert [one["id"] for one in listed] == ([webhook["id"]] if expected == 200 else [])
    for path in (place, f"{place}/deliveries"):
        assert api.get(path, headers=header).status_code == expected
    assert api.patch(place, json={"enabled": True}, headers=header).status_code == expected
    made = api.post("/v1/webhooks?project=default", json={"url": URL}, headers=header)
    assert made.status_code == (201 if expected == 200 else expected)
    assert (api.delete(place, headers=header).status_code == 204) is (expected == 200)


def test_webhooks_of_other_projects_are_not_there(
    api: TestClient, webhook: dict[str, Any], sessions: Sessions
) -> None:
    header = person(sessions, "stranger", {"own": "admin"})
    place = f"/v1/webhooks/{webhook['id']}"
    for method, path in (
        ("GET", place), ("PATCH", place), ("DELETE", place),
        ("GET", f"{place}/deliveries"), ("POST", f"{place}/test"),
    ):  # fmt: skip
        body: Any = {} if method == "PATCH" else None
        assert api.request(method, path, headers=header, json=body).status_code == 404
    assert api.get("/v1/webhooks", headers=header).json()["data"] == []
    assert api.get(place).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "ftp://hooks.example.org/",
        "//hooks.example.org/",
        "https:///path",
        "https://user:password@hooks.example.org/",
        "https://hooks.example.org/#part",
        "https://hooks.example.org/a b",
        "https://hooks.example.org\\@127.0.0.1/",
        "https://hooks.example.org:99999/",
        "https://hööks.example.org/",
        "https://127.0.0.1/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fe80::1]/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://0/",
    ],
)
def test_addresses_that_no_message_may_go_to_are_refused(shared_api: TestClient, url: str) -> None:
    answer = shared_api.post("/v1/webhooks", json={"url": url})
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/url", "refused_address")


@pytest.mark.parametrize(
    "body",
    [{}, {"url": ""}, {"url": "https://a.example/" + "x" * 2000}, {"url": URL, "events": []},
     {"url": URL, "events": ["job.begun"]}, {"url": URL, "format": "xml"},
     {"url": URL, "secret": "mine"}],
)  # fmt: skip
def test_what_is_no_webhook_is_refused(shared_api: TestClient, body: dict[str, Any]) -> None:
    answer = shared_api.post("/v1/webhooks", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_change_to_a_refused_address_changes_nothing(
    api: TestClient, webhook: dict[str, Any]
) -> None:
    place = f"/v1/webhooks/{webhook['id']}"
    body = {"url": "https://127.0.0.1/", "enabled": False}
    assert api.patch(place, json=body).status_code == 422
    after = api.get(place).json()
    assert (after["url"], after["enabled"]) == (URL, True)


def test_an_operator_can_allow_networks_and_http() -> None:
    rules = AddressRules((ip_network("10.1.0.0/16"), ip_network("fd00::/8")), allows_http=True)
    for url in ("http://10.1.2.3/", "http://[fd00::1]/", "http://[::ffff:10.1.2.3]/"):
        rules.check_url(url)
    assert not rules.allows(IPv6Address("fc00::1"))
    with pytest.raises(AddressRefused, match="not a public address"):
        rules.check_url("http://10.2.0.1/")


def test_a_project_has_a_limited_number_of_webhooks(api: TestClient) -> None:
    for _ in range(MOST_WEBHOOKS):
        assert api.post("/v1/webhooks", json={"url": URL}).status_code == 201
    refused = api.post("/v1/webhooks", json={"url": URL})
    assert refused.status_code == 409
    assert f"{MOST_WEBHOOKS} webhooks" in refused.json()["detail"]


@pytest.fixture
def browser(anonymous: TestClient, sessions: Sessions) -> TestClient:
    """An admin who signed in with a browser."""
    with sessions.begin() as session:
        cookie = tokens.open_browser_session(session, a_principal(session))
    anonymous.cookies.set(SESSION_COOKIE, cookie)
    anonymous.headers.update(SAME_SITE)
    return anonymous


def test_the_page_creates_tests_switches_and_deletes(
    browser: TestClient, sessions: Sessions
) -> None:
    assert "No webhooks" in browser.get("/webhooks").text
    made = browser.post("/webhooks", data=FORM)
    assert made.status_code == 201
    with sessions() as session:
        (webhook,) = session.scalars(select(Webhook)).all()
    assert made.text.count(webhook.secret) == 1
    assert webhook.events == ["job.ended"]
    place = f"/webhooks/{webhook.id}"
    assert browser.post(f"{place}/test").headers["location"] == "/webhooks"
    assert "webhook.test" in browser.get("/webhooks").text
    assert browser.post(f"{place}/enabled", data={"enabled": "no"}).status_code == 303
    assert 'name="enabled" value="yes"' in browser.get("/webhooks").text
    assert browser.post(f"{place}/delete").status_code == 303


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"url": "https://10.0.0.1/"}, 422, "Address: 10.0.0.1 is not a public address"),
        ({"url": "http://10.0.0.1/"}, 422, "_WEBHOOK_HTTP=allowed and ADAPTLAB_WEBHOOK_NETWORKS="),
        ({"url": ""}, 422, "Address: "),
        ({"event": []}, 422, "Events: "),
        ({"project": "elsewhere"}, 404, "Project: you cannot see"),
    ],
)
def test_the_form_says_what_is_wrong_and_keeps_what_was_typed(
    browser: TestClient, changes: dict[str, Any], status: int, said: str
) -> None:
    answer = browser.post("/webhooks", data=FORM | changes)
    assert answer.status_code == status
    assert said in answer.text
    assert f'value="{(FORM | changes)["url"]}"' in answer.text
    assert browser.get("/v1/webhooks").json()["data"] == []
