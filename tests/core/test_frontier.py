"""Gain against retention: dominated methods, and the chart."""

import json
from dataclasses import replace

import numpy as np
import pytest

from adaptlab.charts.frontiers import gain_against_retention
from adaptlab.comparisons.comparison import compare
from adaptlab.comparisons.frontier import Frontier, PlacedRow, frontier, frontier_lines
from adaptlab.comparisons.retention import gained, old_tasks
from adaptlab.runs.events import Evaluation
from adaptlab.statistics import scores_of
from adaptlab.statistics.frontier import Position, domination, joint_region
from adaptlab.statistics.samples import shifted
from bench.retention import ITEMS, Point, study, total

OLD: dict[str, object] = {"name": "sort_ascending", "length": 3, "alphabet": 4}
NEW: dict[str, object] = {"name": "sort_descending", "length": 3, "alphabet": 4}
STUDIES = 60
TOLERATED = 0.05 + 2 * (0.05 * 0.95 / STUDIES) ** 0.5


def measured(rows: dict[str, tuple[int, int]], seeds: int = 6, base: int = 380) -> Frontier | None:
    """Methods by their right items of 400 on the new and on the old task.

    The base has none and `base`, and every further seed 3 items more.
    """
    scores = {label: _scored(new, old, seeds, base) for label, (new, old) in rows.items()}
    compared = compare(
        "sort_descending",
        [
            scores_of(label, [one for one in every if one.task == NEW and one.attached])
            for label, every in scores.items()
        ],
    )
    placed: dict[str, PlacedRow] = {}
    for label, every in scores.items():
        new_task = gained(every, NEW)
        assert new_task is not None
        placed[label] = PlacedRow(new_task, [*old_tasks(every, NEW)])
    return frontier(compared, compared.cells[0], placed)


def _scored(new: int, old: int, seeds: int, alone: int) -> list[Evaluation]:
    found: list[Evaluation] = []
    for seed in range(seeds):
        for task, adapted, base in ((NEW, new, 0), (OLD, old, alone)):
            for attached, right in ((True, adapted + 3 * seed), (False, base)):
                bits = np.arange(ITEMS) < right
                found.append(
                    Evaluation(
                        replicate=seed, seed=seed, task=task, split="test", attached=attached,
                        correct=int(bits.sum()), total=ITEMS,
                        outcomes=np.packbits(bits).tobytes().hex(),
                    )
                )  # fmt: skip
    return found


def test_a_method_that_is_worse_on_both_axes_is_dominated() -> None:
    found = measured({"lora": (360, 300), "prefix_tuning": (200, 100)})
    assert found is not None
    (one,) = found.dominated
    assert (one.label, one.by) == ("prefix_tuning", "lora")
    assert found.rows[1].dominated_by == ("lora",)
    assert found.sentence.startswith("Prefix-tuning is dominated by LoRA: -40.0 points of gain")
    assert found.sentence.endswith("Only LoRA is not dominated.")


def test_more_gain_for_less_retention_is_no_win() -> None:
    found = measured({"lora": (360, 100), "prefix_tuning": (200, 300)})
    assert found is not None
    assert (found.dominated, found.comparisons) == ((), 2)
    assert found.sentence.startswith("No method is shown to be dominated")


def test_zero_steps_have_no_winner() -> None:
    """Methods that never trained gain nothing and lose nothing."""
    draw = np.random.default_rng(0)
    trained, still = (one.position for one in study([Point(0.7, 0.6), Point(0.7, 0.6)], 8, draw))
    nothing = replace(still.gain, values=np.zeros(8), by_unit=np.zeros(ITEMS), residual=0.0)
    untouched = Position(gain=nothing, retention=shifted(nothing, 1.0))
    assert domination(untouched, untouched, 0.01) == 1.0
    assert domination(untouched, trained, 0.01) > 0.05
    assert domination(trained, untouched, 0.01) > 0.05


def test_too_few_seeds_dominate_nothing() -> None:
    found = measured({"lora": (360, 300), "prefix_tuning": (200, 100)}, seeds=3)
    assert found is not None
    assert found.dominated == ()
    assert [row.region for row in found.rows] == [None, None]


def test_a_base_without_the_old_skill_has_no_frontier() -> None:
    rows = {"lora": (360, 20), "prefix_tuning": (200, 20)}
    assert measured(rows) is not None
    assert measured(rows, base=40) is None


@pytest.mark.long("many simulated studies", but=1)
@pytest.mark.parametrize("name", ["two equal", "six equal", "six on one frontier"])
def test_equal_methods_are_falsely_dominated_in_one_of_twenty_at_most(name: str) -> None:
    assert total(name, 5, STUDIES)["falsely dominated"] / STUDIES <= TOLERATED


@pytest.mark.long("many simulated studies")
def test_methods_that_lose_seeds_are_falsely_dominated_as_rarely() -> None:
    found = total("six equal, a third of seeds lost", 10, STUDIES)
    assert found["falsely dominated"] / STUDIES <= TOLERATED


def test_a_method_far_behind_is_found() -> None:
    found = total("one of six behind by 15 on both axes", 10, STUDIES)
    assert found["found"] / found["behind"] >= 0.9


def test_axes_share_seeds_and_not_items() -> None:
    draw = np.random.default_rng(1)
    (one,) = study([Point(0.7, 0.8)], 8, draw)
    gain, kept = one.position.gain, one.position.retention
    alike = Position(gain=gain, retention=replace(kept, values=gain.values))
    region = joint_region(alike, 0.95)
    assert region is not None
    # T² of 8 seeds is 2 · 7 / 6 · F(0.95; 2, 6) = 2 · 7 / 6 · 5.143.
    seeds = 12.0 * float(gain.values.var(ddof=1)) / 8
    assert region.joint == pytest.approx(seeds, rel=0.001)
    assert region.gain - region.joint == pytest.approx(5.991 * gain.of_items, rel=0.001)
    assert region.retention - region.joint == pytest.approx(5.991 * kept.of_items, rel=0.001)


def test_the_chart_has_seeds_means_regions_and_the_base() -> None:
    found = measured({"lora": (360, 300), "prefix_tuning": (200, 100)})
    assert found is not None
    text = json.dumps(gain_against_retention(found))
    assert text.count('"seed":') == 12
    assert text.count('"place":') == 2 * 60
    assert '"name": "base model"' in text
    assert [*frontier_lines(found)][2].startswith("LoRA: gain +91.9 (")
