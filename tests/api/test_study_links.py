"""Links that show one study to people without an account."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.api.people import entries, person
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_study_document

from adaptlab_api.doors.gate import SESSION_COOKIE
from adaptlab_db import visibility
from adaptlab_db.tables import Job, Study, StudyJob, StudyLink
from adaptlab_services.people.access import look
from adaptlab_services.settings import Settings
from adaptlab_services.studies import study_links

Sessions = sessionmaker[Session]
Header = dict[str, str]
PAGE = {"Accept": "text/html"}
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


@pytest.fixture
def admin(sessions: Sessions) -> Header:
    """An admin of the project alone."""
    return person(sessions, "grace", {"atelier": "admin"})


@pytest.fixture
def study(anonymous: TestClient, sessions: Sessions, admin: Header) -> Any:
    """A study with scores, another one with the same jobs, and one elsewhere."""
    elsewhere = person(sessions, "stranger", {"elsewhere": "admin"})
    made: Any = None
    for project, name, header in (
        ("elsewhere", "of-strangers", elsewhere),
        ("atelier", "private", admin),
        ("atelier", "small", admin),
    ):
        with sessions.begin() as session:
            if name != "small":
                a_base_model(session, "tiny", owner="grace", project=project)
        document = a_study_document(base_models=["tiny"], name=name, methods=["lora", "ia3"])
        document["labels"] = {"secret-note": name}
        query = {"project": project}
        made = anonymous.post("/v1/studies", json=document, params=query, headers=header)
        assert made.status_code == 201, made.text
    run_all(sessions, lambda _: Run(right=300, deviation=0.4))
    return made.json()


def create(client: TestClient, study: Any, header: Header, **more: Any) -> Any:
    body = {"name": "reviewers", **more}
    return client.post(f"/v1/studies/{study['id']}/links", json=body, headers=header)


@pytest.fixture
def link(anonymous: TestClient, study: Any, admin: Header) -> Any:
    answer = create(anonymous, study, admin)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_link_shows_the_study_without_an_account(anonymous: TestClient, link: Any) -> None:
    answer = anonymous.get(link["path"], headers=PAGE)
    assert answer.status_code == 200
    assert "LoRA" in answer.text
    assert "75.0" in answer.text
    assert answer.headers["x-robots-tag"].startswith("noindex")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "noindex" in answer.text


def test_it_shows_no_ids_people_labels_or_addresses(
    anonymous: TestClient, link: Any, admin: Header
) -> None:
    file = anonymous.get(f"{link['path']}/results.csv")
    assert file.text.startswith("method,")
    assert file.headers["referrer-policy"] == "no-referrer"
    page = anonymous.get(link["path"], headers=PAGE).text
    for shown in (page, file.text):
        assert not IDS.search(shown)
        for private in ("grace", "atelier", "elsewhere", "private", "secret-note", "stranger"):
            assert not re.search(rf"\b{private}\b", shown), private
    addresses = set(re.findall(r'(?:href|src|action|data-source)="(/[^"]*)"', page))
    maps = (f"maps/0-{budget}-{number}.svg" for budget in (0, 1) for number in (0, 1))
    assert {one for one in addresses if not one.startswith("/static/")} == {
        f"{link['path']}/{one}" for one in ("results.csv", *maps)
    }


def test_it_shows_the_maps_of_its_study(
    anonymous: TestClient, study: Any, link: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_study = {one for cell in study["cells"] for job in cell["jobs"] for one in [job["id"]]}
    drawn: list[tuple[str, bool]] = []

    def small_map(_: Session, job: UUID, source: str, changed_by: UUID) -> str:
        drawn.append((source, {str(job), str(changed_by)} <= of_study))
        return "<svg/>"

    monkeypatch.setattr("adaptlab_api.pages.study_links.page.small_map", small_map)
    for number in (0, 1):
        answer = anonymous.get(f"{link['path']}/maps/0-0-{number}.svg")
        assert (answer.status_code, answer.text) == (200, "<svg/>")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert drawn == [("base", True), ("adapted", True)]
    for absent in ("0-0-2", "0-2-0", "1-0-0", "99999999999-0-0", "0-0-x"):
        refusal = anonymous.get(f"{link['path']}/maps/{absent}.svg")
        assert refusal.status_code in (404, 422), absent


def test_its_session_sees_one_study_of_all(sessions: Sessions, study: Any, link: Any) -> None:
    guarded = visibility.guarded(sessions)
    with guarded.begin() as session:
        access = study_links.opened(session, link["path"].removeprefix("/shared/"))
    with sessions() as session:
        of_study = select(StudyJob.job_id).where(StudyJob.study_id == study["id"])
        jobs = set(session.scalars(of_study))
    with look(guarded, access) as session:
        assert [str(one) for one in session.scalars(select(Study.id))] == [study["id"]]
        assert {str(one) for one in session.scalars(select(StudyJob.study_id))} == {study["id"]}
        assert set(session.scalars(select(Job.id))) >= jobs
        with_base = len(jobs) + 1
        assert session.scalar(select(func.count()).select_from(Job)) in (len(jobs), with_base)


def test_the_secret_opens_no_other_address(anonymous: TestClient, link: Any) -> None:
    secret = link["path"].removeprefix("/shared/")
    anonymous.cookies.set(SESSION_COOKIE, secret)
    header = {"Authorization": f"Bearer {secret}"}
    tried = 0
    for route in anonymous.app.routes:  # type: ignore[attr-defined]
        if route.path.startswith(("/static/", "/shared/")):
            continue
        path = re.sub(r"\{\w+(:path)?\}", "1", route.path)
        if path not in ("/healthz", "/readyz", "/login", "/logout"):
            for sent in ({}, header):
                answer = anonymous.get(path, headers=sent)
                assert answer.status_code in (401, 429), path
                tried += 1
    assert tried > 200


def test_it_only_reads(anonymous: TestClient, link: Any) -> None:
    for path in (link["path"], f"{link['path']}/results.csv"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert anonymous.request(method, path).status_code == 405, method
    assert anonymous.get(link["path"]).status_code == 200


def test_nothing_else_is_below_it(anonymous: TestClient, study: Any, link: Any) -> None:
    below = ("/", "/jobs", f"/studies/{study['id']}", "/../jobs", "/%2e%2e/jobs", "/results.json")
    for path in below:
        assert anonymous.get(link["path"] + path).status_code in (401, 404), path
    assert anonymous.get(f"{link['path']}?table=7").status_code == 404
    for query in ("?study=private", "?project=elsewhere", "?filter=kind=pretrain"):
        answer = anonymous.get(link["path"] + query, headers=PAGE)
        assert "<bdi>small</bdi>" in answer.text


def test_revoked_expired_mistyped_and_deleted_links_are_alike(
    anonymous: TestClient, sessions: Sessions, study: Any, link: Any, admin: Header
) -> None:
    expired, last = (create(anonymous, study, admin).json() for _ in range(2))
    with sessions.begin() as session:
        past = datetime.now(UTC) - timedelta(seconds=1)
        row = update(StudyLink).where(StudyLink.id == expired["id"])
        session.execute(row.values(expires_at=past))
    place = f"/v1/studies/{study['id']}/links"
    revoked = anonymous.delete(f"{place}/{link['id']}", headers=admin)
    assert revoked.json()["state"] == "revoked"
    states = [one["state"] for one in anonymous.get(place, headers=admin).json()["data"]]
    assert states == ["valid", "expired", "revoked"]
    closed = [link["path"], expired["path"], last["path"][:-1], "/shared/x", "/shared/%00"]
    answers = [anonymous.get(path) for path in closed[:-1]]
    anonymous.delete(f"/v1/studies/{study['id']}", headers=admin)
    answers.append(anonymous.get(last["path"]))
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.json()["detail"] for answer in answers}) == 1


def test_only_an_admin_of_its_project_has_a_say(
    anonymous: TestClient, sessions: Sessions, study: Any, link: Any, admin: Header
) -> None:
    others = (
        (person(sessions, "op", {"atelier": "operator"}), 403),
        (person(sessions, "reader", {"atelier": "reader"}), 403),
        (person(sessions, "weak", {"atelier": "admin"}, ("read", "submit")), 403),
        (person(sessions, "neighbour", {"elsewhere": "admin"}), 404),
    )
    place = f"/v1/studies/{study['id']}/links"
    for header, expected in others:
        assert create(anonymous, study, header).status_code == expected
        assert anonymous.get(place, headers=header).status_code == expected
        assert anonymous.delete(f"{place}/{link['id']}", headers=header).status_code == expected
    other = anonymous.get("/v1/studies/private", headers=admin).json()["id"]
    wrong = f"/v1/studies/{other}/links/{link['id']}"
    assert anonymous.delete(wrong, headers=admin).status_code == 404
    assert anonymous.get(link["path"]).status_code == 200


def test_the_secret_is_kept_by_nobody(
    api: TestClient,
    anonymous: TestClient,
    sessions: Sessions,
    link: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = link["path"].removeprefix("/shared/")
    with caplog.at_level("DEBUG"):
        anonymous.get(link["path"])
        anonymous.get(link["path"][:-3])
    ours = [str(vars(one)) for one in caplog.records if one.name.startswith("adaptlab")]
    assert ours
    assert secret[:40] not in "".join(ours)
    (entry,) = entries(api, "action=create_study_link")
    assert (entry["object"], entry["details"]["study"]) == (str(link["id"]), "small")
    assert secret[:40] not in str(entries(api))
    with sessions() as session:
        row = session.get_one(StudyLink, link["id"])
        assert secret.encode() not in row.digest
        assert len(row.digest) == 32


@pytest.fixture
def few(settings: Settings, token: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A server with few wrong tokens and reads, whose buckets never fill."""
    now = round(time.time() * 1000)
    monkeypatch.setattr("adaptlab_api.limits.buckets._now", lambda: now)
    limits = {"wrong_tokens_per_minute": 2, "read_rate": 1, "read_burst": 8}
    with a_server(settings, token, **limits) as server:
        server.headers.pop("authorization")
        yield server


