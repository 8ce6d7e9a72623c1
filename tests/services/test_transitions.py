"""States change by one function, as in its table, and leave events."""

from typing import Any, get_args
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_pretrain_spec, an_adapt_spec

from adaptlab_db.job_states import JOB_STATES, STATES, JobState
from adaptlab_db.tables import AttemptRow, Job, JobEvent
from adaptlab_services.lifecycle.transitions import (
    Change,
    append_event,
    move,
    queues_to_ring,
    settle_waiting,
    storable,
    transition,
)

Sessions = sessionmaker[Session]


def job(session: Session, job_id: UUID) -> Job:
    return session.scalars(
        select(Job).where(Job.id == job_id).execution_options(populate_existing=True)
    ).one()


def events(session: Session, job_id: UUID) -> list[tuple[int, str]]:
    rows = session.execute(
        select(JobEvent.sequence, JobEvent.type)
        .where(JobEvent.job_id == job_id)
        .order_by(JobEvent.sequence)
    )
    return [(row.sequence, row.type) for row in rows]


def change_state_by_hand(session: Session, job_id: UUID, before: str, after: str) -> None:
    """A careless UPDATE, correct in everything but the state."""
    lease = func.clock_timestamp() if after == "running" else None
    claimed = int((before, after) == ("queued", "running"))
    session.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(state=after, lease_expires_at=lease, attempt=Job.attempt + claimed)
    )


def test_the_database_rejects_every_change_that_is_not_in_the_table(sessions: Sessions) -> None:
    for before in JOB_STATES:
        for after in (state for state in JOB_STATES if state != before):
            with sessions() as session:
                job_id = a_job(session, state=before)
                if after in STATES[before].followers:
                    change_state_by_hand(session, job_id, before, after)
                    assert job(session, job_id).state == after
                else:
                    with pytest.raises(IntegrityError, match=r"cannot (go|change)"):
                        change_state_by_hand(session, job_id, before, after)


def test_the_table_of_states_names_every_state() -> None:
    assert get_args(JobState) == JOB_STATES


def test_without_the_trigger_an_illegal_change_goes_through(sessions: Sessions) -> None:
    with sessions() as session:
        job_id = a_job(session, state="succeeded")
        session.execute(text("ALTER TABLE jobs DISABLE TRIGGER guard_states"))
        change_state_by_hand(session, job_id, "succeeded", "queued")
        assert job(session, job_id).state == "queued"


COLUMNS: list[Any] = ["error", "attempt", "finished_at", "step", "event_sequence"]


def test_a_job_that_has_ended_stays_as_it_is(sessions: Sessions) -> None:
    for column in COLUMNS:
        other = {"error": "another", "finished_at": func.clock_timestamp()}.get(column, 99)
        with sessions() as session:
            job_id = a_job(session, state="failed")
            with pytest.raises(IntegrityError, match="has ended"):
                session.execute(update(Job).where(Job.id == job_id).values({column: other}))


def test_labels_of_a_job_that_has_ended_may_change(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, state="failed")
        session.execute(update(Job).where(Job.id == job_id).values(labels={"paper": "table-1"}))


@pytest.mark.parametrize(("state", "change"), [("queued", 1), ("running", 1), ("running", -1)])
def test_only_a_claim_raises_the_fencing_token(sessions: Sessions, state: str, change: int) -> None:
    with sessions() as session:
        job_id = a_job(session, state=state)
        with pytest.raises(IntegrityError, match="from attempt"):
            session.execute(
                update(Job).where(Job.id == job_id).values(attempt=Job.attempt + change)
            )


def test_a_claim_that_forgets_to_raise_the_fencing_token_is_rejected(sessions: Sessions) -> None:
    with sessions() as session:
        job_id = a_job(session)
        with pytest.raises(IntegrityError, match="from attempt"):
            session.execute(
                update(Job)
                .where(Job.id == job_id)
                .values(state="running", lease_expires_at=func.clock_timestamp())
            )


