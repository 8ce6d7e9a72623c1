"""Scores of groups of standard tasks in comparisons, bundles and trackers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.comparing import Run, write_run
from tests.making import a_made_up_ledger
from tests.standard_groups import EQUALLY, SIZES, scored, staged
from tests.text_studies import RECORDS, a_text_study
from tests.texts import COMPLETION

from adaptlab.bundle.checking import check_bundle
from adaptlab.runs.events import Evaluated
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_client import Client
from adaptlab_client.trackers.tracked_runs import tracked_runs

Sessions = sessionmaker[Session]
SEEDS = 3
METHODS = {"lora": (1, 1, 1), "prefix_tuning": (0, 1, 0)}
"""Right items of the small task."""
MEANS = {"lora": (1 + 1 / 8) / 2, "prefix_tuning": (1 / 3 + 1 / 8) / 2}


@pytest.fixture(scope="module")
def study(shared_client: Client, shared_sessions: Sessions) -> str:
    """A study of texts that watches a group whose tasks are equal."""
    for name, records in {"reviews": RECORDS, **staged(metric=EQUALLY)}.items():
        shared_client.datasets.upload_records(name, records)
    watched = {"name": "benchmark", "tasks": ["science"], "tokens": {"longest": 40}}
    document = a_text_study(COMPLETION)
    document["evaluation"] = {"samples": 16, "tasks": [watched]}
    shared_client.studies.create(document)
    ledger = a_made_up_ledger(shared_sessions)
    worker = ledger.register_worker("laptop", 4711, ["cpu"])
    while (claim := ledger.claim(worker, ["cpu"])) is not None:
        write_run(ledger, claim, Run(right=200))
        ledger.record(claim, [*_on_the_group(claim.resolved_spec)])
        ledger.finish(claim)
    return "texts"


def _on_the_group(spec: ResolvedSpec) -> Iterator[Evaluated]:
    if spec.kind == "pretrain":
        return
    trials = len(spec.training.trials)
    small = METHODS[str((spec.method or {})["name"])]
    for seed in range(SEEDS):
        for task in (one for one in spec.evaluation_tasks if one["name"] == "benchmark"):
            is_small = task["tasks"] == ["arc_easy"]
            right = small if is_small else (1,) + (0,) * 7
            place = (seed + 1) * trials - 1
            for attached in (True, False):
                of = right if attached else (0,) * SIZES["arc_easy" if is_small else "sciq"]
                told = scored(task, of, seed).model_copy(
                    update={"replicate": place, "attached": attached}
                )
                yield Evaluated(evaluation=told)


def test_a_comparison_has_them_by_method(shared_client: Client, study: str) -> None:
    (table,) = shared_client.studies.comparison(study).tables
    found = {one.method: one.groups for one in table.groups}
    assert found.keys() == MEANS.keys()
    for method, (score,) in found.items():
        assert score.accuracy.mean == MEANS[method]
        assert score.accuracy.seeds == SEEDS
        assert score.accuracy.low < MEANS[method] < score.accuracy.high
        assert score.alone is not None
        assert (score.label, score.alone.mean) == ("science (0 shots)", 0.0)
    wide = shared_client.comparisons.study(study, level=0.99).tables[0].groups[0].groups[0]
    assert wide.accuracy.level == 0.99


def test_they_are_printed_and_bundled(
    shared_client: Client, study: str, shared_invoke: Invoke, tmp_path: Path
) -> None:
    text = shared_invoke("compare", study).stdout.partition("Groups of standard tasks")[2]
    assert "science (0 shots), acc" in text
    assert "56.2 % (" in text
    place = shared_client.studies.bundle(study, tmp_path / "texts.zip")
    assert check_bundle(place).findings == ()


def test_a_tracker_has_them_at_the_jobs(shared_client: Client, study: str) -> None:
    runs = [*tracked_runs(shared_client, shared_client.studies.get(study))]
    points = {
        run.parameters["method"]: {one.name: one.value for one in run.points}
        for run in runs
        if run.parameters.get("method") in MEANS
    }
    for method, mean in MEANS.items():
        assert points[method]["test/science/acc"] == mean
        assert points[method]["test/science/acc_low"] < mean