def test_guesses_are_limited_and_a_valid_link_does_not_wait_for_them(
    few: TestClient, link: Any
) -> None:
    statuses = [few.get(f"/shared/guess-{n}").status_code for n in range(4)]
    assert statuses == [404, 404, 429, 429]
    assert few.get(link["path"]).status_code == 200
    statuses = [few.get(link["path"]).status_code for _ in range(9)]
    assert statuses[-1] == 429


def test_an_admin_does_it_on_the_page(anonymous: TestClient, study: Any, admin: Header) -> None:
    place = f"/studies/{study['id']}"
    headers = admin | PAGE
    assert f'href="{place}/links"' in anonymous.get(place, headers=headers).text
    refused = anonymous.post(f"{place}/links", data={"name": "x", "days": "0"}, headers=headers)
    assert (refused.status_code, "Days:" in refused.text) == (422, True)
    made = anonymous.post(f"{place}/links", data={"name": "x", "forever": "1"}, headers=headers)
    path = re.search(r"/shared/al_\w+", made.text)
    assert path is not None
    assert anonymous.get(path[0]).status_code == 200
    number = re.search(rf"{place}/links/(\d+)/revoke", made.text)
    assert number is not None
    anonymous.post(number[0], headers=headers)
    assert anonymous.get(path[0]).status_code == 404
