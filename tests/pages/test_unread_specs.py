"""Jobs whose plug-ins are not installed: listed, shown, compared and exported, and what lacks said.

Their plug-in is taken out of its registry, as if the package that brings it had been removed.
"""

from collections.abc import Iterator
from html import unescape
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.pages.made_up_studies import a_base, a_study, ordinary

from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.task import TASKS
from adaptlab_api.app import create_app
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings
from adaptlab_services.studies.study_views import StudyView

Sessions = sessionmaker[Session]
HERE = {"Sec-Fetch-Site": "same-origin"}
REGISTRIES: dict[str, Registry[type]] = {"method": METHODS, "task": TASKS, "family": FAMILIES}


@pytest.fixture
def queued(sessions: Sessions, token: str) -> StudyView:
    """Two methods at one budget, not yet run."""
    a_base(sessions)
    with sessions.begin() as session:
        admin = tokens.authenticate(session, token)
    return a_study(sessions, admin, name="done", methods=["lora", "frozen"], budgets=[64])


@pytest.fixture
def study(sessions: Sessions, queued: StudyView) -> StudyView:
    """The same, measured."""
    run_all(sessions, ordinary)
    return queued


@pytest.fixture
def visitor(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody who is signed in on pages and sends a token to the API."""
    with TestClient(create_app(settings)) as made:
        assert made.post("/login", data={"token": token}, headers=HERE).is_success
        made.headers["Authorization"] = f"Bearer {token}"
        yield made


def job_of(study: StudyView, method: str) -> UUID:
    (found,) = {job.id for cell in study.cells if cell.method == method for job in cell.jobs}
    return found


def removed(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    registry = REGISTRIES[kind]
    names = {one: registry.get(one) for one in registry.names() if one != name}
    monkeypatch.setattr(registry, "_entries", names)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("method", "lora"), ("task", "sort_descending"), ("family", "minigpt")],
)
def test_a_plug_in_that_is_gone_is_named_and_nothing_fails(
    visitor: TestClient,
    study: StudyView,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    name: str,
) -> None:
    job, other = job_of(study, "lora"), job_of(study, "frozen")
    before = visitor.get(f"/v1/jobs/{job}").json()
    removed(monkeypatch, kind, name)
    said = f"There is no {kind} named '{name}'."

    page = visitor.get(f"/jobs/{job}", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert said in unescape(page.text)
    assert visitor.get(f"/v1/jobs/{job}").json()["resolved_spec"] == before["resolved_spec"]

    listed = visitor.get("/v1/jobs?view=full").json()["data"]
    assert str(job) in {one["id"] for one in listed}
    assert visitor.get("/", headers={"Accept": "text/html"}).status_code == 200

    chosen = f"job={job}&job={other}"
    found = visitor.get(f"/v1/comparison?{chosen}")
    assert found.status_code == 200, found.text
    (table,) = found.json()["tables"]
    (warning,) = [one for one in table["comparison"]["warnings"] if one["kind"] == "unread"]
    assert said in warning["text"]
    assert {row["label"] for row in table["methods"]} >= set(warning["methods"])
    assert not [one for one in table["diagnoses"] if one["label"] in warning["methods"]]
    shown = visitor.get(f"/compare?jobs={job},{other}", headers={"Accept": "text/html"})
    assert said in unescape(shown.text)
    lines = visitor.get(f"/v1/comparison?{chosen}&format=csv").text.splitlines()[1:]
    assert all(",unread," in line for line in lines), lines

    ours = visitor.get("/v1/studies/done/comparison")
    assert said in ours.text, ours.text
    assert visitor.get("/studies/done", headers={"Accept": "text/html"}).status_code == 200
    assert visitor.get("/v1/studies/done/bundle").status_code == 200
    assert visitor.get("/v1/results").status_code == 200


def test_a_kind_of_a_later_version_is_shown(
    visitor: TestClient, queued: StudyView, sessions: Sessions
) -> None:
    job = job_of(queued, "lora")
    with sessions.begin() as session:
        session.execute(
            text(
                """UPDATE jobs SET kind = 'distil', resolved_spec =
                jsonb_set(resolved_spec, '{kind}', '"distil"') WHERE id = :job"""
            ),
            {"job": job},
        )
    page = visitor.get(f"/jobs/{job}", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "This server cannot read the job's spec" in unescape(page.text)
    assert visitor.get(f"/v1/jobs/{job}").json()["resolved_spec"]["kind"] == "distil"
    listed = visitor.get("/v1/jobs?view=full").json()["data"]
    assert str(job) in {one["id"] for one in listed}
    assert visitor.get("/", headers={"Accept": "text/html"}).status_code == 200
