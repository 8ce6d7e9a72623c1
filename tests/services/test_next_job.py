"""The next job is the first in order, found without reading them all."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import ScalarSelect
from tests.job_rows import Sessions, new_job
from tests.making import a_user

from adaptlab_db.tables import Job
from adaptlab_services.leases.next_job import next_job

QUEUES = ("cpu", "gpu", "large")
OWNERS = ("ada", "bob", "eve", "kim")
JOBS = 60
LONG = 3000
COPIES = """
    INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object(
        'id', gen_random_uuid(), 'created_at', j.created_at + n * interval '1 second',
        'owner_id', (CAST(:owners AS bigint[]))[1 + n % :most]
    ))).* FROM jobs j, generate_series(1, :copies) n WHERE j.id = :original"""
Plan = Mapping[str, Any]  # what EXPLAIN says of a node


def plainly(queues: Sequence[str], most_running: int | None) -> ScalarSelect[UUID]:
    """The same by the plain statement: all that wait, sorted."""
    running = Job.__table__.alias("running")
    busy = (
        select(running.c.owner_id, func.count().label("jobs"))
        .where(running.c.state == "running")
        .group_by(running.c.owner_id)
        .subquery("busy")
    )
    of_owner = func.coalesce(busy.c.jobs, 0)
    may_run = [] if most_running is None else [of_owner < most_running]
    return (
        select(Job.id)
        .outerjoin(busy, busy.c.owner_id == Job.owner_id)
        .where(
            Job.queue.in_(queues),
            Job.state == "queued",
            Job.run_at <= func.clock_timestamp(),
            Job.cancel_requested_at.is_(None),
            *may_run,
        )
        .order_by(Job.priority.desc(), of_owner, Job.created_at, Job.id)
        .limit(1)
        .with_for_update(of=Job, skip_locked=True)
        .scalar_subquery()
    )


def fill(sessions: Sessions, draw: random.Random) -> None:
    """Jobs of several queues, owners, priorities and ages, some not free."""
    original = new_job(sessions)
    with sessions.begin() as session:
        owners = [a_user(session, name) for name in OWNERS]
        given = {"original": original, "copies": JOBS, "owners": owners, "most": len(owners)}
        session.execute(text(COPIES), given)
        for job_id in session.scalars(select(Job.id).order_by(Job.created_at, Job.id)).all():
            values = some_values(draw, owners)
            session.execute(update(Job).where(Job.id == job_id).values(values))


def some_values(draw: random.Random, owners: Sequence[int]) -> dict[str, object]:
    now = func.clock_timestamp()
    seconds = func.make_interval(0, 0, 0, 0, 0, 0, draw.randrange(1, 5))
    may_not = draw.randrange(6)
    return {
        "queue": draw.choice(QUEUES),
        "owner_id": draw.choice(owners),
        "priority": draw.choice((-1, 0, 0, 7)),
        "created_at": text(f"'2026-01-01'::timestamptz + {draw.randrange(8)} * interval '1 hour'"),
        "run_at": now + 3600 * seconds if may_not == 0 else now - seconds,
        "cancel_requested_at": now if may_not == 1 else None,
        "state": "running" if may_not == 2 else "queued",
        "attempt": int(may_not == 2),
        "lease_expires_at": now + seconds if may_not == 2 else None,
    }


def take(session: Session, job_id: UUID) -> None:
    lease = func.clock_timestamp() + func.make_interval(1)
    running = {"state": "running", "lease_expires_at": lease, "attempt": Job.attempt + 1}
    session.execute(update(Job).where(Job.id == job_id).values(running))


def rank(session: Session, job_id: UUID | None) -> tuple[int, int] | None:
    """By what a job comes before others, but for its age."""
    if job_id is None:
        return None
    job = session.get_one(Job, job_id)
    mine = select(func.count()).where(Job.owner_id == job.owner_id, Job.state == "running")
    return job.priority, session.scalars(mine).one()


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize("most_running", [None, 4])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_one_that_sorting_all_of_them_gives(
    sessions: Sessions, seed: int, most_running: int | None
) -> None:
    draw = random.Random(seed)
    fill(sessions, draw)
    taken = 0
    with sessions.begin() as session:
        while (best := session.scalar(select(plainly(QUEUES, most_running)))) is not None:
            some = draw.sample(QUEUES, draw.randrange(1, 4))
            for queues in (some, QUEUES):
                expected = session.scalar(select(plainly(queues, most_running)))
                assert session.scalar(select(next_job(queues, most_running))) == expected
            take(session, best)
            taken += 1
        assert session.scalar(select(next_job(QUEUES, most_running))) is None
    assert taken > (JOBS / 3 if most_running is None else 0)


@pytest.mark.parametrize("seed", range(4))
def test_what_others_are_taking_is_passed_over(sessions: Sessions, seed: int) -> None:
    """The result ranks as high as the plain statement's, and is not locked."""
    draw = random.Random(seed)
    fill(sessions, draw)
    with sessions() as look:
        waiting = look.scalars(select(Job.id).where(Job.state == "queued").order_by(Job.id)).all()
    for share in (0.3, 0.9, 1.0):
        locked = draw.sample(waiting, round(share * len(waiting)))
        with sessions.begin() as other, sessions.begin() as session:
            other.execute(select(Job.id).where(Job.id.in_(locked)).with_for_update()).all()
            found = session.scalar(select(next_job(QUEUES, None)))
            assert found not in locked
            assert rank(session, found) == rank(
                session, session.scalar(select(plainly(QUEUES, None)))
            )


def test_a_job_of_a_lane_whose_head_is_being_taken_is_found(sessions: Sessions) -> None:
    first, second = (
        new_job(sessions, created_at=text(f"'2026-01-0{day}'::timestamptz")) for day in (1, 2)
    )
    with sessions.begin() as other, sessions.begin() as session:
        other.execute(select(Job.id).where(Job.id == first).with_for_update()).all()
        assert session.scalar(select(next_job(["cpu"], None))) == second
    with sessions.begin() as other, sessions.begin() as session:
        other.execute(select(Job.id).with_for_update()).all()
        assert session.scalar(select(next_job(["cpu"], None))) is None


def rows_read(session: Session, asked: ScalarSelect[UUID]) -> float:
    """The number of rows of jobs that a statement reads, unused ones too."""
    said = select(asked).compile(session.get_bind(), compile_kwargs={"render_postcompile": True})
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {said}"
    (found,) = session.connection().exec_driver_sql(explain, said.params).scalar_one()
    return sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for node in nodes(found["Plan"])
        if node.get("Relation Name") == "jobs"
    )


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def test_a_long_backlog_is_not_read(sessions: Sessions) -> None:
    """Two owners' lanes are read twice; the plain statement reads all."""
    original = new_job(sessions)
    with sessions.begin() as session:
        owners = [a_user(session, name) for name in OWNERS[:2]]
        given = {"original": original, "copies": LONG, "owners": owners, "most": len(owners)}
        session.execute(text(COPIES), given)
        session.execute(text("ANALYZE jobs"))
    with sessions.begin() as session:
        few = rows_read(session, next_job(["cpu"], 10))
        assert session.scalar(select(next_job(["cpu"], 10))) == original
        assert few <= 20
        assert rows_read(session, plainly(["cpu"], 10)) > LONG
