"""Macro-F1 and token F1 beside the scores of a study."""

import csv
import io
import math
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.text_studies import (
    BY_F1,
    BY_MACRO_F1,
    MAJORITY,
    RECORDS,
    SIGNATURE,
    TOKEN_F1,
    a_text_study,
    measure,
)
from tests.texts import CLASSIFICATION

from adaptlab.bundle import contents
from adaptlab.bundle.checking import check_bundle
from adaptlab.statistics.distributions import student_quantile
from adaptlab_client import Client

Sessions = sessionmaker[Session]
MEANS = {"token_f1": TOKEN_F1 + 0.02, "macro_f1": 1 / 3}
"""Of the labels, one has an F1 of 2/3 and the other of 0."""


@pytest.fixture(scope="module")
def study(shared_client: Client, shared_sessions: Sessions) -> str:
    shared_client.datasets.upload_records("reviews", RECORDS)
    shared_client.studies.create(a_text_study(BY_F1, BY_MACRO_F1))
    measure(shared_sessions)
    return "texts"


def test_a_comparison_has_them_by_method_and_seed(shared_client: Client, study: str) -> None:
    completion, classification = shared_client.studies.comparison(study).tables
    assert completion.comparison is not None
    assert [row.score.mean for row in completion.comparison.cells[0].rows] == [0.5, 0.5]
    assert [one.label for one in completion.metrics] == [
        row.label for row in completion.comparison.cells[0].rows
    ]
    for one in completion.metrics:
        assert one.metric == "token_f1"
        assert [(s.seed, s.score) for s in one.seed_scores] == [
            (seed, pytest.approx(TOKEN_F1 + 0.02 * seed)) for seed in range(3)
        ]
        assert one.mean == pytest.approx(MEANS["token_f1"])
        reach = student_quantile(2, 0.975) * 0.02 / math.sqrt(3)
        assert (one.low, one.high) == pytest.approx((one.mean - reach, one.mean + reach))
    assert [(one.metric, one.mean) for one in classification.metrics] == 2 * [
        ("macro_f1", pytest.approx(1 / 3))
    ]


def test_rows_and_csv_have_them(shared_client: Client, study: str) -> None:
    lines = [*csv.DictReader(io.StringIO(shared_client.comparisons.csv(study=study)))]
    rows = [*shared_client.studies.comparison(study).rows()]
    assert len(lines) == len(rows) == 4
    for line, row in zip(lines, rows, strict=True):
        assert line["metric"] == row["metric"]
        assert float(line["metric_mean"]) == row["metric_mean"]
        assert row["metric_mean"] == pytest.approx(MEANS[line["metric"]])
        assert line["score"] == "0.5"


def test_the_scores_of_a_bundle_have_them(
    shared_client: Client, study: str, tmp_path: Path
) -> None:
    place = shared_client.studies.bundle(study, tmp_path / "texts.zip")
    assert check_bundle(place).findings == ()
    with zipfile.ZipFile(place) as archive:
        text = archive.read("tables/scores.csv").decode()
    lines = [*csv.DictReader(io.StringIO(text))]
    assert {line["metric"] for line in lines} == MEANS.keys()
    for line in lines:
        assert float(line["metric_mean"]) == pytest.approx(MEANS[line["metric"]])
    assert all(line["metric_low"] and line["metric_high"] for line in lines)


def test_guessing_is_the_majority_of_the_scored_items(
    shared_client: Client, study: str, tmp_path: Path
) -> None:
    """Which a check of the bundle computes again from its outcomes."""
    completion, classification = shared_client.studies.comparison(study).tables
    assert completion.comparison is not None
    assert classification.comparison is not None
    things = Counter(record["thing"] for record in RECORDS)
    assert completion.comparison.chance == pytest.approx(max(things.values()) / len(RECORDS))
    assert classification.comparison.chance == MAJORITY
    place = shared_client.studies.bundle(study, tmp_path / "texts.zip")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(place) as archive, zipfile.ZipFile(other, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            if name == contents.EVIDENCE:
                content = content.replace(f'"majority":{MAJORITY}'.encode(), b'"majority":null')
            changed.writestr(name, content)
    assert check_bundle(place).findings == ()
    found = {one.member for one in check_bundle(other).findings}
    assert {contents.EVIDENCE, contents.CLAIM} <= found


def test_the_command_line_says_which_one_verdicts_are_about(
    shared_invoke: Invoke, study: str
) -> None:
    told = shared_invoke("compare", study).stdout
    words = " ".join(told.split())
    assert "trained Token F1 %" in words
    assert "trained Macro-F1 %" in words
    assert "(77.0 %)" in words
    assert "(33.3 %)" in words


def test_jobs_can_be_found_by_them(shared_client: Client, study: str) -> None:
    for name, mean in MEANS.items():
        query = f"metrics.{name}.mean > {mean - 0.001} AND metrics.{name}.mean < {mean + 0.001}"
        jobs = [*shared_client.jobs.list(filter=query)]
        assert len(jobs) == 2, name
        assert not [*shared_client.jobs.list(filter=f"metrics.{name}.mean < {mean - 0.001}")]


def test_lists_name_the_dataset(shared_invoke: Invoke, study: str) -> None:
    jobs = shared_invoke("jobs", "list", "-o", "csv").stdout
    assert {line["task"] for line in csv.DictReader(io.StringIO(jobs))} == {
        "text_completion of reviews",
        "text_classification of reviews",
    }
    (line,) = csv.DictReader(io.StringIO(shared_invoke("studies", "list", "-o", "csv").stdout))
    assert line["tasks"] == "text_completion of reviews; text_classification of reviews"


def test_evaluations_have_it(shared_client: Client, shared_invoke: Invoke, study: str) -> None:
    (job, _) = shared_client.jobs.list(filter="metrics.token_f1.n = 3")
    (signatures,) = {tuple(one.signatures.items()) for one in shared_client.jobs.evaluations(job.id)
                     if one.attached}  # fmt: skip
    assert signatures == (("token_f1", SIGNATURE),)
    measured = {one.seed: one.measures["token_f1"] for one in shared_client.jobs.evaluations(job.id)
                if one.attached}  # fmt: skip
    assert measured == {seed: pytest.approx(TOKEN_F1 + 0.02 * seed) for seed in range(3)}
    listed = shared_invoke("jobs", "evaluations", job.id, "-o", "csv").stdout
    lines = [*csv.DictReader(io.StringIO(listed))]
    assert [float(line["token_F1"]) for line in lines if line["adaptation"] == "attached"] == [
        pytest.approx(value) for _, value in sorted(measured.items())
    ]


def test_a_task_without_one_has_none(client: Client, sessions: Sessions, invoke: Invoke) -> None:
    client.datasets.upload_records("reviews", RECORDS)
    client.studies.create(a_text_study(dict(CLASSIFICATION)))
    measure(sessions)
    (table,) = client.studies.comparison("texts").tables
    assert table.metrics == ()
    told = invoke("compare", "texts").stdout
    assert "F1" not in told
    assert "50.0 %" in told
