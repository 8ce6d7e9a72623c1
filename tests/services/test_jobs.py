"""Jobs in races: creating against finishing, cancelling against claiming."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_made_up_ledger,
    a_principal,
    a_resolved_spec,
    a_worker,
    an_adapt_spec,
)
from tests.watching import somebody_waits, statements, until

from adaptlab.specs.resolved import spec_digest
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import Job, JobEvent, asked_columns
from adaptlab_services.errors import LeaseLost
from adaptlab_services.jobs import jobs
from adaptlab_services.jobs.rows import NewJob, insert_jobs
from adaptlab_services.jobs.views import MOST_AHEAD

Sessions = sessionmaker[Session]


def state(sessions: Sessions, job_id: UUID) -> str:
    with sessions.begin() as session:
        return session.scalars(select(Job.state).where(Job.id == job_id)).one()


def test_a_base_model_cannot_finish_between_the_look_and_the_waiting_job(
    sessions: Sessions,
) -> None:
    with sessions.begin() as session:
        a_base_model(session, state="queued")
        principal = a_principal(session)
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            created = jobs.create(session, principal, an_adapt_spec())
            assert created.job.state == "waiting"
            finished = pool.submit(ledger.finish, claim)
            until(lambda: finished.done() or somebody_waits(sessions), "an end that waits")
        assert finished.result() == ("cpu",)
    assert state(sessions, created.job.id) == "queued"


def test_of_a_claim_and_a_cancellation_one_is_first(sessions: Sessions) -> None:
    ledger = a_made_up_ledger(sessions)
    worker = a_worker(ledger)
    with sessions.begin() as session:
        a_base_model(session)
        principal = a_principal(session)

    def cancel(job_id: UUID) -> bool:
        with sessions.begin() as session:
            return jobs.cancel(session, principal, job_id).decided

    for _ in range(20):
        with sessions.begin() as session:
            job_id = a_job(session)
        with ThreadPoolExecutor(2) as pool:
            claiming, cancelling = (
                pool.submit(ledger.claim, worker, ["cpu"]),
                pool.submit(cancel, job_id),
            )
            claim, decided = claiming.result(), cancelling.result()
        # Either it was cancelled in the queue, or a worker has it and will be told to stop.
        assert decided == (claim is None)
        if claim is not None:
            assert ledger.heartbeat(claim, 0) == "stop"
            ledger.stopped(claim)
        assert state(sessions, job_id) == "cancelled"


def test_of_an_end_and_a_cancellation_exactly_one_is_told(sessions: Sessions) -> None:
    ledger = a_made_up_ledger(sessions)
    with sessions.begin() as session:
        a_base_model(session)
        principal = a_principal(session)

    def cancel(job_id: UUID) -> None:
        with sessions.begin() as session:
            jobs.cancel(session, principal, job_id)

    for _ in range(20):
        with sessions.begin() as session:
            job_id = a_job(session)
        claim = a_claim(ledger)
        with ThreadPoolExecutor(2) as pool:
            for done in (pool.submit(ledger.finish, claim), pool.submit(cancel, job_id)):
                try:
                    done.result()
                except LeaseLost as error:  # pragma: no cover - would say what went wrong
                    raise AssertionError("the fence was lost") from error
        with sessions.begin() as session:
            events = session.scalars(
                select(JobEvent.type).where(JobEvent.job_id == job_id).order_by(JobEvent.sequence)
            ).all()
        ends = [kind for kind in events if kind in TERMINAL_STATES]
        assert ends == [state(sessions, job_id)] == [events[-1]]


def test_a_place_behind_many_is_not_counted(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        principal, spec = a_principal(session), an_adapt_spec()
        resolved = a_resolved_spec(spec)
        ahead = [NewJob(spec, resolved, spec_digest(resolved), is_ready=True)] * MOST_AHEAD
        insert_jobs(session, principal, ahead)
        last, too_far = (jobs.create(session, principal, spec).job for _ in range(2))
        assert (last.queue.position, too_far.queue.position) == (MOST_AHEAD + 1, None)
        assert jobs.get(session, last.id).queue.position == MOST_AHEAD + 1


def test_the_answer_to_a_creation_is_what_a_later_look_gets(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        spec = an_adapt_spec(labels={"longer": "1", "paper": "2"})
        created = jobs.create(session, a_principal(session), spec).job
    with sessions.begin() as session:
        assert jobs.get(session, created.id) == created


def test_a_new_job_has_every_column_that_a_retry_copies(sessions: Sessions) -> None:
    """A column marked `ASKED` but never written would be empty silently."""
    spec = an_adapt_spec()
    resolved = a_resolved_spec(spec)
    new = NewJob(spec, resolved, spec_digest(resolved), is_ready=True)
    with sessions.begin() as session:
        principal = a_principal(session)
        with statements() as sent:
            insert_jobs(session, principal, [new])
    (inserted,) = [one for one in sent if one.startswith("INSERT INTO jobs")]
    columns = inserted[inserted.index("(") + 1 : inserted.index(")")].split(", ")
    assert {column.name for column in asked_columns()} <= set(columns)
