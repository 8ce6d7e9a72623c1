"""Figures over seeds, stored at success and for older jobs alike."""

import math
from statistics import mean, stdev

import pytest
from scipy import stats
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ITEMS, OWN_TASK, Run, run_all
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_ledger,
    a_replicate,
    an_adapt_spec,
    an_evaluation,
)

from adaptlab.runs import events
from adaptlab.statistics import seed_interval
from adaptlab_db.tables import JobMetric
from adaptlab_services.lifecycle.metric_summaries import CURVES, SeedMetric, catalogue, summary

Sessions = sessionmaker[Session]
Figures = dict[tuple[str, str], dict[str, object]]


def kept(sessions: Sessions) -> Figures:
    """Every row, by job and name, with floats rounded."""
    with sessions.begin() as session:
        rows = session.scalars(select(JobMetric)).all()
    columns = ("seeds", "items", "n", "mean", "sd", "low", "high", "min", "max", "project_id")
    return {
        (str(row.job_id), row.name): {name: _rounded(getattr(row, name)) for name in columns}
        for row in rows
    }


def _rounded(value: object) -> object:
    return round(value, 12) if isinstance(value, float) else value


def some_runs(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_adapt_spec(seeds=1))
        a_job(session, an_adapt_spec(seeds=4, tuning={"trials": 3}))
        a_job(session, an_adapt_spec(task=OWN_TASK, seeds=3))
        a_job(session, an_adapt_spec(seeds=2, method="lora", budget=64))
    run_all(
        sessions,
        lambda spec: Run(
            right=len(spec.seeds) * 50,
            shift=7,
            loss=0.125 * len(spec.seeds),
            fails=spec.method is not None and spec.method["name"] == "lora",
        ),
    )


def test_figures_are_of_the_chosen_trials(sessions: Sessions) -> None:
    some_runs(sessions)
    figures = kept(sessions)
    accuracies = {row["n"]: row for (_, name), row in figures.items() if name == "accuracy"}
    assert set(accuracies) == {1, 3, 4}
    shares = [(200 + 7 * seed) / ITEMS for seed in range(4)]
    of_four = accuracies[4]
    assert (of_four["seeds"], of_four["items"]) == ([0, 1, 2, 3], [ITEMS] * 4)
    assert of_four["mean"] == pytest.approx(mean(shares))
    assert of_four["sd"] == pytest.approx(stdev(shares))
    interval = seed_interval([200 + 7 * seed for seed in range(4)], [ITEMS] * 4)
    assert (of_four["low"], of_four["high"]) == pytest.approx((interval.low, interval.high))
    assert (of_four["min"], of_four["max"]) == (min(shares), max(shares))
    assert accuracies[1]["sd"] is None  # one seed has no deviation
    assert {name for _, name in figures} <= set(catalogue())
    assert set(CURVES) <= set(catalogue())


def test_only_the_latest_attempt_and_finite_values_count(sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_adapt_spec(seeds=2), attempts_max=5)
    for correct, outcomes in ((16, "ffff"), (4, "f000")):
        claim = a_claim(ledger)
        own = claim.resolved_spec.task
        assert own is not None
        ledger.record(
            claim,
            [
                events.ReplicatesDecided(
                    replicates=(
                        a_replicate(0, final_loss=0.5),
                        a_replicate(1, final_loss=None, status="diverged", selected=False),
                    )
                ),
                events.Evaluated(
                    evaluation=an_evaluation(0, task=own, correct=correct, outcomes=outcomes)
                ),
            ],
        )
        if correct == 16:
            ledger.release(claim, "preempted")
    assert kept(sessions) == {}
    ledger.finish(claim)
    figures = {name: row for (_, name), row in kept(sessions).items()}
    columns = ("seeds", "items", "n", "mean")
    assert {name: [row[column] for column in columns] for name, row in figures.items()} == {
        "accuracy": [[0], [16], 1, 0.25],
        "final_loss": [[0], None, 1, 0.5],
    }


def test_a_summary_of_what_is_no_share_is_students() -> None:
    values = [3.0, 4.5, 5.0, 7.25]
    found = summary("final_loss", [SeedMetric(seed, value) for seed, value in enumerate(values)])
    low, high = stats.t.interval(0.95, 3, mean(values), stdev(values) / math.sqrt(4))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert summary("final_loss", [SeedMetric(0, 3.0)]).low is None


def test_a_share_of_items_in_groups_counts_groups() -> None:
    plain = summary("accuracy", [SeedMetric(seed, 0.5, 64) for seed in range(3)])
    grouped = summary("accuracy", [SeedMetric(seed, 0.5, 64, 16.0) for seed in range(3)])
    assert plain.low is not None
    assert grouped.low is not None
    assert 0.5 - grouped.low > 1.7 * (0.5 - plain.low)


def limits_of(name: str, *values: float) -> tuple[float | None, float | None]:
    found = summary(name, [SeedMetric(seed, value) for seed, value in enumerate(values)])
    return found.low, found.high


def test_an_interval_ends_where_the_metric_does() -> None:
    assert limits_of("token_f1", 0.8, 0.99, 1.0)[1] == 1
    assert limits_of("perplexity", 1.1, 1.2, 9.0)[0] == 1
    assert limits_of("train_loss", 0.01, 0.02, 3.0)[0] == 0
    low, high = limits_of("accuracy_change", -0.9, 0.9)
    assert (low, high) == (-1, 1)
