"""Reports of a run are stored whole, under the fence, and once."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker
from tests.ledgers import WAYS, ledger_by, only_beside_the_database
from tests.making import (
    a_claim,
    a_job,
    a_summary,
    an_adapt_spec,
    an_attention_map,
    an_environment,
    an_evaluation,
    answers_given,
    items_shown,
    map_content,
    metric_points,
    weights_content,
)
from tests.services.recorded import MAP, WEIGHTS, a_whole_run, record_a_whole_run
from tests.watching import statements

from adaptlab.runs import allowed as reports
from adaptlab.runs import events as results
from adaptlab_db.artifacts import streamed
from adaptlab_db.tables import (
    AttemptRow,
    AttentionMapRow,
    AttentionSummaryRow,
    CheckpointRow,
    EvaluationRow,
    GivenAnswers,
    ItemOutcome,
    Job,
    JobEvent,
    MetricPointRow,
    Replicate,
    ShownItems,
    Table,
)
from adaptlab_services.errors import LeaseLost, ReportRefused
from adaptlab_services.leases import recording
from adaptlab_services.leases.leases import DatabaseLedger, Ledger
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
NAMES = ("train_loss", "a 'name', {in} \"quotes\"")
RESULTS = (
    Replicate,
    MetricPointRow,
    EvaluationRow,
    ItemOutcome,
    AttentionMapRow,
    AttentionSummaryRow,
)


@pytest.fixture(params=WAYS)
def ledger(
    request: pytest.FixtureRequest, sessions: Sessions, settings: Settings
) -> Iterator[Ledger]:
    """A worker's door to jobs and results, of either kind."""
    with ledger_by(request.param, sessions, settings) as door:
        yield door


@pytest.fixture
def claim(sessions: Sessions, ledger: DatabaseLedger) -> Claim:
    return claimed(sessions, ledger)


def claimed(sessions: Sessions, ledger: Ledger, **changes: Any) -> Claim:
    """The lease of a new job that records attention, with a changed spec."""
    spec = an_adapt_spec(**{"capture": {"attention": {"samples": 1}}} | changes)
    with sessions.begin() as session:
        a_job(session, spec)
    return a_claim(ledger)


def many_points(replicates: int) -> results.Metrics:
    """The curves of so many replicates, of 399 points each."""
    each = (metric_points(range(1, 400), replicate=number) for number in range(replicates))
    return results.Metrics(points=tuple(point for points in each for point in points))


def rows(sessions: Sessions, table: type[Table]) -> list[Any]:
    with sessions() as session:
        return list(session.scalars(select(table)))


def count(sessions: Sessions, table: type[Table]) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def events(sessions: Sessions, job_id: UUID) -> list[JobEvent]:
    with sessions() as session:
        found = select(JobEvent).where(JobEvent.job_id == job_id).order_by(JobEvent.sequence)
        return list(session.scalars(found))


