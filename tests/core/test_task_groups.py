"""Groups of standard tasks: what a job keeps of them, and their scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.benchmarks import rendering
from tests.standard_groups import BY_SIZE, EQUALLY, SIZES, scored, staged
from tests.texts import stored

from adaptlab.comparisons.group_scores import GroupScore, group_scores
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import Task
from adaptlab.records.rendered_items import RenderedItem
from adaptlab.records.task_groups import GroupMetric, group_records, staged_group
from adaptlab.specs.job_tasks import evaluation_tasks, placed_tasks
from adaptlab.specs.spec import EvaluationSpec, TaskGroup
from adaptlab.specs.task_groups import task_groups
from adaptlab.statistics import mean_interval, scores_of
from adaptlab.statistics.group_interval import group_interval

RIGHT: Mapping[str, tuple[int, ...]] = {"arc_easy": (1, 0, 1), "sciq": (0, 0, 0, 1, 0, 0, 0, 0)}
TASKS: tuple[dict[str, Any], ...] = tuple({"name": "benchmark", "tasks": [one]} for one in SIZES)


Staged = Mapping[str, list[dict[str, str]]]


def watched(
    folder: Path,
    *choices: dict[str, Any],
    metric: GroupMetric = BY_SIZE,
    more: Staged | None = None,
) -> tuple[Task, ...]:
    data = [stored(folder, records, name) for name, records in staged(metric=metric).items()]
    data += [stored(folder, records, name) for name, records in (more or {}).items()]
    spec = EvaluationSpec.model_validate({"tasks": [{"name": "benchmark", **c} for c in choices]})
    return evaluation_tasks(None, placed_tasks(spec, {one.facts.name: one.facts for one in data}))


def places(tasks: tuple[Task, ...]) -> list[tuple[str, str, bool, tuple[int, ...]]]:
    return [(one.name, one.metric, one.weight_by_size, one.tasks) for one in task_groups(tasks)]


def test_a_job_keeps_the_places_of_a_groups_tasks(tmp_path: Path) -> None:
    tasks = watched(tmp_path, {"tasks": ["science"]}, metric=EQUALLY)
    assert places(tasks) == [("science", "acc", False, (0, 1))]
    assert "science" not in str([as_json(task) for task in tasks]), "equal tasks stay equal"
    assert places(watched(tmp_path, {"tasks": [*SIZES]})) == []


def test_a_group_that_is_named_twice_is_two(tmp_path: Path) -> None:
    other = {"tasks": ["science"], "tokens": {"longest": 64}}
    tasks = watched(tmp_path, {"tasks": ["science"]}, other)
    assert [places for *_, places in places(tasks)] == [(0, 1), (2, 3)]


def test_a_metric_that_is_not_averaged_has_no_score(tmp_path: Path) -> None:
    assert places(watched(tmp_path, {"tasks": ["science"], "score": "acc_norm"})) == []


def test_tasks_with_different_metrics_have_no_score(tmp_path: Path) -> None:
    passages = rendering("passages", output="loglikelihood_rolling", choices=1, chance=1.0, text=9)
    item = RenderedItem(0, ("",), ("A text",), ("A text",), 0, {"bytes": 6, "words": 2})
    group = [*group_records("mixed", ("arc_easy", "passages"), [BY_SIZE])]
    more = {"passages-0-shots": [item.record(passages)], "mixed-0-shots": group}
    tasks = watched(tmp_path, {"tasks": ["mixed"]}, more=more)
    assert (len(tasks), places(tasks)) == (2, [])


def test_a_groups_metrics_are_read_back(tmp_path: Path) -> None:
    strict = GroupMetric(metric="exact_match", filters=("strict",), weight_by_size=False)
    kept = stored(tmp_path, group_records("all", ["b", "a"], [BY_SIZE, strict]), "all-0-shots")
    group = staged_group(kept.facts, "all")
    assert group is not None
    assert (group.tasks, group.metrics) == (("b", "a"), (BY_SIZE, strict))
    assert group.member("exact_match", "flexible") is None
    member = group.member("exact_match", "strict")
    assert member is not None
    assert (member.metric, member.weight_by_size) == ("exact_match,strict", False)
    assert staged_group(kept.facts, "other") is None
    unknown = GroupMetric(metric="f1")
    assert "averaged" not in next(group_records("all", ["a"], [unknown]))


def test_a_group_of_an_earlier_version_has_a_task_per_record(tmp_path: Path) -> None:
    records = [{"group": "all", "subtask": task, "split": "test"} for task in ("b", "a")]
    group = staged_group(stored(tmp_path, records, "all-0-shots").facts, "all")
    assert group is not None
    assert group.tasks == ("a", "b")


def group_of(metric: GroupMetric = BY_SIZE) -> TaskGroup:
    by_size = metric.weight_by_size
    return TaskGroup(name="science", metric="acc", weight_by_size=by_size, tasks=(0, 1))


def score_of(metric: GroupMetric, **right: tuple[int, ...]) -> GroupScore:
    told = [scored(task, right[task["tasks"][0]]) for task in TASKS]
    (score,) = group_scores([group_of(metric)], TASKS, told)
    return score


@pytest.mark.parametrize(("metric", "mean"), [(BY_SIZE, 3 / 11), (EQUALLY, (2 / 3 + 1 / 8) / 2)])
def test_the_mean_has_the_weights_of_the_group(metric: GroupMetric, mean: float) -> None:
    score = score_of(metric, **RIGHT)
    assert score.accuracy.mean == pytest.approx(mean, rel=1e-15)
    assert (score.label, score.tasks, score.items) == ("science (0 shots)", 2, 11)


@pytest.mark.parametrize("metric", [BY_SIZE, EQUALLY])
def test_nothing_and_everything_right_have_limits(metric: GroupMetric) -> None:
    none = score_of(metric, **{task: (0,) * size for task, size in SIZES.items()}).accuracy
    every = score_of(metric, **{task: (1,) * size for task, size in SIZES.items()}).accuracy
    assert (none.mean, none.low, every.mean, every.high) == (0.0, 0.0, 1.0, 1.0)
    assert none.high == pytest.approx(1 - every.low)
    assert 0.2 < none.high < 0.5


def test_seeds_that_miss_a_task_do_not_count() -> None:
    told = [scored(task, RIGHT[task["tasks"][0]]) for task in TASKS]
    more = scored(TASKS[0], RIGHT["arc_easy"], seed=1)
    alone = [one.model_copy(update={"attached": False}) for one in told]
    (score,) = group_scores([group_of()], TASKS, [*told, more, *alone])
    assert score.accuracy.seeds == 1
    assert score.alone == score.accuracy
    assert group_scores([group_of()], TASKS, [more]) == ()


def test_weights_by_size_give_the_interval_of_all_items() -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 2, (4, size)) for size in (6, 20, 9)]
    told = [scored({}, [int(bit) for bit in row], seed) for seed, row in enumerate(np.hstack(rows))]
    pooled = mean_interval(scores_of("all", told)).model_dump()
    found = group_interval([one.astype(float) for one in rows], by_size=True).model_dump()
    assert found == pytest.approx(pooled, rel=1e-9)


def test_a_small_task_with_much_weight_widens_the_interval() -> None:
    rows = [np.array([[1.0, 0.0] * 5]), np.array([[1.0, 0.0] * 500])]
    widths = [
        one.high - one.low for one in (group_interval(rows, by_size=by) for by in (True, False))
    ]
    assert widths[1] > 4 * widths[0]
