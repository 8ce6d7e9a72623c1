"""Drift on neutral texts in a job's scores and in comparisons."""

import math
from collections.abc import Iterator
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, Run, a_measured_job, write_run
from tests.making import (
    a_base_model,
    a_claim,
    a_made_up_ledger,
    a_principal,
    an_adapt_spec,
)

from adaptlab.runs.events import Evaluated, Evaluation, Measure
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_services.comparisons import comparisons
from adaptlab_services.jobs import jobs
from adaptlab_services.results import results

Sessions = sessionmaker[Session]
PASSAGES, TOKENS, BYTES = 20, 10.0, 40.0
NEUTRAL: dict[str, object] = {
    "name": "neutral_text", "dataset": {"name": "manual"}, "metric": "kl_from_base",
}  # fmt: skip


def read(spec: ResolvedSpec) -> Iterator[Evaluated]:
    """Yield 0.2 nats per token from the base, and 8 more nats per passage.

    The base has 20 nats per passage of 40 bytes.
    """
    trials = len(spec.training.trials)
    for place, seed in enumerate(spec.seeds):
        for attached in (True, False):
            row = (2.0, 28.0) if attached else (0.0, 20.0)
            statistics = np.tile([*row, TOKENS, BYTES], (PASSAGES, 1))
            measure = Measure(
                metric="kl_from_base",
                value=row[0] / TOKENS,
                statistics=as_text(packed(statistics)),
            )
            yield Evaluated(
                evaluation=Evaluation(
                    replicate=place * trials + trials - 1, seed=seed, task=NEUTRAL, split="test",
                    attached=attached, correct=0, total=PASSAGES, outcomes="00" * 3,
                    clusters=tuple(n // 4 for n in range(PASSAGES)), measures=(measure,),
                )
            )  # fmt: skip


@pytest.fixture
def job(sessions: Sessions) -> UUID:
    """A job of three seeds that watched the texts."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
        who = a_principal(session)
        document = a_measured_job(method={"name": "lora", "rank": 1}, budget={}, seeds=[0, 1, 2])
        found = jobs.create(session, who, an_adapt_spec(**document)).job.id
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    write_run(ledger, claim, Run(right=300))
    ledger.record(claim, [*read(claim.resolved_spec)])
    ledger.finish(claim)
    return found


def test_a_job_has_its_drift_and_no_retention_of_the_texts(sessions: Sessions, job: UUID) -> None:
    with sessions.begin() as session:
        scored = results.evaluations(session, job)
    (drift,) = scored.drift
    assert scored.retention == ()
    assert (drift.kl, drift.kl_low, drift.kl_high) == pytest.approx((0.2, 0.2, 0.2))
    assert drift.bits_base == pytest.approx(20 / math.log(2) / 40)
    assert drift.bits_change == pytest.approx(8 / math.log(2) / 40)
    assert (drift.seeds, drift.passages, drift.clusters) == ((0, 1, 2), PASSAGES, 5)
    assert drift.bytes == PASSAGES * BYTES


def test_a_comparison_has_the_drift_of_its_rows(sessions: Sessions, job: UUID) -> None:
    with sessions.begin() as session:
        (table,) = comparisons.of_jobs(session, (job,)).tables
    (row,) = table.retention
    assert (row.tasks, table.frontiers) == ((), ())
    assert row.drift[0].kl == pytest.approx(0.2)
