"""Staged tasks of two sizes in a group, and scores on them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tests.benchmarks import rendering

from adaptlab.records.rendered_items import RenderedItem, dataset_of
from adaptlab.records.task_groups import GroupMetric, group_records
from adaptlab.runs.events import Evaluation

SIZES: Mapping[str, int] = {"arc_easy": 3, "sciq": 8}
BY_SIZE = GroupMetric(metric="acc")
EQUALLY = GroupMetric(metric="acc", weight_by_size=False)


def staged(
    group: str = "science", metric: GroupMetric = BY_SIZE
) -> Mapping[str, list[dict[str, str]]]:
    """Return the records of both tasks and of their group, by dataset."""
    members = {
        dataset_of(task, 0): [
            RenderedItem(number, (f"Q{number}:",) * 2, (" a", " b"), ("a", "b"), number % 2).record(
                rendering(task, choices=2, chance=0.5)
            )
            for number in range(size)
        ]
        for task, size in SIZES.items()
    }
    return {**members, dataset_of(group, 0): [*group_records(group, SIZES, [metric])]}


def scored(task: dict[str, Any], right: Sequence[int], seed: int = 0, **changes: Any) -> Evaluation:
    """Return a score whose items are right where `right` is 1."""
    return Evaluation(
        replicate=seed,
        seed=seed,
        task=task,
        split="test",
        correct=sum(right),
        total=len(right),
        outcomes=np.packbits(np.array(right, np.uint8)).tobytes().hex(),
        **changes,
    )
