"""Deeds of workers, users and time in any order, against a model.

Workers here are threads of thought: each holds the claims it was given, old ones too, and uses
them whenever chance says so. Time is the test's: a lease ends, or a wait is over, by decree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.chaos.histories import report
from tests.chaos.invariants import violations
from tests.making import a_made_up_ledger, a_principal, a_worker, an_adapt_spec

from adaptlab_services.errors import LeaseLost, StateConflict
from adaptlab_services.jobs import control, jobs
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.people.tokens import Principal

WORKERS = 3
ENDED = ("succeeded", "failed", "cancelled")
MOST_ATTEMPTS = 50  # to which giving jobs back may raise their limit


@dataclass
class Expected:
    """What a job must be by now: the model."""

    state: str = "queued"
    attempt: int = 0
    attempts_max: int = 3
    step: int = 0
    furthest: int = 0  # step of an earlier attempt
    error: str | None = None  # of the last attempt that failed
    is_cancelled: bool = False
    is_pausing: bool = False
    is_expired: bool = False
    outcomes: dict[int, str] = field(default_factory=dict[int, str])

    def end(self, state: str, outcome: str | None = None) -> None:
        """The attempt that runs ends, and the job comes into another state."""
        self.outcomes[self.attempt] = outcome or state
        self.state = state

    def end_uncounted(self, state: str, outcome: str) -> None:
        """Through no fault of the job's own: one attempt more is allowed for."""
        self.end(state, outcome)
        self.attempts_max = min(self.attempts_max + 1, MOST_ATTEMPTS)
        self.furthest = max(self.furthest, self.step)
        self.is_pausing = self.is_pausing and state != "paused"

    def end_counted(self, state: str, outcome: str) -> None:
        """It may be tried again."""
        self.end(state, outcome)
        self.furthest = max(self.furthest, self.step)
        self.is_pausing = False

    def holds(self, claim: Claim) -> bool:
        """Whether a claim is still the one under which the job runs."""
        return self.state == "running" and self.attempt == claim.attempt


