"""Scores of groups are those that lm-eval's own function gives."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.standard_groups import scored
from tests.texts import stored

from adaptlab.comparisons.group_scores import group_scores
from adaptlab.records.task_groups import group_records, staged_group
from adaptlab.specs.spec import TaskGroup
from adaptlab_client.machine.benchmark_generation import NotRendered
from adaptlab_client.machine.harness_files import averaged, subtasks

SIZES = (2, 31, 7, *range(40, 150))


@pytest.mark.parametrize("by_size", [True, False])
def test_a_score_is_that_of_the_harness(by_size: bool) -> None:
    rng = np.random.default_rng(7)
    tasks = [{"name": "benchmark", "tasks": [f"task_{size}"]} for size in SIZES]
    told = [
        scored(task, [int(bit) for bit in rng.integers(0, 2, size)])
        for task, size in zip(tasks, SIZES, strict=True)
    ]
    places = tuple(range(len(SIZES)))
    group = TaskGroup(name="all", metric="acc", weight_by_size=by_size, tasks=places)
    (score,) = group_scores([group], tasks, told)
    results = {
        f"task_{one.total}": {"acc,none": one.accuracy, "sample_len": one.total} for one in told
    }
    theirs = of_harness(results, {"metric": "acc", "weight_by_size": by_size})
    assert score.accuracy.mean == theirs["acc,none"], "to the last digit"
    assert score.items == theirs["sample_len"]


def of_harness(results: dict[str, Any], metric: dict[str, Any]) -> Any:
    """Return what lm-eval's group makes of the results of its tasks."""
    from lm_eval.api.group import Group

    class Listed(Group):
        def get_all_tasks(self, recursive: bool = True) -> Any:
            return [SimpleNamespace(task_name=name) for name in results]

    return Listed.from_config({"group": "all", "aggregate_metric_list": [metric]}).aggregate(
        results
    )


@pytest.mark.parametrize(
    ("group", "found"),
    [
        ("mmlu", [("acc", None, True)]),
        ("mmlu_pro", [("exact_match", ("custom-extract",), True)]),
        ("glue", []),
        ("arc_easy", []),
        ("mmlu_stem_tasks", []),
    ],
)
def test_what_a_group_averages_is_read(group: str, found: list[object]) -> None:
    metrics = averaged(group)
    assert [(one.metric, one.filters, one.weight_by_size) for one in metrics] == found
    assert len(subtasks("mmlu")) == 57


def test_a_large_group_keeps_its_tasks_and_their_order(tmp_path: Path) -> None:
    tasks = subtasks("belebele")
    kept = stored(tmp_path, group_records("belebele", tasks), "belebele-0-shots")
    group = staged_group(kept.facts, "belebele")
    assert group is not None
    assert group.tasks == tasks
    assert (len(tasks), len(subtasks("blimp"))) == (122, 67)
    assert tasks != tuple(sorted(tasks)), "a sum over them would end in other digits"
    with pytest.raises(NotRendered, match="798 tasks, and 128 are the limit"):
        subtasks("mmmlu")
