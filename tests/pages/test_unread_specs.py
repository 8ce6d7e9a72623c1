"""Jobs with missing plug-ins: listed, shown, compared and exported.

Their plug-in is taken out of its registry, as if the package that brings it had been removed.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from html import unescape
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.pages.made_up_studies import a_base, a_study, ordinary
from tests.pages.reading import HERE, PAGE

from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.task import TASKS
from adaptlab_api.app import create_app
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings
from adaptlab_services.studies.study_views import StudyView

Sessions = sessionmaker[Session]
REGISTRIES: dict[str, Registry[type]] = {"method": METHODS, "task": TASKS, "family": FAMILIES}


@pytest.fixture(scope="module")
def study(shared_sessions: Sessions, shared_token: str) -> StudyView:
    """A measured study of two methods at one budget."""
    study = two_methods(shared_sessions, shared_token)
    run_all(shared_sessions, ordinary)
    return study


def two_methods(sessions: Sessions, token: str) -> StudyView:
    a_base(sessions)
    with sessions.begin() as session:
        admin = tokens.authenticate(session, token)
    return a_study(sessions, admin, name="done", methods=["lora", "frozen"], budgets=[64])


@pytest.fixture(scope="module")
def visitor(shared_settings: Settings, shared_token: str) -> Iterator[TestClient]:
    """Somebody who is signed in on pages and sends a token to the API."""
    with visiting(shared_settings, shared_token) as client:
        yield client


@contextmanager
def visiting(settings: Settings, token: str) -> Generator[TestClient]:
    with TestClient(create_app(settings)) as client:
        assert client.post("/login", data={"token": token}, headers=HERE).is_success
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def job_of(study: StudyView, method: str) -> UUID:
    (found,) = {job.id for cell in study.cells if cell.method == method for job in cell.jobs}
    return found


@pytest.fixture(scope="module")
def stored_spec(visitor: TestClient, study: StudyView) -> object:
    """The resolved spec of the LoRA job, while all plug-ins are there."""
    return visitor.get(f"/v1/jobs/{job_of(study, 'lora')}").json()["resolved_spec"]


def remove(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    registry = REGISTRIES[kind]
    kept = {other: registry.get(other) for other in registry.names() if other != name}
    monkeypatch.setattr(registry, "_entries", kept)


@pytest.fixture(
    params=[("method", "lora"), ("task", "sort_descending"), ("family", "minigpt")],
    ids=lambda pair: pair[0],
)
def missing_plug_in(
    study: StudyView, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    """The sentence about a plug-in that is removed for the test."""
    kind, name = request.param
    remove(monkeypatch, kind, name)
    return f"There is no {kind} named '{name}'."


def test_a_job_without_its_plug_in_is_shown_and_listed(
    visitor: TestClient, study: StudyView, stored_spec: object, missing_plug_in: str
) -> None:
    job = job_of(study, "lora")
    page = visitor.get(f"/jobs/{job}", headers=PAGE)
    assert page.status_code == 200
    assert missing_plug_in in unescape(page.text)
    assert visitor.get(f"/v1/jobs/{job}").json()["resolved_spec"] == stored_spec
    listed = visitor.get("/v1/jobs?view=full").json()["data"]
    assert str(job) in {entry["id"] for entry in listed}
    assert visitor.get("/", headers=PAGE).status_code == 200


def test_jobs_without_their_plug_in_are_compared_with_a_warning_and_without_a_diagnosis(
    visitor: TestClient, study: StudyView, missing_plug_in: str
) -> None:
    job, other = job_of(study, "lora"), job_of(study, "frozen")
    chosen = f"job={job}&job={other}"
    answer = visitor.get(f"/v1/comparison?{chosen}")
    assert answer.status_code == 200, answer.text
    (table,) = answer.json()["tables"]
    warnings = table["comparison"]["warnings"]
    (warning,) = [warning for warning in warnings if warning["kind"] == "unread"]
    assert missing_plug_in in warning["text"]
    assert {row["label"] for row in table["methods"]} >= set(warning["methods"])
    assert not [cause for cause in table["diagnoses"] if cause["label"] in warning["methods"]]
    page = visitor.get(f"/compare?jobs={job},{other}", headers=PAGE)
    assert missing_plug_in in unescape(page.text)
    lines = visitor.get(f"/v1/comparison?{chosen}&format=csv").text.splitlines()[1:]
    assert all(",unread," in line for line in lines), lines


@pytest.mark.long("every combination", but=1)
@pytest.mark.usefixtures("study")
def test_a_study_without_a_plug_in_is_compared_shown_and_bundled(
    visitor: TestClient, missing_plug_in: str
) -> None:
    compared = visitor.get("/v1/studies/done/comparison")
    assert missing_plug_in in compared.text, compared.text
    assert visitor.get("/studies/done", headers=PAGE).status_code == 200
    assert visitor.get("/v1/studies/done/bundle").status_code == 200
    assert visitor.get("/v1/results").status_code == 200


@pytest.mark.usefixtures("study")
def test_a_comparison_has_no_warning_once_the_plug_in_is_installed_again(
    visitor: TestClient, missing_plug_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing_plug_in in visitor.get("/v1/studies/done/comparison").text
    monkeypatch.undo()
    again = visitor.get("/v1/studies/done/comparison")
    assert again.status_code == 200
    assert missing_plug_in not in again.text


def test_a_kind_of_a_later_version_is_shown(
    settings: Settings, sessions: Sessions, token: str
) -> None:
    job = job_of(two_methods(sessions, token), "lora")
    with sessions.begin() as session:
        session.execute(
            text(
                """UPDATE jobs SET kind = 'distil', resolved_spec =
                jsonb_set(resolved_spec, '{kind}', '"distil"') WHERE id = :job"""
            ),
            {"job": job},
        )
    with visiting(settings, token) as visitor:
        page = visitor.get(f"/jobs/{job}", headers=PAGE)
        assert page.status_code == 200
        assert "This server cannot read the job's spec" in unescape(page.text)
        assert visitor.get(f"/v1/jobs/{job}").json()["resolved_spec"]["kind"] == "distil"
        listed = visitor.get("/v1/jobs?view=full").json()["data"]
        assert str(job) in {entry["id"] for entry in listed}
        assert visitor.get("/", headers=PAGE).status_code == 200
