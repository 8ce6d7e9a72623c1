"""Reports of a worker are accepted only as its job's spec allows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import job
from tests.ledgers import WAYS, ledger_by
from tests.making import (
    a_base_model,
    a_checkpoint,
    a_claim,
    a_job,
    a_pretrain_spec,
    a_principal,
    weights_content,
)
from tests.security.hostile_reports import an_attacked_spec, false_reports, send

from adaptlab.runs import events
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import (
    AttentionMapRow,
    CheckpointRow,
    EvaluationRow,
    GivenAnswers,
    JobEvent,
    LeaseArtifact,
    MetricPointRow,
    Replicate,
    ShownItems,
    TheoryReportRow,
    TrainingStateRow,
)
from adaptlab_services.errors import ReportRefused
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.limits import quotas
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import collect

Sessions = sessionmaker[Session]
RESULTS = (
    Replicate,
    MetricPointRow,
    EvaluationRow,
    AttentionMapRow,
    CheckpointRow,
    TrainingStateRow,
    TheoryReportRow,
    JobEvent,
    ShownItems,
    GivenAnswers,
)
WEIGHTS = Path("weights.safetensors")


@pytest.fixture(params=WAYS)
def ledger(
    request: pytest.FixtureRequest, sessions: Sessions, settings: Settings
) -> Iterator[Ledger]:
    with ledger_by(request.param, sessions, settings) as door:
        yield door


@pytest.fixture
def claim(sessions: Sessions, ledger: Ledger) -> Claim:
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_attacked_spec())
    return a_claim(ledger)


def counts(sessions: Sessions) -> list[int]:
    with sessions() as session:
        return [session.scalar(select(func.count()).select_from(t)) or 0 for t in RESULTS]


@pytest.mark.long("many bad inputs", but=1)
def test_a_false_report_is_refused_by_its_place_and_changes_nothing(
    sessions: Sessions, ledger: Ledger, claim: Claim
) -> None:
    reports = false_reports(claim)
    assert len(reports) > 60
    before = counts(sessions)
    for name, report in reports.items():
        pointers = send(ledger, claim, report)
        assert any(pointer.endswith(report.place) for pointer in pointers), (name, pointers)
        assert all(pointer.startswith("/events/0") for pointer in pointers), (name, pointers)
    assert counts(sessions) == before
    row = job(sessions, claim.job_id)
    assert (row.state, row.step) == ("running", 0)


def test_a_true_report_beside_a_false_one_is_not_kept(
    sessions: Sessions, ledger: Ledger, claim: Claim
) -> None:
    point = events.MetricPoint(replicate=0, name="train_loss", step=1, value=0.5)
    true, false = (
        events.Metrics(points=(point.model_copy(update={"step": step}),)) for step in (1, 9)
    )
    before = counts(sessions)
    with pytest.raises(ReportRefused, match="/events/1/points/0/step"):
        ledger.record(claim, [true, false])
    assert counts(sessions) == before
    ledger.record(claim, [true])
    assert counts(sessions) != before


def test_a_refusal_is_short_however_much_is_false(ledger: Ledger, claim: Claim) -> None:
    point = events.MetricPoint(replicate=9, name="x" * 500, step=99, value=0.5)
    with pytest.raises(ReportRefused) as refused:
        ledger.record(claim, [events.Metrics(points=(point,) * 1000)])
    assert len(refused.value.problems) == 20
    assert len(str(refused.value)) < 5000


def test_a_heartbeat_gets_no_further_than_the_last_step(
    sessions: Sessions, ledger: Ledger, claim: Claim
) -> None:
    assert ledger.heartbeat(claim, 2**31 - 1) == "continue"
    assert job(sessions, claim.job_id).step == claim.resolved_spec.training.steps


def test_content_of_others_is_neither_named_nor_told_of(
    sessions: Sessions, ledger: Ledger, claim: Claim
) -> None:
    """Naming a digest does not reveal if the server has its content."""
    with sessions.begin() as session:
        others = ArtifactStore(session).write([weights_content()]).sha256
    written = events.CheckpointWritten(checkpoint=a_checkpoint(), path=WEIGHTS)
    told: list[str] = []
    for sha256 in (others, "f" * 64):
        with pytest.raises(ReportRefused) as refused:
            ledger.record(claim, [written], {WEIGHTS: sha256})
        told.append(str(refused.value).replace(sha256, "DIGEST"))
    assert told[0] == told[1]
    assert ledger.put_artifact(claim, [weights_content()]).sha256 == others
    ledger.record(claim, [written], {WEIGHTS: others})  # who has the content may name it


def test_what_is_sent_under_a_lease_counts_as_stored_before_an_event_names_it(
    sessions: Sessions, ledger: Ledger, claim: Claim
) -> None:
    with sessions.begin() as session:
        owner = a_principal(session).user_id
    ledger.put_artifact(claim, [bytes(3 * 2**20)])
    with sessions.begin() as session:
        assert quotas.usage(session, owner).stored_bytes >= 3 * 2**20


def test_content_that_nothing_names_is_collected_all_the_same(
    sessions: Sessions, ledger: Ledger, claim: Claim
) -> None:
    from datetime import timedelta

    ledger.put_artifact(claim, [b"never named"])
    assert collect(sessions, unreferenced_for=timedelta(0)).unreferenced == 1
    with sessions() as session:
        assert session.scalars(select(LeaseArtifact)).all() == []


def test_a_base_model_without_its_checkpoints_does_not_succeed(
    sessions: Sessions, ledger: Ledger
) -> None:
    with sessions.begin() as session:
        job_id = a_job(session, a_pretrain_spec(seeds=2))
    claim = a_claim(ledger)
    with pytest.raises(ReportRefused, match="0 of its 2 seeds"):
        ledger.finish(claim)
    assert job(sessions, job_id).state == "running"
    ledger.fail(claim, "system_error", "No checkpoints.", retry=False)
    assert job(sessions, job_id).state == "failed"
