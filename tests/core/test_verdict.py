"""Verdicts on pairs, floors and the standing of a method."""

import numpy as np
import pytest
from tests.core.scoring import drawn, scores

from adaptlab.comparisons.comparison import ComparisonCell, compare
from adaptlab.statistics import Scores
from adaptlab.statistics.failing import Floor, floor_of
from adaptlab.statistics.ranks import rank_intervals

AHEAD, BEHIND = [0.95, 0.96, 0.94, 0.95, 0.96], [0.8, 0.82, 0.79, 0.81, 0.8]


def cell_of(*rows: Scores, chance: float = 0.0) -> ComparisonCell:
    (cell,) = compare("sort_descending", rows, chance=chance).cells
    return cell


def test_clear_differences_are_told_in_both_directions() -> None:
    first, second = drawn(AHEAD, method="lora", key=1), drawn(BEHIND, method="adapter", key=2)
    assert cell_of(first, second).verdicts[0].finding == "better"
    assert cell_of(second, first).verdicts[0].finding == "worse"
    assert "LoRA is better than" not in cell_of(second, first).verdicts[0].text


def test_three_seeds_decide_nothing_and_say_what_does() -> None:
    rows = drawn(AHEAD[:3], method="lora", key=1), drawn(BEHIND[:3], method="adapter", key=2)
    cell = cell_of(*rows)
    (verdict,) = cell.verdicts
    assert (verdict.finding, verdict.reason) == ("not_known", "few_seeds")
    assert "5 or more can decide it" in verdict.text
    assert cell.best == ("lora", "adapter")
    assert cell.more_seeds == 2


def test_a_difference_within_the_margin_is_none() -> None:
    rows = drawn([0.5] * 6, 40_000, "lora", key=1), drawn([0.5] * 6, 40_000, "adapter", key=2)
    (verdict,) = cell_of(*rows).verdicts
    assert (verdict.finding, verdict.reason) == ("cannot_be_told_apart", "within_margin")


@pytest.mark.parametrize(
    ("accuracies", "standing"),
    [
        ([0.95] * 5, "works"),
        ([0.8] * 5, "behind"),
        ([0.95, 0.95, 0.95, 0.0, 0.0], "partly"),
        ([0.01] * 5, "fails"),
    ],
)
def test_a_method_has_one_standing(accuracies: list[float], standing: str) -> None:
    rows = [drawn([0.96, 0.95, 0.95, 0.96, 0.95], method="lora", key=1)]
    rows += [drawn(accuracies, method="adapter", key=2)]
    assert cell_of(*rows).rows[1].standing == standing


def test_one_seed_and_a_voided_table_have_no_standing() -> None:
    assert cell_of(drawn([0.95], method="lora")).rows[0].standing == "unknown"


def test_seeds_without_a_score_are_failing_ones() -> None:
    lost = drawn([0.98] * 3, method="lora").model_copy(update={"unscored": (3, 4)})
    cell = cell_of(lost, drawn([0.8] * 5, method="adapter", key=2))
    row = cell.rows[0]
    assert (row.failing.failing, row.failing.seeds) == (2, 5)
    assert row.standing == "partly"
    assert row.score.mean == pytest.approx(0.6, abs=0.02)
    assert set(cell.best) == {"lora", "adapter"}


def test_the_floor_is_the_best_of_what_needs_no_adaptation() -> None:
    assert floor_of(0.1, [None, 0.3], 0.2) == Floor(accuracy=0.3, kind="most_common_answer")
    assert floor_of(0.1, [], 0.6).kind == "base_alone"
    assert floor_of(0.5, [None], None).works_from(100_000) == pytest.approx(0.55)
    # Of 50 items, guessing among two labels often exceeds 55 %.
    assert floor_of(0.5, [], None).works_from(50) == pytest.approx(0.616, abs=0.001)


def test_methods_that_compute_the_same_are_one_candidate() -> None:
    rows = [drawn(AHEAD, method="lora", key=1)]
    same = np.packbits(np.zeros(1000, dtype=bool)).tobytes().hex()
    for name in ("prefix_tuning", "soft_prompt"):
        row = scores(np.zeros((5, 1000), dtype=bool), name)
        rows.append(row.model_copy(update={"function": "prefix", "outcomes": (same,) * 5}))
    cell = cell_of(*rows)
    assert [row.same_as for row in cell.rows] == [None, None, "prefix_tuning"]
    assert cell.best == ("lora",)


@pytest.mark.parametrize(
    ("leader", "other", "best"),
    [
        # Ordered by the tests, while the lowest and the highest seeds overlap.
        (
            [0.96, 0.82, 0.91, 0.88, 0.89, 0.89, 0.84, 0.89],
            [0.79, 0.95, 0.83, 0.81, 0.81, 0.79, 0.78, 0.8],
            ("lora",),
        ),
        # Not ordered by the tests, while Student's limits leave 0 out.
        ([0.9, 0.9, 0.92, 0.9, 0.88], [0.87, 0.9, 0.89, 0.84, 0.82], ("lora", "ia3")),
    ],
)
def test_limits_against_the_leader_agree_with_the_best_set(
    leader: list[float], other: list[float], best: tuple[str, ...]
) -> None:
    cell = cell_of(drawn(leader, method="lora", key=1), drawn(other, method="ia3", key=2))
    pair = cell.rows[1].against_best
    assert cell.best == best
    assert pair is not None
    assert pair.low < pair.difference < pair.high == 0


def test_a_reference_beyond_the_budget_is_shown_and_no_candidate() -> None:
    full = drawn([0.999] * 5, method="full_finetuning", key=1, parameters=52_096)
    full = full.model_copy(update={"is_reference": True})
    rows = [full, drawn([0.97] * 5, method="lora", key=2, budget=512, parameters=512)]
    cell = cell_of(*rows)
    assert cell.best == (cell.leader,) == ("lora at 512",)
    assert not cell.rows[0].is_candidate
    assert cell.rows[0].against_best is not None


def test_ranks_follow_from_what_was_told_apart() -> None:
    ranks = rank_intervals(["a", "b", "c"], [("a", "c"), ("b", "c")])
    assert [(rank.low, rank.high) for rank in ranks.values()] == [(1, 2), (1, 2), (3, 3)]


def test_differences_from_a_leader_among_many_are_at_a_higher_level() -> None:
    alike = [drawn([0.8] * 5, method=f"m{key}", key=key) for key in range(4)]
    for rows, level in ((alike[:2], 0.95), (alike, 1 - 0.05 / 3)):
        cell = cell_of(*rows)
        assert len(cell.best) == len(rows)
        levels = [one.against_best.level for one in cell.rows if one.against_best is not None]
        assert levels == pytest.approx([level] * (len(rows) - 1))
