"""Short ids: the first or last characters stand for the whole id."""

from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, a_measured_study, as_known, run_all
from tests.making import a_base_model

from adaptlab_db.tables import Job
from adaptlab_services import short_ids

Sessions = sessionmaker[Session]


@pytest.fixture
def jobs(api: TestClient, sessions: Sessions) -> list[str]:
    """The ids of the jobs of a study that has been measured."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    answer = api.post("/v1/studies", json=a_measured_study())
    assert answer.status_code == 201, answer.text
    run_all(sessions, as_known)
    return [job["id"] for job in api.get("/v1/jobs?filter=kind=adapt").json()["data"]]


@pytest.mark.long("every door for every role", but=2)
@pytest.mark.parametrize("part", [slice(8), slice(-8, None), slice(12), slice(-17, None)])
@pytest.mark.parametrize("below", ["", "/evaluations", "/events", "/attention", "/metrics"])
def test_a_part_of_an_id_is_enough(
    api: TestClient, jobs: list[str], part: slice, below: str
) -> None:
    job = jobs[0]
    assert (
        api.get(f"/v1/jobs/{job[part]}{below}").json() == api.get(f"/v1/jobs/{job}{below}").json()
    )


def test_jobs_are_compared_by_their_short_ids(api: TestClient, jobs: list[str]) -> None:
    whole = api.get("/v1/comparison", params={"job": jobs[:2]})
    short = api.get("/v1/comparison", params={"job": [job[-8:] for job in jobs[:2]]})
    assert whole.status_code == 200, whole.text
    assert short.json() == whole.json()
    of_job = api.get("/v1/studies", params={"job": jobs[0][-8:]}).json()["data"]
    assert [study["name"] for study in of_job] == ["small"]


def test_a_study_is_known_by_a_part_of_its_id_too(api: TestClient, jobs: list[str]) -> None:
    study = api.get("/v1/studies/small").json()
    for part in (study["id"][:8], study["id"][-8:]):
        assert api.get(f"/v1/studies/{part}").json() == study


def test_an_ambiguous_id_lists_the_candidates(
    api: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    ids = [
        UUID("abcd0000-1111-4222-8333-00000000aaaa"),
        UUID("abcd0000-1111-4222-8333-00000000bbbb"),
    ]
    with sessions.begin() as session:
        spare = session.scalars(select(Job).where(Job.id.in_(map(UUID, jobs[:2])))).all()
        values = {c.key: getattr(spare[0], c.key) for c in Job.__mapper__.column_attrs}
        for one in ids:
            session.add(Job(**(values | {"id": one})))
    answer = api.get("/v1/jobs/abcd0000")
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["code"] == "ambiguous_id"
    assert fault["nearest"] == [str(one) for one in ids]
    assert api.get("/v1/jobs/0000aaaa").json()["id"] == str(ids[0])


@pytest.mark.long("every door for every role", but=1)
@pytest.mark.parametrize("text", ["abc", "nobody", "00000000", "%25%25%25%25", "____"])
def test_what_is_no_id_of_a_job_is_not_found(api: TestClient, jobs: list[str], text: str) -> None:
    assert api.get(f"/v1/jobs/{text}").status_code == 404


def test_an_id_in_full_asks_the_database_for_nothing() -> None:
    whole = "3f0c5e6a-9d1b-4a7e-8a53-0c2f6f1f7b11"
    assert short_ids.in_full(whole) == UUID(whole)
    assert short_ids.in_full(whole[:8]) is None
