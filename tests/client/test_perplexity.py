"""Perplexity beside the scores of a study, of which lower is better."""

import csv
import io
import math
import statistics

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.comparing import Run, run_all
from tests.text_studies import BY_PERPLEXITY, PERPLEXITY, RECORDS, a_text_study, measure

from adaptlab.metrics.perplexity import LARGEST_PERPLEXITY
from adaptlab.statistics.distributions import student_quantile
from adaptlab_client import Client
from adaptlab_db.tables import StudyPass
from adaptlab_services.studies.question_plans import plan_due

Sessions = sessionmaker[Session]
MEAN = PERPLEXITY + 1
NATS = [math.log(PERPLEXITY + seed) for seed in range(3)]
REACH = student_quantile(2, 0.975) * statistics.stdev(NATS) / math.sqrt(3)
LOW, HIGH = (math.exp(statistics.fmean(NATS) + side * REACH) for side in (-1, 1))


@pytest.fixture(scope="module")
def study(shared_client: Client, shared_sessions: Sessions) -> str:
    shared_client.datasets.upload_records("reviews", RECORDS)
    shared_client.studies.create(a_text_study(BY_PERPLEXITY) | {"tuning": {"trials": 2}})
    measure(shared_sessions)
    return "texts"


def test_a_comparison_has_it_by_method_and_seed(shared_client: Client, study: str) -> None:
    (table,) = shared_client.studies.comparison(study).tables
    assert table.comparison is not None
    assert [row.score.mean for row in table.comparison.cells[0].rows] == [0.5, 0.5]
    assert [one.metric for one in table.metrics] == ["perplexity"] * 2
    for one in table.metrics:
        assert [(s.seed, s.score) for s in one.seed_scores] == [
            (seed, pytest.approx(PERPLEXITY + seed)) for seed in range(3)
        ]
        assert one.mean == pytest.approx(MEAN)
        assert (one.low, one.high) == pytest.approx((LOW, HIGH))
    assert [[t.validation_metric for t in m.sweep] for m in table.methods] == [[5.0, 4.0]] * 2


def test_the_command_line_says_that_lower_is_better(shared_invoke: Invoke, study: str) -> None:
    words = " ".join(shared_invoke("compare", study).stdout.split())
    assert "trained Perplexity 95 %" in words
    assert "(6)" in words
    assert "600.0 %" not in words


def test_replicates_have_a_number_and_no_share(
    shared_client: Client, shared_invoke: Invoke, study: str
) -> None:
    job = next(iter(shared_client.jobs.list(filter="metrics.perplexity.n = 3")))
    table = shared_invoke("jobs", "replicates", job.id).stdout
    assert "400.0 %" not in table
    listed = shared_invoke("jobs", "replicates", job.id, "-o", "csv").stdout
    values = {
        line["trial"]: line["validation_metric"] for line in csv.DictReader(io.StringIO(listed))
    }
    assert {trial: float(value) for trial, value in values.items()} == {"0": 5.0, "1": 4.0}


def test_a_loss_that_is_not_finite_counts_as_the_largest(
    client: Client, sessions: Sessions, invoke: Invoke
) -> None:
    client.datasets.upload_records("reviews", RECORDS)
    client.studies.create(a_text_study(BY_PERPLEXITY))
    losses = (math.log(5), 800.0, None)
    run_all(sessions, lambda _: Run(right=200, figures=lambda seed: {"loss": losses[seed]}))
    (table,) = client.studies.comparison("texts").tables
    for one in table.metrics:
        scores = [s.score for s in one.seed_scores]
        assert scores == [pytest.approx(5), LARGEST_PERPLEXITY, LARGEST_PERPLEXITY]
        assert one.mean == pytest.approx(2 / 3 * LARGEST_PERPLEXITY)
        assert (one.low, one.high) == (1, LARGEST_PERPLEXITY)
    assert "6.667e+29" in invoke("compare", "texts").stdout
    assert (
        len(
            [*client.jobs.list(filter="metrics.perplexity.max > 9e29 AND metrics.perplexity.n = 3")]
        )
        == 2
    )


def test_a_question_chooses_the_rate_of_the_lowest(client: Client, sessions: Sessions) -> None:
    """Though the last of three rates has the highest accuracy on validation."""
    client.datasets.upload_records("reviews", RECORDS)
    document = a_text_study(BY_PERPLEXITY) | {
        "question": {"at_most": {"seeds": 4}},
        "tuning": {"learning_rates": [0.001, 0.01, 0.1]},
    }
    del document["seeds"]
    client.studies.create(document)
    for _ in range(2):
        run_all(sessions, lambda _: Run(right=200, metrics=(9.0, 5.0, 7.0)))
        plan_due(sessions, 1000)
    with sessions() as session:
        passes = session.scalars(select(StudyPass)).all()
    assert {(one.kind, *one.rates) for one in passes} == {
        ("sweep", 0.001, 0.01, 0.1),
        ("evidence", 0.01),
    }
