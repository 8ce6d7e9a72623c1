"""The checker: a correct history passes, planted violations are found."""

from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.chaos.histories import a_base_with_history, complete, report
from tests.chaos.invariants import INVARIANTS, violations
from tests.making import a_made_up_ledger, a_principal, a_worker, an_adapt_spec

from adaptlab_services.jobs import jobs
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.leases.reaping import reap

Sessions = sessionmaker[Session]


@pytest.fixture
def histories(sessions: Sessions, tmp_path: Path) -> dict[str, UUID]:
    """One job of each kind of life, all of them lawful."""
    ledger = a_made_up_ledger(sessions)
    with sessions.begin() as session:
        a_base_with_history(session)
    made: dict[str, UUID] = {}
    made["succeeded"] = _claimed(sessions, ledger, tmp_path, "finish")
    made["lost_once"] = _claimed(sessions, ledger, tmp_path, "lost")
    made["cancelled"] = _claimed(sessions, ledger, tmp_path, "stopped")
    made["running"] = _claimed(sessions, ledger, tmp_path, "nothing")
    made["queued"] = submitted(sessions)
    return made


def submitted(sessions: Sessions) -> UUID:
    with sessions.begin() as session:
        return jobs.create(session, a_principal(session), an_adapt_spec(seeds=1)).job.id


def _claimed(sessions: Sessions, ledger: DatabaseLedger, folder: Path, end: str) -> UUID:
    job_id = submitted(sessions)
    claim = ledger.claim(a_worker(ledger), ["cpu"])
    assert claim is not None
    assert claim.job_id == job_id
    report(ledger, claim, folder)
    if end == "finish":
        ledger.finish(claim)
    elif end == "stopped":
        with sessions.begin() as session:
            jobs.cancel(session, a_principal(session), job_id)
        ledger.stopped(claim)
    elif end == "lost":
        planted(sessions, "UPDATE jobs SET lease_expires_at = now() WHERE id = :job", job_id)
        with sessions.begin() as session:
            assert reap(session).count == 1
        planted(sessions, "UPDATE jobs SET run_at = now() WHERE id = :job", job_id)
        again = ledger.claim(a_worker(ledger), ["cpu"])
        assert again is not None
        complete(ledger, again, folder)
    return job_id


def planted(sessions: Sessions, statement: str, job_id: UUID) -> None:
    """Change the tables behind the trigger's back."""
    with sessions.begin() as session:
        session.execute(text("SET LOCAL session_replication_role = replica"))
        done = session.execute(text(statement), {"job": job_id})
        assert done.rowcount, "the planted violation changed nothing"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - of cursors


def found(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return {violation.invariant for violation in violations(session)}


EVENT = "INSERT INTO job_events (job_id, sequence, type, attempt, data) SELECT id, "
PLANTED = {
    "a second end": (
        "succeeded",
        f"WITH e AS ({EVENT} event_sequence + 1, 'failed', attempt, '{{}}' FROM jobs "
        "WHERE id = :job) UPDATE jobs SET event_sequence = event_sequence + 1 WHERE id = :job",
        {"one_end", "nothing_after_the_end", "allowed_changes"},
    ),
    "an end that nobody told": (
        "running",
        "UPDATE jobs SET state = 'succeeded', lease_expires_at = NULL WHERE id = :job",
        {"one_end", "state_is_told", "one_success", "one_open_attempt"},
    ),
    "two claims in a row": (
        "running",
        f"WITH e AS ({EVENT} event_sequence + 1, 'running', attempt + 1, '{{}}' FROM jobs "
        "WHERE id = :job), a AS (INSERT INTO attempts (job_id, attempt, worker_id) "
        "SELECT id, attempt + 1, worker_id FROM jobs WHERE id = :job) "
        "UPDATE jobs SET event_sequence = event_sequence + 1, attempt = attempt + 1 "
        "WHERE id = :job",
        {"allowed_changes", "one_open_attempt"},
    ),
    "a word after the end": (
        "succeeded",
        f"WITH e AS ({EVENT} event_sequence + 1, 'evaluations', attempt, '{{}}' FROM jobs "
        "WHERE id = :job) UPDATE jobs SET event_sequence = event_sequence + 1 WHERE id = :job",
        {"nothing_after_the_end"},
    ),
    "an event that is missing": (
        "running",
        "DELETE FROM job_events WHERE job_id = :job AND type = 'first_step'",
        {"no_gaps"},
    ),
    "a write of an attempt that is over": (
        "lost_once",
        "UPDATE job_events SET attempt = 1 WHERE job_id = :job AND type = 'checkpoints' "
        "AND attempt = 2",
        {"attempts_rise"},
    ),
    "an attempt number used again": (
        "running",
        "UPDATE jobs SET attempt = attempt + 1 WHERE id = :job",
        {"attempts_rise"},
    ),
    "an attempt left open": (
        "succeeded",
        "UPDATE attempts SET ended_at = NULL, outcome = NULL WHERE job_id = :job",
        {"one_open_attempt", "one_success"},
    ),
    "two attempts that succeeded": (
        "lost_once",
        "UPDATE attempts SET outcome = 'succeeded' WHERE job_id = :job AND attempt = 1",
        {"one_success"},
    ),
    "a step that is missing": (
        "succeeded",
        "DELETE FROM metric_points WHERE job_id = :job AND step = 2",
        {"whole_results"},
    ),
    "results of an earlier attempt only": (
        "lost_once",
        "UPDATE checkpoints SET attempt = 1, kind = 'other' WHERE job_id = :job AND attempt = 2",
        {"whole_results"},
    ),
    "a score without its items": (
        "succeeded",
        "DELETE FROM item_outcomes WHERE evaluation_id IN "
        "(SELECT id FROM evaluations WHERE job_id = :job)",
        {"whole_results"},
    ),
    "success after a cancellation": (
        "succeeded",
        "UPDATE job_events SET type = 'cancel_requested' WHERE job_id = :job "
        "AND type = 'evaluations'",
        {"cancel_is_heeded"},
    ),
    "a changed byte": (
        "succeeded",
        "UPDATE artifact_chunks SET content = set_byte(content, 0, get_byte(content, 0) # 1) "
        "WHERE sha256 IN (SELECT artifact_sha256 FROM checkpoints WHERE job_id = :job)",
        {"bytes_match_names"},
    ),
    "a piece that is missing": (
        "succeeded",
        "DELETE FROM artifact_chunks WHERE sha256 IN "
        "(SELECT artifact_sha256 FROM checkpoints WHERE job_id = :job)",
        {"bytes_match_names"},
    ),
    "a worker that was forgotten": (
        "running",
        "UPDATE jobs SET lease_expires_at = now() - interval '1 minute' WHERE id = :job",
        {"leases_are_taken_back"},
    ),
}


def test_lawful_lives_break_nothing(sessions: Sessions, histories: dict[str, UUID]) -> None:
    assert found(sessions) == set()


@pytest.mark.long("tests of tests", but=1)
@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_violation_is_found(
    what: str, sessions: Sessions, histories: dict[str, UUID]
) -> None:
    whose, statement, broken = PLANTED[what]
    planted(sessions, statement, histories[whose])
    assert broken <= found(sessions)


def test_every_invariant_has_a_violation_planted() -> None:
    assert {name for *_, broken in PLANTED.values() for name in broken} == {
        invariant.name for invariant in INVARIANTS
    }
