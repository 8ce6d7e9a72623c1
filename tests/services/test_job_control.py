"""Pausing, resuming, retrying and limits, also at the same time."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from tests import job_rows
from tests.job_rows import AGO, Sessions, change, event_types, job, outcomes
from tests.making import (
    MadeUpLedger,
    a_base_model,
    a_claim,
    a_job,
    a_made_up_ledger,
    a_pretrain_spec,
    a_principal,
    a_project,
    a_worker,
    an_adapt_spec,
    keep_checkpoints,
)

from adaptlab.errors import InvalidSpec
from adaptlab_db.tables import BaseModel, Job, Study, StudyJob
from adaptlab_services.errors import Absent, LimitReached, StateConflict
from adaptlab_services.jobs import control, jobs
from adaptlab_services.jobs.control import Controlled
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.leases.reaping import reap
from adaptlab_services.limits import limits


def new_job(sessions: Sessions, **values: object) -> UUID:
    return job_rows.new_job(sessions, spec=a_pretrain_spec(), **values)


def asked(
    sessions: Sessions, what: Callable[[Session, object, UUID], Controlled], job_id: UUID
) -> Controlled:
    with sessions.begin() as session:
        return what(session, a_principal(session), job_id)


def pause(sessions: Sessions, job_id: UUID) -> Controlled:
    return asked(sessions, control.pause, job_id)  # pyright: ignore[reportArgumentType]


def resume(sessions: Sessions, job_id: UUID) -> Controlled:
    return asked(sessions, control.resume, job_id)  # pyright: ignore[reportArgumentType]


def retry(sessions: Sessions, job_id: UUID) -> Controlled:
    return asked(sessions, control.retry, job_id)  # pyright: ignore[reportArgumentType]


def cancel(sessions: Sessions, job_id: UUID) -> None:
    with sessions.begin() as session:
        jobs.cancel(session, a_principal(session), job_id)


# --- pausing and going on -------------------------------------------------------------------------


def test_a_paused_job_is_not_claimed_until_it_is_resumed(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    paused = pause(sessions, job_id)
    assert (paused.job.state, paused.decided) == ("paused", True)
    assert pause(sessions, job_id).job.state == "paused"
    assert ledger.claim(a_worker(ledger), ["cpu"]) is None
    resumed = resume(sessions, job_id)
    assert (resumed.job.state, resumed.queues) == ("queued", ("cpu",))
    assert resume(sessions, job_id).queues == ()
    assert a_claim(ledger).job_id == job_id


def test_a_running_job_is_paused_by_its_worker_at_no_cost(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions, attempts_max=1)
    for attempt in (1, 2, 3):
        claim = a_claim(ledger)
        assert claim.attempt == attempt
        pause(sessions, job_id)
        assert ledger.paused(claim) == ()
        row = job(sessions, job_id)
        assert (row.state, row.reason, row.pause_requested_at) == ("paused", "paused_by_user", None)
        assert resume(sessions, job_id).job.state == "queued"
    assert outcomes(sessions, job_id) == ["paused"] * 3
    kinds = ["running", "pause_requested", "paused", "queued"]
    assert event_types(sessions, job_id) == kinds * 3


def test_a_running_job_hears_of_a_pause_by_its_heartbeat(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions, attempts_max=1)
    for _ in range(3):
        claim = a_claim(ledger)
        assert ledger.heartbeat(claim, 1) == "continue"
        paused = pause(sessions, job_id)
        assert (paused.job.state, paused.decided, paused.job.pause_requested) == (
            "running", False, True,
        )  # fmt: skip
        assert ledger.heartbeat(claim, 1) == "pause"
        ledger.paused(claim)
        resume(sessions, job_id)


def test_a_pause_that_is_taken_back_is_none(sessions: Sessions, ledger: DatabaseLedger) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    pause(sessions, job_id)
    assert not resume(sessions, job_id).job.pause_requested
    assert ledger.heartbeat(claim, 1) == "continue"
    pause(sessions, job_id)
    assert ledger.heartbeat(claim, 1) == "pause"
    resume(sessions, job_id)  # while the worker stops already
    assert ledger.paused(claim) == ("cpu",)
    assert job(sessions, job_id).state == "queued"


def test_the_end_of_a_job_that_was_to_be_paused_stands(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    pause(sessions, job_id)
    ledger.finish(claim)
    assert job(sessions, job_id).state == "succeeded"


@pytest.mark.parametrize("how", ["failed", "released", "lost"])
def test_a_job_that_is_given_back_when_it_was_to_be_paused_is_paused(
    sessions: Sessions, ledger: DatabaseLedger, how: str
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    pause(sessions, job_id)
    if how == "failed":
        ledger.fail(claim, "system_error", "a disk", retry=True)
    elif how == "released":
        ledger.release(claim, "preempted")
    else:
        change(sessions, job_id, lease_expires_at=AGO)
        with sessions.begin() as session:
            assert reap(session).count == 1
    assert job(sessions, job_id).state == "paused"
    assert job(sessions, job_id).pause_requested_at is None


def test_a_cancellation_is_stronger_than_a_pause(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    job_id = new_job(sessions)
    claim = a_claim(ledger)
    pause(sessions, job_id)
    cancel(sessions, job_id)
    with pytest.raises(StateConflict, match="being cancelled"):
        pause(sessions, job_id)
    assert ledger.heartbeat(claim, 1) == "stop"
    ledger.paused(claim)
    assert job(sessions, job_id).state == "cancelled"


@pytest.mark.parametrize("state", ["waiting", "succeeded", "failed", "cancelled"])
def test_what_cannot_be_paused_says_why(sessions: Sessions, state: str) -> None:
    job_id = new_job(sessions, state=state)
    with pytest.raises(StateConflict, match=state) as refused:
        pause(sessions, job_id)
    assert refused.value.state == state
    with pytest.raises(Absent):
        pause(sessions, UUID(int=1))


def test_pausing_and_going_on_at_random_while_a_worker_works_loses_nothing(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    """In any order, the job can always reach its end, and ends once."""
    dice = random.Random(7)
    job_id = new_job(sessions)

    def work() -> None:
        claim = ledger.claim(a_worker(ledger), ["cpu"])
        if claim is None:
            return
        if ledger.heartbeat(claim, 1) == "pause":
            ledger.paused(claim)
        else:
            ledger.release(claim, "preempted")

    def meddle() -> None:
        (pause if dice.random() < 0.5 else resume)(sessions, job_id)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work) for _ in range(30)]
        futures += [pool.submit(meddle) for _ in range(30)]
        for future in futures:
            future.result()
    resume(sessions, job_id)
    claim = a_claim(ledger)
    assert ledger.heartbeat(claim, 2) == "continue"
    ledger.finish(claim)
    assert job(sessions, job_id).state == "succeeded"
    assert len(outcomes(sessions, job_id)) == claim.attempt


# --- making anew ----------------------------------------------------------------------------------


def test_a_failed_job_is_made_anew_once(sessions: Sessions, ledger: DatabaseLedger) -> None:
    first = new_job(sessions)
    ledger.fail(a_claim(ledger), "diverged", "Every replicate diverged.", retry=False)
    anew = retry(sessions, first)
    assert (anew.job.state, anew.job.retry_of, anew.replayed) == ("queued", first, False)
    assert anew.queues == ("cpu",)
    before, after = job(sessions, first), job(sessions, anew.job.id)
    assert before.state == "failed"
    assert after.spec_digest == before.spec_digest
    assert after.resolved_spec == before.resolved_spec
    assert (after.attempt, after.step, after.error) == (0, 0, None)
    again = retry(sessions, first)
    assert (again.job.id, again.replayed, again.queues) == (anew.job.id, True, ())
    assert a_claim(ledger).job_id == anew.job.id


def test_ten_retries_at_once_make_one_job(sessions: Sessions) -> None:
    first = new_job(sessions, state="cancelled")
    with sessions.begin() as session:
        principal = a_principal(session)

    def ask(_: int) -> UUID:
        with sessions.begin() as session:
            return control.retry(session, principal, first).job.id

    with ThreadPoolExecutor(10) as pool:
        made = set(pool.map(ask, range(10)))
    assert len(made) == 1


@pytest.mark.parametrize("state", ["waiting", "queued", "running", "paused", "succeeded"])
def test_only_what_failed_or_was_cancelled_is_made_anew(sessions: Sessions, state: str) -> None:
    job_id = new_job(sessions, state=state)
    with pytest.raises(StateConflict, match=state):
        retry(sessions, job_id)


def test_a_base_model_made_anew_takes_its_name_and_its_place(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    with sessions.begin() as session:
        base = a_base_model(session, state="failed")
        lost = a_job(session, an_adapt_spec(), state="failed")
    with pytest.raises(InvalidSpec, match="Create it again"):
        retry(sessions, lost)
    anew = retry(sessions, base)
    with sessions() as session:
        assert session.scalars(select(BaseModel.job_id)).one() == anew.job.id
    waits = retry(sessions, lost)
    assert (waits.job.state, waits.queues) == ("waiting", ())
    claim = a_claim(ledger)
    keep_checkpoints(ledger, claim)
    ledger.finish(claim)
    assert job(sessions, waits.job.id).state == "queued"


def test_a_job_made_anew_takes_the_old_ones_place_in_studies_that_go_on(
    sessions: Sessions,
) -> None:
    first = new_job(sessions, state="failed")
    with sessions.begin() as session:
        owner = a_principal(session).user_id
        for name, cancelled in (("goes-on", None), ("over", func.clock_timestamp())):
            study = Study(
                id=UUID(int=len(name)),
                owner_id=owner,
                project_id=a_project(session),
                name=name,
                spec={},
                skipped=[],
                cancelled_at=cancelled,
            )
            session.add(study)
            session.flush()
            cell = {"study_id": study.id, "job_id": first, "reused": False, "over_budget": False}
            session.add(StudyJob(**cell, role="base_model", base_model="tiny-sort"))
    anew = retry(sessions, first).job.id
    with sessions() as session:
        rows = session.execute(
            select(Study.name, StudyJob.job_id)
            .join(Study, Study.id == StudyJob.study_id)
            .order_by(Study.name)
        ).all()
    assert [tuple(row) for row in rows] == [("goes-on", anew), ("over", first)]


# --- limits ---------------------------------------------------------------------------------------


def submit_many(sessions: Sessions, most: int | None, times: int) -> list[bool]:
    with sessions.begin() as session:
        principal = a_principal(session)

    def submit(number: int) -> bool:
        with sessions() as session:
            try:
                spec = a_pretrain_spec(name=f"base-{number}")
                jobs.create(session, principal, spec, most_queued=most)
            except LimitReached:
                session.rollback()
                return False
            session.commit()
            return True

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(submit, range(times)))


def count(sessions: Sessions, *states: str) -> int:
    with sessions() as session:
        return session.scalars(select(func.count()).where(Job.state.in_(states))).one()


def test_many_submissions_at_once_never_exceed_the_limit_of_their_owner(
    sessions: Sessions,
) -> None:
    accepted = submit_many(sessions, most=25, times=200)
    assert (sum(accepted), count(sessions, "queued")) == (25, 25)
    with sessions.begin() as session:
        other = a_principal(session, "another")
        jobs.create(session, other, a_pretrain_spec(name="others"), most_queued=25)


def test_who_only_counts_lets_too_many_in(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_ONE_AT_A_TIME", select(func.now()))
    with sessions.begin() as session:
        principal = a_principal(session)
    with sessions() as one, sessions() as other:
        for number, session in enumerate((one, other)):
            spec = a_pretrain_spec(name=f"base-{number}")
            jobs.create(session, principal, spec, most_queued=1)
        one.commit()
        other.commit()
    assert count(sessions, "queued") == 2


def test_going_on_and_making_anew_count_too(sessions: Sessions) -> None:
    paused, failed = new_job(sessions, state="paused"), new_job(sessions, state="failed")
    new_job(sessions)
    for what, job_id in ((control.resume, paused), (control.retry, failed)):
        with pytest.raises(LimitReached, match="1 at a time"), sessions.begin() as session:
            what(session, a_principal(session), job_id, most_queued=1)
    assert count(sessions, "queued") == 1


def test_a_job_that_goes_on_counts_for_its_owner_whoever_asks(sessions: Sessions) -> None:
    new_job(sessions, owner="bob")
    of_ada = new_job(sessions, state="paused")
    with sessions.begin() as session:
        control.resume(session, a_principal(session, "bob"), of_ada, most_queued=1)
    another_of_ada = new_job(sessions, state="paused")
    with pytest.raises(LimitReached, match="1 at a time"), sessions.begin() as session:
        control.resume(session, a_principal(session, "carl"), another_of_ada, most_queued=1)
    assert count(sessions, "queued") == 2


def test_no_more_jobs_of_an_owner_run_than_allowed_however_many_workers_ask(
    sessions: Sessions,
) -> None:
    for owner in ("ada", "bob"):
        for _ in range(6):
            new_job(sessions, owner=owner)
    ledger = MadeUpLedger(sessions, most_running=2)
    worker = a_worker(ledger)
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: ledger.claim(worker, ["cpu"]), range(12)))
    held = [claim for claim in claims if claim is not None]
    assert len(held) == 4
    with sessions() as session:
        running = select(Job.owner_id, func.count()).where(Job.state == "running")
        assert [n for _, n in session.execute(running.group_by(Job.owner_id))] == [2, 2]
    ledger.finish(held[0])
    assert ledger.claim(worker, ["cpu"]) is not None
    assert a_made_up_ledger(sessions).claim(worker, ["cpu"]) is not None, "without a limit"