def test_a_transition_writes_the_state_the_event_and_the_attempt(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, state="running")
        assert transition(
            session,
            job_id,
            to="failed",
            from_states=("running",),
            attempt=1,
            reason="diverged",
            error="The loss was not finite at step 3.",
            data={"step": 3},
        )
    with sessions() as session:
        row = job(session, job_id)
        assert (row.state, row.reason) == ("failed", "diverged")
        assert row.error == "The loss was not finite at step 3."
        assert row.finished_at is not None
        assert row.lease_expires_at is None
        attempt = session.scalars(select(AttemptRow).where(AttemptRow.job_id == job_id)).one()
        assert (attempt.outcome, attempt.reason) == ("failed", "diverged")
        assert attempt.ended_at is not None
        event = session.scalars(select(JobEvent).where(JobEvent.job_id == job_id)).one()
        assert (event.sequence, event.type, event.attempt) == (1, "failed", 1)
        assert event.data == {"step": 3, "reason": "diverged"}


@pytest.mark.parametrize(
    ("from_states", "attempt"), [(("queued",), None), (("running",), 2), (("running",), 0)]
)
def test_a_transition_that_is_not_allowed_changes_nothing(
    sessions: Sessions, from_states: tuple[JobState, ...], attempt: int | None
) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, state="running")
        assert not transition(
            session, job_id, to="cancelled", from_states=from_states, attempt=attempt
        )
        assert job(session, job_id).state == "running"
        assert events(session, job_id) == []


def test_events_are_numbered_without_gaps(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, state="paused")
        assert append_event(session, job_id, "note", {"by": "ada"}) == 1
        assert transition(session, job_id, to="queued", from_states=("paused",))
        assert append_event(session, job_id, "note", {"by": "ada"}) == 3
        assert transition(session, job_id, to="cancelled", from_states=("queued",))
        assert events(session, job_id) == [
            (1, "note"),
            (2, "queued"),
            (3, "note"),
            (4, "cancelled"),
        ]


def test_no_event_follows_the_last(sessions: Sessions) -> None:
    with sessions() as session:
        job_id = a_job(session, state="cancelled")
        with pytest.raises(IntegrityError, match="has ended"):
            append_event(session, job_id, "note", {})


@pytest.mark.parametrize(
    ("end", "becomes", "reason"),
    [
        ("succeeded", "queued", None),
        ("failed", "failed", "base_model_failed"),
        ("cancelled", "failed", "base_model_failed"),
    ],
)
def test_jobs_that_wait_for_a_base_model_move_when_it_ends(
    sessions: Sessions, end: JobState, becomes: str, reason: str | None
) -> None:
    with sessions.begin() as session:
        base = a_base_model(session, "sort", state="running")
        a_base_model(session, "other", state="running")
        resources = {"queue": "gpu"}
        waiting = [
            a_job(session, an_adapt_spec(base_model="sort", resources=resources), state="waiting")
            for _ in range(2)
        ]
        session.execute(update(Job).where(Job.id.in_(waiting)).values(base_model="sort"))
        elsewhere = a_job(session, state="waiting", base_model="other")
        moved = move(session, [Job.id == base], Change(end))
        assert {m.job_id for m in moved} == {base, *waiting}
        assert queues_to_ring(moved) == (("gpu",) if becomes == "queued" else ())
        assert [(job(session, w).state, job(session, w).reason) for w in waiting] == [
            (becomes, reason)
        ] * 2
        assert job(session, elsewhere).state == "waiting"


def test_jobs_whose_base_model_ended_unseen_are_found(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session, "ready")
        a_base_model(session, "broken", state="failed")
        lucky = a_job(session, state="waiting", base_model="ready")
        unlucky = a_job(session, state="waiting", base_model="broken")
        assert {m.job_id for m in settle_waiting(session)} == {lucky, unlucky}
        assert job(session, lucky).state == "queued"
        assert job(session, unlucky).state == "failed"


def test_a_pretraining_job_that_nobody_waits_for_ends_alone(sessions: Sessions) -> None:
    with sessions.begin() as session:
        base = a_job(session, a_pretrain_spec(), state="running")
        assert [m.job_id for m in move(session, [Job.id == base], Change("succeeded"))] == [base]


def test_an_error_that_postgres_cannot_store_is_cleaned(sessions: Sessions) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, state="running")
        move(session, [Job.id == job_id], Change("failed", error="a\x00b\ud800c"))
        assert job(session, job_id).error == "a\N{REPLACEMENT CHARACTER}b?c"


def test_the_end_of_a_long_error_is_kept() -> None:
    kept = storable("x" * 30_000 + "the cause")
    assert kept is not None
    assert len(kept) == 20_000
    assert kept.endswith("the cause")
