"""Retention by the metric of an old task, and why others have none."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptlab.comparisons.drift import drifts
from adaptlab.comparisons.retained_metric import metric_values
from adaptlab.comparisons.retention import OldTask, retention
from adaptlab.comparisons.task_retention import TaskRetention
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.events import Evaluation, Measure, MetricFloor
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.statistics.failing import Floor
from adaptlab.statistics.retention import retained

Array = NDArray[np.float64]
NEW: dict[str, object] = {"name": "sort_descending", "length": 3, "alphabet": 4}
ITEMS = 400
FLOOR = 0.1


def old(metric: str) -> dict[str, object]:
    return {"name": "sort_ascending", "length": 3, "alphabet": 4, "metric": metric}


def scored(
    seed: int, metric: str, statistics: Array, *, attached: bool, floor: float | None = FLOOR
) -> Evaluation:
    right = np.arange(len(statistics)) < 100
    measure = Measure(
        metric=metric,
        value=METRICS.get(metric).value(statistics),
        statistics=as_text(packed(statistics)),
        floor=None if floor is None else MetricFloor(value=floor, kind="guessing"),
    )
    return Evaluation(
        replicate=seed, seed=seed, task=old(metric), split="test", attached=attached,
        correct=100, total=right.size, outcomes=np.packbits(right).tobytes().hex(),
        measures=(measure,),
    )  # fmt: skip


def labels(quality: float, seed: int) -> Array:
    """Statistics of macro-F1: right and given labels, of which a share agrees."""
    draw = np.random.default_rng(seed)
    right = np.arange(ITEMS) % 3
    given = np.where(draw.random(ITEMS) < quality, right, draw.integers(0, 3, ITEMS))
    return np.stack((right, given), 1).astype(np.float64)


def both(qualities: list[float], **changes: Any) -> list[Evaluation]:
    return [
        scored(seed, "macro_f1", labels(share, seed), attached=attached, **changes)
        for seed, quality in enumerate(qualities)
        for attached, share in ((True, quality), (False, 0.9))
    ]


def only(scores: list[Evaluation]) -> TaskRetention:
    (one,) = retention(scores, NEW)
    return one


def test_it_is_the_share_of_the_way_from_the_floor_by_the_metric() -> None:
    metric = METRICS.get("macro_f1")
    found = only(both([0.8, 0.5, 0.3]))
    pairs = [
        (metric.value(labels(share, seed)), metric.value(labels(0.9, seed)))
        for seed, share in enumerate((0.8, 0.5, 0.3))
    ]
    expected = [(after - FLOOR) / (before - FLOOR) for after, before in pairs]
    assert found.by_seed == pytest.approx(expected)
    assert (found.metric, found.note, found.floor) == ("macro_f1", None, FLOOR)
    assert found.base == pytest.approx(np.mean([before for _, before in pairs]))
    assert found.low is not None
    assert found.high is not None
    assert found.low < np.mean(expected) < found.high
    assert (found.remark or "").startswith("Retention of macro-F1: the base has 9")


def test_it_is_no_drift() -> None:
    """Statistics by item have as many columns as the metric."""
    assert drifts(both([0.8, 0.5])) == ()


def test_of_a_mean_over_items_it_is_that_of_outcomes() -> None:
    draw = np.random.default_rng(2)
    before = (draw.random((2, ITEMS, 1)) < 0.9).astype(float)
    after = before * (draw.random((2, ITEMS, 1)) < 0.7)
    scores = [
        scored(seed, "text_match", table[seed], attached=attached)
        for seed in range(2)
        for attached, table in ((True, after), (False, before))
    ]
    sample = retained(after[..., 0], before[..., 0], FLOOR)
    found = only(scores)
    assert found.by_seed == pytest.approx(sample.values)
    values = metric_values(old("text_match"), scores[::2], scores[1::2])
    assert not isinstance(values, str | None)
    same = retained(values.attached, values.base, FLOOR)
    assert (same.of_items, same.residual) == pytest.approx((sample.of_items, sample.residual))


def test_linear_parts_agree_with_the_jackknife() -> None:
    metric, after, before = METRICS.get("macro_f1"), labels(0.6, 1), labels(0.9, 2)

    def ratio(kept: NDArray[np.bool_]) -> float:
        above = metric.value(before[kept]) - FLOOR
        return float((metric.value(after[kept]) - FLOOR) / above)

    without = np.array([ratio(np.arange(ITEMS) != item) for item in range(ITEMS)])
    jackknife = (ITEMS - 1) / ITEMS * float(np.square(without - without.mean()).sum())
    pair = [scored(0, "macro_f1", one, attached=True) for one in (after, before)]
    values = metric_values(old("macro_f1"), pair[:1], pair[1:])
    assert not isinstance(values, str | None)
    sample = retained(values.attached, values.base, FLOOR)
    assert sample.of_items == pytest.approx(jackknife, rel=0.03)


def test_a_base_at_the_floor_of_the_metric_has_nothing_to_retain() -> None:
    found = only(both([0.8, 0.5], floor=0.92))
    assert found.mean is None
    assert "without a cue: macro-F1 9" in (found.reason or "")


@pytest.mark.parametrize(
    ("metric", "floor", "why"),
    [
        ("perplexity", FLOOR, "perplexity has no best value of which a share"),
        ("macro_f1", None, "the value of macro-F1 that needs no skill is not known"),
    ],
)
def test_other_metrics_are_not_retained_and_it_says_why(
    metric: str, floor: float | None, why: str
) -> None:
    table = labels(0.9, 1) + 1
    after, before = (
        scored(0, metric, table, attached=attached, floor=floor) for attached in (True, False)
    )
    note = metric_values(old(metric), [after], [before])
    assert isinstance(note, str)
    assert why in note
    found = TaskRetention(task=old(metric), base=0.25, floor=FLOOR, items=ITEMS, note=note)
    assert found.remark == note


def test_whole_texts_have_nothing_to_retain() -> None:
    task = {**old("bits_per_byte"), "rendering": {"output": "loglikelihood_rolling"}}
    pairs = [
        (scored(0, "bits_per_byte", labels(0.9, 1) + 1, attached=side)) for side in (True, False)
    ]
    one = OldTask([(pairs[0].model_copy(update={"task": task}), pairs[1])])
    assert one.note is None
    assert "no right answers" in (one.refusal(Floor(accuracy=0.0, kind="guessing")) or "")
