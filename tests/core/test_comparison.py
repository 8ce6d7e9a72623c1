"""The comparison of a task.

It has cells, pairs, curves, crossings, the cheapest, and warnings.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.core.scoring import drawn, scores
from tests.texts import COMPLETION, reviews, stored, without

from adaptlab.comparisons.base_learned import OwnScore, base_warning
from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.comparisons.comparison_warnings import ComparisonWarning, imported_base
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import TASKS
from adaptlab.statistics import Scores
from adaptlab.statistics.curves import Crossing, cheapest_within, crossings

SEEDS = [0.0, 0.004, -0.004, 0.002, -0.002, 0.0]


def around(accuracy: float, method: str, key: int, **more: int) -> Scores:
    chances = [min(1.0, max(0.0, accuracy + step)) for step in SEEDS]
    return drawn(chances, 2000, method, key=key, **more)


def a_table() -> list[Scores]:
    return [
        around(0.02, "frozen", 1, parameters=0),
        around(0.99, "full_finetuning", 2, parameters=100_000, trials=6),
        around(0.60, "lora", 3, budget=512, parameters=500, trials=6),
        around(0.985, "lora", 4, budget=4096, parameters=4000, trials=6),
        around(0.75, "adapter", 5, budget=512, parameters=510, trials=6),
        around(0.80, "adapter", 6, budget=4096, parameters=4090, trials=6),
    ]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """The comparison of the rows of `a_table`."""
    return compare("sort_descending", a_table(), reference="full_finetuning")


def test_every_budget_is_a_cell_with_the_methods_that_take_none_beside(comparison: Comparison):
    methods = ["frozen", "full_finetuning", "lora", "adapter"]
    assert {cell.budget: [row.method for row in cell.rows] for cell in comparison.cells} == {
        512: methods,
        4096: methods,
    }
    assert comparison.warnings == ()


def test_always_giving_the_most_common_label_of_the_items_is_no_success():
    # 64 % of the dataset have one label, and 84 % of the items that were scored.
    right = np.tile(np.arange(50) < 42, (5, 1))
    constant = scores(right, "constant")
    assert "constant (84.0 %) works" in compare("polarity", [constant], chance=0.64).sentence
    known = constant.model_copy(update={"majority": 0.84})
    found = compare("polarity", [known, scores(right, "also")], chance=0.64)
    assert found.chance == 0.84
    assert [row.failing.failing for row in found.cells[0].rows] == [5, 5]
    assert "the floor is 84.0 % (always the most common answer)" in found.sentence


def test_the_base_alone_is_a_floor() -> None:
    row = around(0.9, "lora", 1)
    assert compare("add", [row], alone=0.5).cells[0].rows[0].standing == "works"
    found = compare("add", [row], alone=0.9)
    assert found.cells[0].rows[0].standing == "fails"
    assert "(the base model alone)" in found.sentence


def test_the_chance_of_the_task_counts_if_its_items_are_more_even():
    even = scores(np.tile(np.arange(50) < 30, (5, 1)), "lora").model_copy(update={"majority": 0.5})
    assert compare("polarity", [even], chance=0.51).chance == 0.51


def test_a_pair_that_is_in_two_cells_is_one_comparison(comparison: Comparison):
    # Six pairs a cell, of which frozen against full fine-tuning is the same in both.
    assert [len(cell.verdicts) for cell in comparison.cells] == [6, 6]
    assert comparison.comparisons == 11


def test_seeds_that_share_a_base_are_said_not_to_be_independent():
    row = around(0.5, "lora", 1)
    apart = row.model_copy(update={"bases": tuple(range(len(row.seeds)))})
    shared = row.model_copy(update={"bases": tuple(seed % 3 for seed in range(len(row.seeds)))})
    assert compare("add", [apart]).warnings == ()
    (said,) = compare("add", [shared]).warnings
    assert (said.kind, said.methods) == ("shared_bases", ("lora",))
    assert f"{len(row.seeds)} seeds start from 3 replicates" in said.text


def test_an_imported_base_is_not_to_be_pretrained_with_more_seeds():
    row = around(0.5, "lora", 1)
    apart = row.model_copy(update={"bases": tuple(range(len(row.seeds)))})
    shared = row.model_copy(update={"bases": (0,) * len(row.seeds)})
    imported = imported_base("smollm2")
    assert compare("add", [shared], of_bases=[imported]).warnings == (imported,)
    assert compare("add", [apart], of_bases=[imported]).warnings == ()
    assert imported.text == (
        "All seeds start from the same weights, because smollm2 was imported, so the verdicts "
        "hold for this base model only."
    )


def test_it_survives_json():
    found = compare("sort_descending", a_table(), reference="full_finetuning")
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_a_row_alone_and_a_table_without_budgets_are_comparisons_too():
    alone = compare("add", [around(0.5, "lora", 1)])
    assert alone.cells[0].best == ("lora",)
    assert alone.comparisons == 0
    both = compare("add", [around(0.5, "lora", 1), around(0.5, "adapter", 2)])
    assert [cell.budget for cell in both.cells] == [None]
    assert set(both.cells[0].best) == {"lora", "adapter"}


def test_rows_that_cannot_be_told_from_each_other_by_name_are_refused():
    with pytest.raises(ValueError, match="lora at budget 512 occurs 2 times"):
        compare("add", [around(0.5, "lora", key, budget=512) for key in (1, 2)])
    with pytest.raises(ValueError, match="no scores on add"):
        compare("add", [])


def test_a_voided_comparison_concludes_nothing():
    differing = SettingDifference(
        pointer="/training/steps", weight="voids", values=(), text="Steps differ."
    )
    found = compare("add", a_table(), reference="full_finetuning", differences=[differing])
    assert found.voided
    assert (found.comparisons, found.crossings, found.cheapest) == (0, (), None)
    for cell in found.cells:
        assert (cell.best, cell.leader, cell.verdicts) == ((), None, ())
        assert all((row.rank.low, row.rank.high) == (1, 4) for row in cell.rows)
        assert not any(row.could_be_best for row in cell.rows)
        assert cell.sentence.startswith("No verdict")
    assert found.sentence.startswith("No verdict")


def test_what_a_reader_must_know_is_told():
    rows = [
        drawn([0.5, 0.6], 90, "lora", key=1, trials=6, parameters=10),
        drawn([0.5, 0.6, 0.7], 90, "adapter", key=2, trials=1, parameters=10),
        drawn([0.5, 0.6, 0.7], 80, "bitfit", key=3, trials=6, parameters=10),
        drawn([0.1, 0.1, 0.1], 90, "frozen", key=4, trials=1, parameters=0),
    ]
    found = compare("add", rows)
    said = {one.kind: one for one in found.warnings}
    assert said.keys() == {"unequal_effort", "missing_seeds", "few_seeds", "few_items", "unpaired"}
    assert said["missing_seeds"].text.startswith("LoRA has no score for seed 2.")
    assert set(said["unequal_effort"].methods) == {"lora", "adapter", "bitfit"}
    assert sum(one.kind == "unpaired" for one in found.warnings) == 3
    assert found.comparisons == 3


def test_a_crossing_lies_where_the_straight_lines_meet():
    """Two methods differ by -0.15 and then by +0.2.

    Their lines over the log of the budget are straight.
    """
    table = a_table()
    (found,) = crossings([table[2], table[3]], [table[4], table[5]])
    place = 0.15 / (0.15 + 0.185)
    expected = 512 * (4096 / 512) ** place
    assert found.budget == pytest.approx(expected, rel=0.1)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.budget < found.high
    assert (found.higher_before, found.higher_after, found.told) == ("adapter", "lora", True)


def test_methods_that_are_equally_good_are_seldom_said_to_cross():
    """Differences of noise are rarely told from zero.

    They have unlike signs half of the time.
    """
    generator = np.random.Generator(np.random.Philox(key=6))
    found: list[Crossing] = []
    for _ in range(200):
        rows = [
            scores(generator.random((4, 300)) < 0.5, name, budget=budget)
            for name in "ab"
            for budget in (10, 100)
        ]
        found.extend(crossings(rows[:2], rows[2:]))
        assert crossings(rows[:1], rows[2:3]) == ()
    assert len(found) < 0.1 * 200
    assert all(one.low or one.high for one in found)


def test_a_crossing_of_which_one_side_is_shown_is_kept_and_not_told():
    first = [around(0.3, "lora", 1, budget=10), around(0.51, "lora", 2, budget=100)]
    second = [around(0.6, "adapter", 11, budget=10), around(0.505, "adapter", 12, budget=100)]
    (found,) = crossings(first, second)
    assert found.low is not None
    assert (found.high, found.told) == (None, False)


def test_crossings_cover_the_true_one():
    generator = np.random.Generator(np.random.Philox(key=4))
    hits = found = 0
    for _ in range(250):
        steps = generator.normal(0, 0.02, (4, 4, 1))
        levels = ((0.7, 10), (0.8, 100)), ((0.76, 10), (0.76, 100))
        rows = [
            scores(generator.random((4, 300)) < level + steps[number], name, budget=budget)
            for number, (name, (level, budget)) in enumerate(
                (name, point) for name, line in zip("ab", levels, strict=True) for point in line
            )
        ]
        for one in crossings(rows[:2], rows[2:]):
            found += 1
            hits += (one.low or 0) <= 10 * 10**0.6 <= (one.high or math.inf)
    assert found > 100
    assert hits / found > 0.93


def test_the_cheapest_within_a_margin_is_shown_or_possible():
    table = a_table()
    found = cheapest_within(table, table[1], margin=0.03)
    assert found.shown is not None
    assert found.possible is not None
    assert (found.shown.method, found.shown.parameters) == ("lora", 4000)
    tight = cheapest_within(table, table[1], margin=0.0)
    assert tight.shown is None
    wide = cheapest_within(table, table[1], margin=0.5)
    assert wide.shown is not None
    assert (wide.shown.method, wide.shown.parameters) == ("lora", 500)


def of_a_base(*scores: tuple[Mapping[str, object], float]) -> ComparisonWarning | None:
    own = [OwnScore(task=by_name(TASKS, task), accuracy=accuracy) for task, accuracy in scores]
    return base_warning("base-1l", own)


def test_a_base_has_learned_from_half_way_between_chance_and_one():
    # One digit below two: chance is a half, and half way to 1 is three quarters.
    coin: dict[str, object] = {
        "name": "sort_ascending", "length": 1, "alphabet": 2, "few_distinct": False
    }  # fmt: skip
    assert of_a_base((coin, 0.75)) is None
    warning = of_a_base((coin, 0.74))
    assert warning is not None
    assert (warning.kind, "75.0 %" in warning.text) == ("base_not_learned", True)


def test_the_tasks_of_a_mixture_count_together_because_no_model_can_do_all():
    ascending, descending = {"name": "sort_ascending"}, {"name": "sort_descending"}
    assert of_a_base((ascending, 0.3), (descending, 0.6)) is None
    assert of_a_base((ascending, 0.1), (descending, 0.2)) is not None
    assert of_a_base() is None


def test_texts_need_not_be_written_word_for_word(tmp_path: Path):
    """A base that has learned a language writes other texts than a record has."""
    read = stored(tmp_path, reviews(200)).task
    task = read(without(COMPLETION, metric="perplexity"))
    assert base_warning("base", [OwnScore(task=task, accuracy=0.0)]) is None
    exact = read(without(COMPLETION))
    assert base_warning("base", [OwnScore(task=exact, accuracy=0.0)]) is not None
