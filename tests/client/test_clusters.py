"""What groups of items do to the intervals of a study."""

from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ITEMS, Run, run_all
from tests.text_studies import BY_F1, BY_MACRO_F1, RECORDS, TOKEN_F1, a_text_study, measured
from tests.texts import CLASSIFICATION

from adaptlab.bundle.checking import check_bundle
from adaptlab.comparisons.scores import mean_accuracy
from adaptlab.runs.events import Confusion
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_client import Client, InvalidRequest
from adaptlab_db.tables import Job, JobMetric

GROUP = 4
"""Consecutive items of one document."""


def run_of(spec: ResolvedSpec) -> Run:
    """Half of the items are right: all of half of the documents."""
    task = spec.task or {}
    clusters = tuple(item // GROUP for item in range(ITEMS)) if task.get("cluster") else ()
    half, quarter = ITEMS // 2, ITEMS // 4
    counts = Confusion(labels=("neg", "pos"), counts=((half, quarter), (quarter, 0)))
    by_document = [[1.0]] * half + [[2 * TOKEN_F1 - 1]] * half
    labels = [[0, 0]] * half + [[0, 1]] * quarter + [[1, 0]] * quarter
    of_metric = {
        "token_f1": {"measures": (measured("token_f1", by_document),)},
        "macro_f1": {"measures": (measured("macro_f1", labels),), "confusion": counts},
    }
    figures = {"clusters": clusters, **of_metric.get(str(task.get("metric")), {})}
    return Run(right=ITEMS // 2, figures=lambda _: figures)


@pytest.mark.long("walks through commands and documents")
def test_intervals_count_groups_and_not_their_items(
    client: Client, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    documents = [{**row, "document": f"{n // 3}"} for n, row in enumerate(RECORDS)]
    client.datasets.upload_records("reviews", documents)
    tasks = [dict(CLASSIFICATION), BY_F1, BY_MACRO_F1]
    grouped = [{**task, "cluster": "document"} for task in tasks]
    client.studies.create(a_text_study(*tasks, *grouped))
    run_all(sessions, run_of)
    tables = client.studies.comparison("texts").tables
    cells = [table.comparison.cells[0] for table in tables if table.comparison is not None]
    widths = [cell.rows[0].score.high - cell.rows[0].score.low for cell in cells]
    # Items of a document are all right or all wrong, so four count as one.
    assert all(one > 1.7 * other for one, other in zip(widths[3:], widths[:3], strict=True))
    orders = [cell.by_metric for cell in cells]
    assert [order and order.covers_items for order in orders] == 2 * [None, True, True]
    for metric in ("token_f1", "macro_f1"):
        rows = [order.rows[0] for order in orders if order is not None and order.metric == metric]
        plain, by_group = ((row.high or 0) - (row.low or 0) for row in rows)
        assert by_group > 1.7 * plain
    scored = [
        one
        for job in client.jobs.list()
        for one in client.jobs.evaluations(job.id)
        if one.task["name"] == "text_classification" and one.attached and one.seed == 0
    ]
    alone = {one.effective_items: mean_accuracy([one]) for one in scored}
    assert alone.keys() == {None, ITEMS / GROUP}
    plain, by_group = (alone[items].high - alone[items].low for items in (None, ITEMS / GROUP))
    assert by_group > 1.5 * plain
    with sessions() as session:
        row = JobMetric
        stored = session.execute(
            select(row.high - row.low, Job.resolved_spec["task"]["cluster"].astext)
            .join(Job, Job.id == row.job_id)
            .where(row.name == "accuracy", Job.resolved_spec["kind"].astext == "adapt")
        ).all()
    plain, by_group = (
        [width for width, cluster in stored if (cluster is None) == is_plain]
        for is_plain in (True, False)
    )
    assert len(plain) == len(by_group) > 0
    assert min(by_group) > 1.5 * max(plain), "lists of jobs count groups too"
    path = client.studies.bundle("texts", tmp_path / "bundle.zip")
    assert check_bundle(path).findings == ()


def test_a_group_that_splits_would_take_apart_is_refused(client: Client) -> None:
    documents = [{**row, "document": f"{n // 3}"} for n, row in enumerate(RECORDS)]
    client.datasets.upload_records("reviews", documents)
    task = {**CLASSIFICATION, "cluster": "document", "splits": {"by": "text"}}
    with pytest.raises(InvalidRequest, match="would separate records of one 'document'"):
        client.studies.create(a_text_study(task))
