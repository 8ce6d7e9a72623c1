"""Claims, heartbeats, results, ends and reaping in any order.

The Postgres is real.

`CHAOS_EXAMPLES=10000` lets it run through the night.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy.orm import Session, sessionmaker
from tests.chaos.histories import a_base_with_history
from tests.chaos.ledger_machine import LedgerMachine

from adaptlab_db.tables import Job
from adaptlab_services.leases import leases, recording
from adaptlab_services.lifecycle.held_leases import Claim

EXAMPLES = int(os.environ.get("CHAOS_EXAMPLES", "20"))
STEPS = 40  # in one history

Sessions = sessionmaker[Session]


def run(sessions: Sessions, folder: Path, *, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    with sessions.begin() as session:
        a_base_with_history(session)

    class Machine(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(sessions, folder)

    how = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize="CHAOS_EXAMPLES" not in os.environ,
        phases=[phase for phase in phases if phase is not Phase.explain],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(Machine, settings=how)


@pytest.mark.long("chaos at length")
@pytest.mark.slow
@pytest.mark.timeout(600 if EXAMPLES < 100 else 8 * 3600)
def test_jobs_are_what_the_model_says_whatever_the_order(sessions: Sessions, tmp_path: Path):
    run(sessions, tmp_path)


@pytest.mark.long("tests of tests")
def test_the_machine_finds_a_missing_fence(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def by_anybody(claim: Claim) -> list[object]:
        return [Job.id == claim.job_id, Job.state == "running"]

    monkeypatch.setattr(leases, "held", by_anybody)
    monkeypatch.setattr(recording, "held", by_anybody)
    with pytest.raises(AssertionError):
        run(sessions, tmp_path, phases=(Phase.generate,))