def test_every_event_finds_its_table(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    record_a_whole_run(ledger, claim)
    (attempt,) = rows(sessions, AttemptRow)
    assert attempt.environment == an_environment().model_dump()
    assert attempt.first_step_at is not None
    assert rows(sessions, Job)[0].step == 4
    assert [(p.name, p.replicate, p.step, p.value) for p in rows(sessions, MetricPointRow)] == [
        ("train_loss", 0, 1, 1 / 2),
        ("train_loss", 0, 2, 1 / 3),
        ("train_loss", 0, 3, 1 / 4),
    ]
    rate = claim.resolved_spec.training.trials[0].learning_rate
    assert [(r.replicate, r.learning_rate) for r in rows(sessions, Replicate)] == [
        (0, rate),
        (1, rate),
    ]
    assert {(e.replicate, e.split, e.task_name) for e in rows(sessions, EvaluationRow)} == {
        (0, "test", "sort_descending"),
        (1, "test", "sort_descending"),
    }
    assert [o.bits for o in rows(sessions, ItemOutcome)] == [b"\xff\xf0"] * 2


def test_maps_and_checkpoints_are_stored_with_their_content(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    record_a_whole_run(ledger, claim)
    (attention,) = rows(sessions, AttentionMapRow)
    assert (attention.shape, attention.source) == ([1, 1, 1, 5, 7], "adapted")
    tokens, answers = [[2, 0, 3, 3, 2]], [[3, 2, 0]]
    assert attention.samples == {"tokens": tokens, "predictions": answers, "texts": []}
    assert b"".join(streamed(sessions, attention.artifact_sha256)) == map_content()
    assert rows(sessions, AttentionSummaryRow)[0].learned_mass == 0.5
    (checkpoint,) = rows(sessions, CheckpointRow)
    assert checkpoint.tensors == {"blocks.0.attn.input": [2, 8]}
    assert b"".join(streamed(sessions, checkpoint.artifact_sha256)) == weights_content()


def test_items_and_answers_are_stored_as_they_were_reported(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    record_a_whole_run(ledger, claim)
    (shown,) = rows(sessions, ShownItems)
    assert (shown.task_place, shown.task) == (0, claim.resolved_spec.evaluation_tasks[0])
    assert shown.items == items_shown().model_dump(mode="json")["items"]
    given = rows(sessions, GivenAnswers)
    assert [(one.replicate, one.seed, one.attached) for one in given] == [
        (0, 0, True),
        (1, 1, True),
    ]
    assert given[0].answers == answers_given().model_dump(mode="json")["answers"]
    ledger.record(claim, [answers_given(right=3), answers_given(right=2)])
    again = rows(sessions, GivenAnswers)
    assert len(again) == 2
    assert answers_given(right=2).model_dump(mode="json")["answers"] in [o.answers for o in again]


def test_followers_are_told_what_there_is(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    record_a_whole_run(ledger, claim)
    told = events(sessions, claim.job_id)
    assert [(e.sequence, e.type, e.attempt) for e in told] == [
        (1, "running", 1),
        (2, "started", 1),
        (3, "replicates", 1),
        (4, "evaluations", 1),
        (5, "answers", 1),
        (6, "attention", 1),
        (7, "checkpoints", 1),
        (8, "first_step", 1),
    ]
    assert [told[place].data for place in (3, 4)] == [{"count": 2}] * 2
    assert told[1].data["environment"]["device"] == "cpu"


def test_a_batch_that_is_sent_twice_is_stored_once(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    tables = (*RESULTS, CheckpointRow, ShownItems, GivenAnswers)
    record_a_whole_run(ledger, claim)
    once = [count(sessions, table) for table in tables]
    record_a_whole_run(ledger, claim)
    assert [count(sessions, table) for table in tables] == once
    assert [e.type for e in events(sessions, claim.job_id)].count("first_step") == 1


def test_the_last_report_wins(sessions: Sessions, ledger: DatabaseLedger, claim: Claim) -> None:
    def point(value: float | None) -> results.Metrics:
        at = {"replicate": 0, "name": "train_loss", "step": 1}
        return results.Metrics(points=(results.MetricPoint(**at, value=value),))

    ledger.record(claim, [point(3.0), point(2.0)])
    assert [p.value for p in rows(sessions, MetricPointRow)] == [2.0]
    ledger.record(claim, [point(None)])
    assert [p.value for p in rows(sessions, MetricPointRow)] == [None]
    ledger.record(claim, [results.Evaluated(evaluation=an_evaluation())])
    better = an_evaluation(correct=16, outcomes="ffff")
    ledger.record(claim, [results.Evaluated(evaluation=better)])
    assert [e.correct for e in rows(sessions, EvaluationRow)] == [16]
    assert [o.bits for o in rows(sessions, ItemOutcome)] == [b"\xff\xff"]
    captured = an_attention_map(summaries=(a_summary(entropy=0.5),))
    artifacts = {MAP: ledger.put_artifact(claim, [map_content()]).sha256}
    for attention in (an_attention_map(), captured):
        event = results.AttentionCaptured(attention=attention, path=MAP)
        ledger.record(claim, [event], artifacts)
    assert [s.entropy for s in rows(sessions, AttentionSummaryRow)] == [0.5]


def test_the_same_task_with_other_knobs_is_another_evaluation(
    sessions: Sessions, ledger: DatabaseLedger
) -> None:
    tasks = [{"name": "sort_descending", "length": 3, "alphabet": size} for size in (3, 4)]
    claim = claimed(sessions, ledger, evaluation={"tasks": tasks, "samples": 16})
    batch: list[results.Event] = [
        results.Evaluated(evaluation=an_evaluation(task=task))
        for task in claim.resolved_spec.evaluation_tasks
    ]
    ledger.record(claim, batch)
    assert {e.task["alphabet"] for e in rows(sessions, EvaluationRow)} == {3, 4}


@only_beside_the_database
def test_a_thousand_points_are_one_statement(sessions: Sessions, ledger: DatabaseLedger) -> None:
    claim = claimed(sessions, ledger, training={"steps": 399, "batch_size": 4}, seeds=3)
    with statements(sessions) as sent:
        ledger.record(claim, [many_points(3)])
    assert count(sessions, MetricPointRow) == 3 * 399
    assert len([s for s in sent if "metric_points" in s and "INSERT" in s]) == 1


@only_beside_the_database
@pytest.mark.parametrize("few", [recording.FEW_POINTS, 0])
def test_of_points_that_were_there_before_only_the_value_changes(
    sessions: Sessions,
    ledger: DatabaseLedger,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One old point among new ones, of two curves; one name needs quotes.

    The same of few points, and of many, of which old ones are not looked for at first.
    """
    monkeypatch.setattr(recording, "FEW_POINTS", few)
    monkeypatch.setattr(reports, "curves", lambda: dict.fromkeys(NAMES, (0.0, 1e9)))
    claim = claimed(sessions, ledger, training={"steps": 9, "batch_size": 4})

    def points(steps: range, value: float) -> results.Metrics:
        return results.Metrics(
            points=tuple(
                results.MetricPoint(replicate=1, name=name, step=step, value=value + step)
                for name in NAMES
                for step in steps
            )
        )

    ledger.record(claim, [points(range(1, 6), 0.1)])
    with statements(sessions) as sent:
        ledger.record(claim, [points(range(5, 9), 1e-30)])
    assert len([s for s in sent if "metric_points" in s and "ON CONFLICT" in s]) == 1
    found = {(p.name, p.step): p.value for p in rows(sessions, MetricPointRow)}
    for name in NAMES:
        curve = [found[name, step] for step in range(1, 9)]
        assert curve == [
            *(0.1 + step for step in range(1, 5)),
            *(1e-30 + step for step in range(5, 9)),
        ]


def test_points_belong_to_an_attempt_that_there_is(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    """As by a foreign key, of which they have none."""
    ledger.record(claim, [results.Metrics(points=metric_points())])
    for statement in (
        "INSERT INTO metric_points SELECT job_id, 2, name, replicate, step FROM metric_points",
        "UPDATE metric_points SET attempt = 2",
    ):
        with pytest.raises(IntegrityError, match="no attempt 2"), sessions.begin() as session:
            session.execute(text(statement))
    with sessions.begin() as session:
        other = a_job(session, state="running")
        point = {"name": "loss", "replicate": 0, "step": 1}
        session.add(MetricPointRow(job_id=other, attempt=1, **point))
    with sessions.begin() as session:
        session.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": claim.job_id})
    assert [p.job_id for p in rows(sessions, MetricPointRow)] == [other]


def test_no_number_of_points_is_too_large(sessions: Sessions, ledger: DatabaseLedger) -> None:
    claim = claimed(sessions, ledger, training={"steps": 399, "batch_size": 4}, seeds=51)
    ledger.record(claim, [many_points(51)])
    assert count(sessions, MetricPointRow) == 51 * 399 > 20_000


def test_the_first_step_is_noted_once_and_at_once(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    ledger.record(claim, [results.Progress(phase="training", step=0, total=4)])
    assert rows(sessions, AttemptRow)[0].first_step_at is None
    ledger.record(claim, [results.Progress(phase="training", step=1, total=4)])
    first = rows(sessions, AttemptRow)[0].first_step_at
    assert first is not None
    ledger.record(claim, [results.Progress(phase="training", step=2, total=4)])
    assert rows(sessions, AttemptRow)[0].first_step_at == first


def test_an_artifact_that_is_not_stored_is_refused_with_the_whole_batch(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    nowhere = {MAP: "0" * 64, WEIGHTS: "0" * 64}
    with pytest.raises(ReportRefused, match="was sent for this job") as refused:
        ledger.record(claim, a_whole_run(), nowhere)
    assert not refused.value.is_for_good  # another attempt sends it again
    assert [count(sessions, table) for table in RESULTS] == [0] * len(RESULTS)
    assert len(events(sessions, claim.job_id)) == 1


def lose(sessions: Sessions, ledger: DatabaseLedger, stale: Claim) -> Claim:
    """Let the lease end and another worker take the job up."""
    with sessions.begin() as session:
        session.execute(update(Job).values(lease_expires_at=func.now() - text("interval '1 h'")))
        assert reap(session).count == 1
        session.execute(update(Job).values(run_at=func.now()))
    fresh = a_claim(ledger)
    assert fresh.attempt == stale.attempt + 1
    return fresh


def test_a_worker_that_lost_its_lease_records_nothing(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    lose(sessions, ledger, claim)
    told = len(events(sessions, claim.job_id))
    with pytest.raises(LeaseLost):
        ledger.record(claim, [e for e in a_whole_run() if not hasattr(e, "path")])
    assert [count(sessions, table) for table in RESULTS] == [0] * len(RESULTS)
    assert len(events(sessions, claim.job_id)) == told


def test_without_the_fencing_token_a_stale_record_is_accepted(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(sessions, ledger, claim)
    monkeypatch.setattr(recording, "held", lambda c: [Job.id == c.job_id, Job.state == "running"])
    ledger.record(claim, [results.Metrics(points=metric_points())])
    assert count(sessions, MetricPointRow) == 3


def test_a_job_that_has_ended_takes_no_results(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    ledger.finish(claim)
    with pytest.raises(LeaseLost):
        ledger.record(claim, [results.Metrics(points=metric_points())])
    assert count(sessions, MetricPointRow) == 0


def test_two_attempts_keep_their_results_apart(
    sessions: Sessions, ledger: DatabaseLedger, claim: Claim
) -> None:
    """The job shows the results of its own attempt; the others are kept."""
    record_a_whole_run(ledger, claim)
    fresh = lose(sessions, ledger, claim)
    record_a_whole_run(ledger, fresh)
    ledger.finish(fresh)
    with sessions() as session:
        for table in (Replicate, MetricPointRow, EvaluationRow, AttentionMapRow, CheckpointRow):
            total = session.scalar(select(func.count()).select_from(table))
            shown = session.scalar(
                select(func.count())
                .select_from(table)
                .join(Job, (Job.id == table.job_id) & (Job.attempt == table.attempt))
            )
            assert (total, shown) == (2 * (shown or 0), shown)