class LedgerMachine(RuleBasedStateMachine):
    """Workers, users, the reaper and time, one step after the other."""

    def __init__(self, sessions: sessionmaker[Session], folder: Path) -> None:
        super().__init__()
        self._sessions = sessions
        self._folder = folder
        self._ledger = a_made_up_ledger(sessions)
        self._workers: list[UUID] = []
        self._jobs: dict[UUID, Expected] = {}
        self._claims: list[Claim] = []
        self._retries: dict[UUID, UUID] = {}

    @initialize()
    def begin(self) -> None:
        """The base model stays from one history to the next; jobs do not."""
        self._execute("DELETE FROM jobs WHERE kind = 'adapt'")
        self._workers = [a_worker(self._ledger) for _ in range(WORKERS)]

    @precondition(lambda self: len(self._jobs) < 3)
    @rule()
    def submit(self) -> None:
        with self._sessions.begin() as session:
            made = jobs.create(session, a_principal(session), an_adapt_spec(seeds=1))
        self._jobs[made.job.id] = Expected()

    @rule(worker=st.integers(0, WORKERS - 1))
    def claim(self, worker: int) -> None:
        queued = {key for key, job in self._jobs.items() if job.state == "queued"}
        claim = self._ledger.claim(self._workers[worker], ["cpu"])
        if claim is None:
            assert not queued, "a job was there to be claimed"
            return
        job = self._jobs[claim.job_id]
        assert claim.job_id in queued
        assert claim.attempt == job.attempt + 1
        job.state, job.attempt, job.step, job.is_expired = "running", claim.attempt, 0, False
        self._claims.append(claim)

    @precondition(lambda self: self._claims)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        claim, job = self._some_claim(data)
        if job.holds(claim):
            said = self._ledger.heartbeat(claim, 1)
            asked = "pause" if job.is_pausing else "continue"
            assert said == ("stop" if job.is_cancelled else asked)
            job.step, job.is_expired = max(1, job.step), False
        else:
            self._refused(lambda: self._ledger.heartbeat(claim, 1))

    @precondition(lambda self: self._claims)
    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        claim, job = self._some_claim(data)
        if job.holds(claim):
            self._report(claim, job)
        else:
            self._refused(lambda: report(self._ledger, claim, self._folder))

    @precondition(lambda self: self._claims)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        claim, job = self._some_claim(data)
        if job.holds(claim):
            self._report(claim, job)
            self._ledger.finish(claim)
            job.end("cancelled" if job.is_cancelled else "succeeded")
        else:
            self._over(claim, job, {"succeeded", "cancelled"}, lambda: self._ledger.finish(claim))

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), retry=st.booleans(), error=st.sampled_from(["one", "other"]))
    def fail(self, data: st.DataObject, retry: bool, error: str) -> None:
        claim, job = self._some_claim(data)

        def call() -> object:
            return self._ledger.fail(claim, "system_error", error, retry=retry)

        if not job.holds(claim):
            self._over(claim, job, {"failed", "cancelled"} if retry else {"failed"}, call)
            return
        call()
        is_alike = job.error == error and job.step <= job.furthest
        if retry and job.is_cancelled:
            job.end("cancelled")
        elif not retry or job.attempt >= job.attempts_max or is_alike:
            job.end("failed")
        else:
            job.end_counted("paused" if job.is_pausing else "queued", "failed")
            job.error = error
            self._end_wait(claim.job_id)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), pausing=st.booleans())
    def give_back(self, data: st.DataObject, pausing: bool) -> None:
        """The worker is shut down, or follows a request to pause."""
        claim, job = self._some_claim(data)

        def call() -> object:
            if pausing:
                return self._ledger.paused(claim)
            return self._ledger.release(claim, "preempted")

        if not job.holds(claim):
            self._over(claim, job, {"released", "paused", "cancelled"}, call)
            return
        call()
        if job.is_cancelled:
            job.end("cancelled")
        else:
            state = "paused" if job.is_pausing else "queued"
            job.end_uncounted(state, "paused" if job.is_pausing else "released")

    @precondition(lambda self: self._claims)
    @rule(data=st.data())
    def stopped(self, data: st.DataObject) -> None:
        claim, job = self._some_claim(data)
        if not job.holds(claim):
            self._over(claim, job, {"cancelled"}, lambda: self._ledger.stopped(claim))
        elif job.is_cancelled:
            self._ledger.stopped(claim)
            job.end("cancelled")

    @precondition(lambda self: self._jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(list(self._jobs)))
        job = self._jobs[job_id]
        with self._sessions.begin() as session:
            answer = jobs.cancel(session, a_principal(session), job_id)
        if job.state in ("queued", "paused"):
            job.state = "cancelled"
        elif job.state == "running":
            job.is_cancelled = True
        assert answer.job.state == job.state

    @precondition(lambda self: self._jobs)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(list(self._jobs)))
        job = self._jobs[job_id]
        if job.state in ENDED or job.is_cancelled:
            self._conflicts(control.pause, job_id)
            return
        with self._sessions.begin() as session:
            answer = control.pause(session, a_principal(session), job_id)
        if job.state == "queued":
            job.state = "paused"
        job.is_pausing = job.state == "running"
        assert answer.job.state == job.state

    @precondition(lambda self: self._jobs)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(list(self._jobs)))
        job = self._jobs[job_id]
        if job.state in ENDED:
            self._conflicts(control.resume, job_id)
            return
        with self._sessions.begin() as session:
            control.resume(session, a_principal(session), job_id)
        job.is_pausing = False
        if job.state == "paused":
            job.state = "queued"

    @precondition(lambda self: self._jobs)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(list(self._jobs)))
        if self._jobs[job_id].state not in ("failed", "cancelled"):
            self._conflicts(control.retry, job_id)
            return
        with self._sessions.begin() as session:
            answer = control.retry(session, a_principal(session), job_id)
        assert answer.replayed == (job_id in self._retries)
        assert answer.job.id == self._retries.setdefault(job_id, answer.job.id)
        self._jobs.setdefault(answer.job.id, Expected())

    @precondition(lambda self: any(job.state == "running" for job in self._jobs.values()))
    @rule(data=st.data())
    def lease_ends(self, data: st.DataObject) -> None:
        self._end_lease(data)

    def _end_lease(self, data: st.DataObject) -> UUID:
        running = [key for key, job in self._jobs.items() if job.state == "running"]
        job_id = data.draw(st.sampled_from(running))
        past = "lease_expires_at = clock_timestamp() - interval '1 s'"
        # The worker knew of the job: that one never learned of its claim is another matter.
        known = "heartbeat_at = clock_timestamp()"
        self._execute(f"UPDATE jobs SET {past}, {known} WHERE id = :job", job_id)
        self._jobs[job_id].is_expired = True
        return job_id

    @rule()
    def take_back(self) -> None:
        ended = [
            (key, job)
            for key, job in self._jobs.items()
            if job.state == "running" and job.is_expired
        ]
        with self._sessions.begin() as session:
            assert reap(session).count == len(ended)
        for job_id, job in ended:
            if job.is_cancelled:
                job.end("cancelled", "lost")
            elif job.is_pausing:
                job.end_uncounted("paused", "lost")
            elif job.step > job.furthest:  # it got further than ever, so it is not to blame
                job.end_uncounted("queued", "lost")
            elif job.attempt < job.attempts_max:
                job.end_counted("queued", "lost")
                self._end_wait(job_id)
            else:
                job.end("failed", "lost")

    @precondition(lambda self: any(job.state == "running" for job in self._jobs.values()))
    @rule(data=st.data(), worker=st.integers(0, WORKERS - 1))
    def overtake(self, data: st.DataObject, worker: int) -> None:
        """The dangerous history: a job's former worker still writes to it."""
        job_id = self._end_lease(data)
        stale = next(claim for claim in reversed(self._claims) if claim.job_id == job_id)
        self.take_back()
        self.claim(worker)
        late: Callable[[], object] = data.draw(
            st.sampled_from(
                [
                    lambda: self._ledger.heartbeat(stale, 1),
                    lambda: report(self._ledger, stale, self._folder),
                    lambda: self._ledger.finish(stale),
                    lambda: self._ledger.fail(stale, "system_error", "late", retry=True),
                ]
            )
        )
        self._refused(late)

    def teardown(self) -> None:
        """The tables say what the model says, and break no invariant."""
        with self._sessions() as session:
            broken = violations(session)
            rows = session.execute(text("SELECT id, state FROM jobs WHERE kind = 'adapt'"))
            states = {row.id: row.state for row in rows}
            ends = session.execute(
                text("SELECT job_id, attempt, outcome FROM attempts WHERE outcome IS NOT NULL")
            )
            outcomes = {(row.job_id, row.attempt): row.outcome for row in ends}
        assert broken == ()
        if self._jobs:
            assert states == {key: job.state for key, job in self._jobs.items()}
        for key, job in self._jobs.items():
            told = {number: end for (of, number), end in outcomes.items() if of == key}
            assert told == job.outcomes

    def _some_claim(self, data: st.DataObject) -> tuple[Claim, Expected]:
        claim = data.draw(st.sampled_from(self._claims))
        return claim, self._jobs[claim.job_id]

    def _report(self, claim: Claim, job: Expected) -> None:
        report(self._ledger, claim, self._folder)
        job.step = claim.resolved_spec.training.steps

    def _conflicts(self, ask: Callable[[Session, Principal, UUID], object], job_id: UUID) -> None:
        with pytest.raises(StateConflict), self._sessions.begin() as session:
            ask(session, a_principal(session), job_id)

    def _refused(self, call: Callable[[], object]) -> None:
        try:
            call()
        except LeaseLost:
            return
        raise AssertionError("a write of an attempt that is over was accepted")

    def _over(self, claim: Claim, job: Expected, own: set[str], call: Callable[[], object]) -> None:
        """A second end of an attempt is accepted only if it ended that way."""
        if job.outcomes[claim.attempt] in own:
            assert call() == ()
        else:
            self._refused(call)

    def _end_wait(self, job_id: UUID) -> None:
        self._execute("UPDATE jobs SET run_at = clock_timestamp() WHERE id = :job", job_id)

    def _execute(self, statement: str, job_id: UUID | None = None) -> None:
        with self._sessions.begin() as session:
            session.execute(text(statement), _parameters(job_id))


def _parameters(job_id: UUID | None) -> dict[str, Any]:  # of SQL
    return {} if job_id is None else {"job": job_id}
