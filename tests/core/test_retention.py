"""Cued retention: its ratio, its interval, and where it is not measured."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptlab.comparisons.retention import BaseScores, retention
from adaptlab.comparisons.task_retention import TaskRetention
from adaptlab.runs.events import Evaluation
from adaptlab.statistics.retention import pooled, retained, retention_limits
from bench.retention import ITEMS, total

OLD: dict[str, object] = {"name": "sort_ascending", "length": 3, "alphabet": 4}
CUED: dict[str, object] = {"name": "cued", "task": OLD, "cue": 10}
NEW: dict[str, object] = {"name": "sort_descending", "length": 3, "alphabet": 4}
STUDIES = 60


def scored(
    seed: int, task: dict[str, object], right: NDArray[np.bool_], *, attached: bool
) -> Evaluation:
    return Evaluation(
        replicate=seed,
        seed=seed,
        task=task,
        split="test",
        attached=attached,
        correct=int(right.sum()),
        total=right.size,
        outcomes=np.packbits(right).tobytes().hex(),
    )


def both(task: dict[str, object], base: int, adapted: list[int]) -> list[Evaluation]:
    """Scores of which the first items are right, of 400."""
    items = np.arange(ITEMS)
    return [
        scored(seed, task, items < number, attached=attached)
        for seed, right in enumerate(adapted)
        for attached, number in ((True, right), (False, base))
    ]


def only(found: tuple[TaskRetention, ...]) -> TaskRetention:
    (one,) = found
    return one


def test_retention_is_the_share_above_the_floor() -> None:
    found = only(retention(both(OLD, 380, [380, 200, 20]) + both(NEW, 0, [400, 400, 400]), NEW))
    floor = found.floor
    expected = [(right / ITEMS - floor) / (380 / ITEMS - floor) for right in (380, 200, 20)]
    assert found.by_seed == pytest.approx(expected)
    assert found.mean == pytest.approx(np.mean(expected))
    assert (found.seeds, found.task, found.reason) == ((0, 1, 2), OLD, None)


@pytest.mark.parametrize(
    ("task", "base", "said"),
    [
        (OLD, 40, "at its floor without a cue: 10.0 % right"),
        (CUED, 40, "at its floor with a cue: 10.0 % right"),
        # 16 % is above 3 points over the floor, and so few items do not show it.
        (OLD, 80, "at its floor without a cue: 20.0 % right"),
    ],
)
def test_a_base_at_its_floor_has_nothing_to_retain(
    task: dict[str, object], base: int, said: str
) -> None:
    found = only(retention(both(task, base, [base, 0]), NEW))
    assert (found.mean, found.low, found.figure) == (None, None, "not measured")
    assert found.reason is not None
    assert said in found.reason


def test_a_routed_adaptation_forgets_nothing() -> None:
    scores = both(OLD, 380, [20, 20, 20]) + both(NEW, 0, [400, 400, 400])
    found = only(retention(scores, NEW, mode="routed"))
    assert (found.mean, found.figure) == (None, "zero forgetting by routing")
    assert "whatever the method" in (found.remark or "")
    assert only(retention(scores, NEW)).mean is not None, "always on by default"


@pytest.mark.parametrize(
    ("own", "started", "expected"),
    [
        ((380, 380), {0: 0, 1: 1}, True),
        ((380, 379), {0: 0, 1: 1}, False),
        ((380, 379), {0: 0, 1: 0}, True),
        ((380,), {0: 0, 1: 1}, None),
        ((), {0: 0, 1: 1}, None),
    ],
)
def test_detached_outcomes_are_those_of_the_bases_own_job(
    own: tuple[int, ...], started: dict[int, int], expected: bool | None
) -> None:
    """Both ran apart. A base of two trials has other numbers of replicates."""
    items = np.arange(ITEMS)
    of_base = [
        scored(2 * place + 1, OLD, items < right, attached=True) for place, right in enumerate(own)
    ]
    found = only(retention(both(OLD, 380, [340, 20]), NEW, of_base=BaseScores(of_base, started)))
    assert found.reversible is expected
    said = {True: "Reversible: detached", False: "outcomes differ", None: ""}[expected]
    assert said in (found.remark or "")
    assert found.mean is not None, "it is a fact and no axis"


@pytest.mark.parametrize(
    ("detached", "own", "change", "said"),
    [
        (1.25, 1.25, 0.0, "equal to the last bit"),
        (1.25, math.nextafter(1.25, 2), 2**-52, "differs by 2e-16 nats"),
        (None, 1.25, None, "item by item."),
    ],
)
def test_the_likelihoods_of_a_detached_model_are_compared_bit_for_bit(
    detached: float | None, own: float, change: float | None, said: str
) -> None:
    items = np.arange(ITEMS)
    known = {True: None, False: detached}
    scores = [
        one.model_copy(update={"loss": known[one.attached]}) for one in both(OLD, 380, [340, 20])
    ]
    alone = scored(0, OLD, items < 380, attached=True).model_copy(update={"loss": own})
    found = only(retention(scores, NEW, of_base=BaseScores([alone], {0: 0, 1: 0})))
    assert (found.reversible, found.loss_change) == (True, change)
    assert found.remark is not None
    assert said in found.remark


def test_of_other_numbers_of_items_the_first_are_compared() -> None:
    items = np.arange(ITEMS + 40)
    same = BaseScores([scored(0, OLD, items < 380, attached=True)], {0: 0})
    assert only(retention(both(OLD, 380, [340]), NEW, of_base=same)).reversible
    fewer = BaseScores([scored(0, OLD, items[:100] < 99, attached=True)], {0: 0})
    assert only(retention(both(OLD, 380, [340]), NEW, of_base=fewer)).reversible is False


def test_one_base_at_its_floor_refuses_the_task() -> None:
    weak = np.arange(ITEMS) < 30
    scores = [*both(OLD, 380, [300, 300]), scored(2, OLD, weak, attached=True)]
    found = only(retention([*scores, scored(2, OLD, weak, attached=False)], NEW))
    assert found.reason is not None
    assert "7.5 % right" in found.reason


def test_linear_parts_agree_with_the_jackknife() -> None:
    draw = np.random.default_rng(3)
    base = (draw.random((1, 300)) < 0.9).astype(float)
    attached = base * (draw.random((1, 300)) < 0.7)

    def ratio(kept: NDArray[np.bool_]) -> float:
        return float((attached[:, kept].mean() - 0.1) / (base[:, kept].mean() - 0.1))

    without = [ratio(np.arange(300) != item) for item in range(300)]
    jackknife = 299 / 300 * float(np.square(np.array(without) - np.mean(without)).sum())
    sample = retained(attached, base, 0.1)
    assert sample.of_items == pytest.approx(jackknife, rel=0.02)
    assert sample.mean == pytest.approx(ratio(np.ones(300, bool)))


def test_items_five_times_over_in_groups_give_the_same_interval() -> None:
    draw = np.random.default_rng(4)
    base = (draw.random((3, 200)) < 0.9).astype(float)
    attached = base * (draw.random((3, 200)) < 0.7)
    repeated = retained(
        np.repeat(attached, 5, axis=1), np.repeat(base, 5, axis=1), 0.1,
        tuple(np.repeat(np.arange(200), 5).tolist()),
    )  # fmt: skip
    assert repeated.of_items == pytest.approx(retained(attached, base, 0.1).of_items)
    assert repeated.units == 200


def test_tasks_are_pooled_with_the_items_of_each() -> None:
    draw = np.random.default_rng(5)
    samples = [
        retained((draw.random((4, n)) < 0.6).astype(float), np.ones((4, n)), 0.1)
        for n in (100, 400)
    ]
    both_tasks = pooled(samples)
    expected = sum(one.by_unit.var(ddof=1) / one.units for one in samples) / 4
    residual = sum(one.residual / one.units for one in samples) / 4
    assert both_tasks.by_unit.var(ddof=1) / both_tasks.units == pytest.approx(expected, rel=0.02)
    assert both_tasks.residual / both_tasks.units == pytest.approx(residual)
    assert both_tasks.values == pytest.approx(np.mean([one.values for one in samples], axis=0))


def test_a_skill_that_no_item_lost_still_has_an_interval() -> None:
    same = np.ones((3, 50))
    low, high = retention_limits(retained(same, same, 0.1), 1.0, 0.1, 0.95)
    assert low < 1.0 - 1 / 50 < 1.0 < high


def test_limits_hold_a_typical_seed() -> None:
    found = total("one method", 5, STUDIES)
    tolerated = 0.05 + 2 * (0.05 * 0.95 / STUDIES) ** 0.5
    assert found["limits missed"] / STUDIES <= tolerated
    assert found["regions missed"] / STUDIES <= tolerated
