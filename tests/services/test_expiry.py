"""What a server removes by itself, and what it never removes."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_project, a_user

from adaptlab_db.tables import (
    Job,
    JobMetric,
    MetricPointRow,
    Study,
    StudyJob,
    Table,
    WebhookEvent,
    Worker,
)
from adaptlab_services.lifecycle import workers
from adaptlab_services.server import expiry
from adaptlab_services.server.expiry import Expired, ExpiryPolicy, expire

Sessions = sessionmaker[Session]
OLD = text("clock_timestamp() - interval '31 days'")
POLICY = ExpiryPolicy(archived_days=30, curve_days=30, worker_days=30)
ARCHIVED = {"state": "succeeded", "finished_at": OLD, "archived_at": OLD}


def a_study_with(session: Session, job: UUID) -> None:
    study = Study(
        id=job, owner_id=a_user(session), project_id=a_project(session), name="small",
        spec={"name": "small"}, skipped=[],
    )  # fmt: skip
    session.add(study)
    session.flush()
    session.add(
        StudyJob(
            study_id=study.id,
            job_id=job,
            base_model="tiny-sort",
            task="add",
            method="lora",
            budget=1,
            role="method",
            over_budget=False,
            reused=False,
        )
    )


def jobs(sessions: Sessions) -> set[UUID]:
    with sessions() as session:
        return set(session.scalars(select(Job.id)))


def points(session: Session, job: UUID) -> None:
    values = {"job_id": job, "attempt": 1, "name": "loss", "replicate": 0, "value": 0.5}
    session.execute(insert(MetricPointRow), [{**values, "step": step} for step in range(3)])


def points_of(sessions: Sessions, job: UUID) -> int:
    counted = select(func.count()).select_from(MetricPointRow).where(MetricPointRow.job_id == job)
    with sessions() as session:
        return session.scalars(counted).one()


def test_nothing_expires_unless_it_is_set(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = a_job(session, **ARCHIVED)
        points(session, job)
        session.execute(update(Worker).values(heartbeat_at=OLD))
    assert expire(sessions, ExpiryPolicy()) == Expired()
    assert jobs(sessions) == {job}


def test_jobs_that_were_archived_long_ago_go_with_their_base_model(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "AT_ONCE", 2)
    with sessions.begin() as session:
        a_base_model(session, **{**ARCHIVED, "state": "succeeded"})
        for _ in range(3):
            a_job(session, **ARCHIVED)
    assert expire(sessions, POLICY) == Expired(jobs=4)
    assert jobs(sessions) == set()
    with sessions() as session:
        bases = select(func.count()).select_from(Table.metadata.tables["base_models"])
        assert session.scalars(bases).one() == 0


@pytest.mark.parametrize(
    "columns",
    [
        {"archived_at": None},
        {"archived_at": text("clock_timestamp() - interval '29 days'")},
        {"finished_at": text("clock_timestamp() - interval '29 days'")},
        {"labels": {"keep": ""}},
        {"state": "running", "finished_at": None},
    ],
)
def test_other_jobs_stay(sessions: Sessions, columns: dict[str, Any]) -> None:
    with sessions.begin() as session:
        stays = a_job(session, **{**ARCHIVED, **columns})
        if columns.get("state") == "running":
            session.execute(
                update(Job)
                .where(Job.id == stays)
                .values(lease_expires_at=text("clock_timestamp() + interval '1 hour'"))
            )
        goes = a_job(session, **ARCHIVED)
    assert expire(sessions, ExpiryPolicy(archived_days=30)) == Expired(jobs=1)
    assert jobs(sessions) == {stays}
    assert goes != stays


def needed_by_a_study(session: Session) -> UUID:
    job = a_job(session, **ARCHIVED)
    a_study_with(session, job)
    return job


def needed_by_an_adaptation(session: Session) -> UUID:
    job = a_base_model(session, **ARCHIVED)
    a_job(session, state="succeeded", finished_at=OLD)
    return job


@pytest.mark.parametrize("needed", [needed_by_a_study, needed_by_an_adaptation])
def test_what_a_deletion_would_refuse_stays(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, needed: Callable[[Session], UUID]
) -> None:
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    with sessions.begin() as session:
        stays = needed(session)
        goes = a_job(session, base_model=None, **ARCHIVED)
    assert expire(sessions, ExpiryPolicy(archived_days=30)) == Expired(jobs=1)
    assert stays in jobs(sessions)
    assert goes not in jobs(sessions)


def test_curves_go_and_scores_stay(sessions: Sessions) -> None:
    with sessions.begin() as session:
        long_ago: dict[str, Any] = {"state": "succeeded", "finished_at": OLD}
        old, of_study = (a_job(session, **long_ago) for _ in range(2))
        kept = a_job(session, labels={"keep": ""}, **long_ago)
        new = a_job(session, state="succeeded")
        a_study_with(session, of_study)
        for job in (old, kept, new, of_study):
            points(session, job)
        session.execute(
            insert(JobMetric).values(
                job_id=old,
                name="accuracy",
                project_id=a_project(session),
                seeds=[0],
                values=[0.5],
                n=1,
                mean=0.5,
                min=0.5,
                max=0.5,
            )
        )
    assert expire(sessions, POLICY) == Expired(curves=1)
    assert [points_of(sessions, job) for job in (old, kept, new, of_study)] == [0, 3, 3, 3]
    with sessions() as session:
        assert session.scalars(select(JobMetric.mean)).all() == [0.5]
    assert expire(sessions, POLICY) == Expired()


def test_workers_go_that_were_silent_for_long_and_hold_nothing(sessions: Sessions) -> None:
    with sessions.begin() as session:
        ids = [workers.register(session, f"node-{n}", n, ["cpu"]) for n in range(4)]
        silent = update(Worker).where(Worker.id.in_(ids[:3])).values(heartbeat_at=OLD)
        session.execute(silent)
        a_job(session, state="running", worker_id=ids[1])
        session.add(WebhookEvent(project_id=a_project(session), worker_id=ids[2]))
    assert expire(sessions, POLICY) == Expired(workers=1)
    with sessions() as session:
        assert set(session.scalars(select(Worker.id))) == set(ids[1:])
