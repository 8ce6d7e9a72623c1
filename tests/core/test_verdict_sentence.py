"""The one sentence in which a comparison's finding is quoted everywhere."""

import re

from tests.core.scoring import drawn

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.comparison import compare, corrected_choice
from adaptlab.comparisons.verdict_sentence import seeds_to_settle
from adaptlab.statistics import Scores, chosen_best, mean_interval


def rows() -> list[Scores]:
    return [
        drawn([0.99] * 5, method="full_finetuning", key=1),
        drawn([0.90] * 5, method="lora", key=2),
        drawn([0.99, 0.0, 0.0, 0.0, 0.99], method="adapter", key=3),
        drawn([0.0] * 5, method="prefix_tuning", key=4),
    ]


def test_it_says_what_works_what_does_not_and_what_is_not_known():
    found = compare("add", rows())
    works, *order = found.sentence.split(". ")
    partly, never = works.split("; ")[-2:]
    assert works.startswith("full_finetuning (99.0 %, 95 % interval 98.6 to 99.2 %; 0 of 5 seeds")
    assert "failed) and lora (90" in works
    assert "seeds failed) work; " in works
    assert partly == "adapter (3 of 5 seeds failed) fails on most seeds"
    assert never == "prefix_tuning (0.0 %) does not work"
    assert order[0].startswith("Among seeds that do not fail, full_finetuning is better than lora")
    assert re.fullmatch(
        "With 5 seeds, the order of full_finetuning, lora and adapter over all seeds is not known; "
        r"at least [0-9]+ more seeds? should settle it\.",
        order[1],
    )
    assert found.sentence == found.cells[0].sentence


def test_it_names_nothing_that_works_where_every_seed_failed():
    zeros = [drawn([0.0] * 5, method=name, key=1) for name in ("lora", "adapter")]
    found = compare("add", zeros, chance=0.001)
    assert found.sentence == (
        "Nothing measured works: the best, lora, scores 0.0 %, and chance is 0.1 %."
    )
    assert found.cells[0].best_successful == ()


def test_chance_is_no_success():
    guesses = [drawn([0.25] * 5, method=name, key=1) for name in ("lora", "adapter")]
    assert "seeds failed) work." in compare("add", guesses).sentence
    assert compare("add", guesses, chance=0.3).sentence.startswith("Nothing measured works")


def test_a_lucky_item_is_no_success():
    """A method with one right item in one seed does not work.

    It is above the others' median of none.
    """
    lucky = drawn([0.001, 0.0, 0.0, 0.0, 0.0], method="lora", key=1)
    none = drawn([0.0] * 5, method="adapter", key=2)
    found = compare("add", [lucky, none])
    assert found.sentence.startswith("Nothing measured works")
    assert [row.failing.failing for row in found.cells[0].rows] == [5, 5]


def test_a_best_over_all_seeds_is_named_with_its_score_corrected_for_the_choice():
    best, none = rows()[0], rows()[3]
    found = compare("add", [best, none])
    # A choice that no seed and no item would change keeps its mean; the limits are those of two.
    wider = mean_interval(best, 1 - 0.05 / 2)
    assert found.sentence.endswith(
        f"Over all seeds, full_finetuning is the best: {100 * wider.mean:.1f} % (95 % interval "
        f"{100 * wider.low:.1f} to {100 * wider.high:.1f} %) after correction for the choice "
        "among 2 methods."
    )
    assert found.cells[0].chosen == chosen_best([best, none])


def test_the_limits_of_the_best_of_several_are_those_of_all_that_it_was_chosen_among():
    table = [drawn([0.9 - 0.8 * (n > 0)] * 12, method=f"method {n}", key=n) for n in range(6)]
    (cell,) = compare("add", table).cells
    assert cell.best == ("method 0",)
    assert cell.chosen is not None
    assert (cell.chosen.label, cell.chosen.candidates) == ("method 0", 6)
    assert cell.chosen.score == mean_interval(table[0], 1 - 0.05 / 6)
    assert cell.chosen.score.low < cell.rows[0].score.low
    assert "after correction for the choice among 6 methods." in cell.sentence


def test_only_a_best_that_is_named_has_a_corrected_score():
    best, none = rows()[0], rows()[3]
    undecided = compare("add", rows())
    assert (len(undecided.cells[0].best) > 1, undecided.cells[0].chosen) == (True, None)
    assert compare("add", [best]).cells[0].chosen is None
    nothing = compare("add", [drawn([0.001] * 5, method="lora", key=1), none])
    assert nothing.cells[0].chosen is None
    different = SettingDifference(pointer="/training/steps", weight="voids", values=(), text="")
    void = compare("add", [best, none], differences=[different])
    assert (void.voided, void.cells[0].chosen) == (True, None)


def test_what_cannot_be_held_against_the_best_is_no_candidate():
    best, none, other = rows()[0], rows()[3], drawn([0.5] * 5, items=500, method="lora")
    (cell,) = compare("add", [best, none, other]).cells
    assert (cell.best, cell.chosen) == (("full_finetuning", "lora"), None)
    few = drawn([0.3], method="lora", key=7)
    chosen = corrected_choice([best, none, other, few], "full_finetuning")
    assert chosen is not None
    assert chosen == chosen_best([best, none])


def test_budgets_are_named_where_their_sentences_differ():
    table = [
        drawn([0.99] * 5, method="lora", key=1, budget=100),
        drawn([0.0] * 5, method="prefix_tuning", key=2, budget=100),
        drawn([0.99] * 5, method="lora", key=3, budget=1000),
        drawn([0.99] * 5, method="prefix_tuning", key=4, budget=1000),
    ]
    said = compare("add", table).sentence
    assert said.startswith("At a budget of 100: lora at 100 (9")
    assert "At a budget of 1,000: lora at 1,000 (9" in said


def test_the_seeds_that_should_settle_the_best_are_those_of_its_open_pairs():
    (cell,) = compare("add", rows()).cells
    named = [one for one in cell.verdicts if {one.pair.first, one.pair.second} <= {*cell.best}]
    open_pairs = [one.more_seeds for one in named if one.more_seeds is not None]
    assert open_pairs
    assert seeds_to_settle(cell.verdicts, cell.best) == max(open_pairs)


def test_no_seeds_settle_what_is_decided_or_hopeless():
    decided = [
        drawn([0.99] * 10, method="lora", key=1),
        drawn([0.0] * 10, method="prefix_tuning", key=2),
    ]
    twins = [drawn([0.5] * 5, method=name, key=1) for name in ("lora", "adapter")]
    for given in (decided, twins):
        (cell,) = compare("add", given).cells
        assert seeds_to_settle(cell.verdicts, cell.best) is None
