"""The one sentence in which a comparison's finding is quoted everywhere."""

import re

from tests.core.scoring import drawn

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.comparison import compare, corrected_choice
from adaptlab.comparisons.comparison_warnings import ComparisonWarning
from adaptlab.comparisons.row_names import (
    first_in_sentence,
    method_in_sentence,
    row_title,
    row_titles,
)
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
    assert re.fullmatch(
        r"Full fine-tuning \(99\.0 %, 95 % interval 98\.6 to 99\.2\) and LoRA "
        r"\(90\.\d %, 8\d\.\d to 9\d\.\d\) work; prefix-tuning does not \(0\.0 %\); "
        "bottleneck adapter fails on 3 of 5 seeds",
        works,
    )
    assert order[0] == "Among seeds that do not fail, full fine-tuning is better than LoRA"
    assert re.fullmatch(
        "With 5 seeds, it remains open which of full fine-tuning, LoRA and bottleneck adapter is "
        r"the best over all seeds; at least [0-9]+ more should settle it\.",
        order[1],
    )
    assert found.sentence == found.cells[0].sentence


def test_seeds_that_failed_are_counted_only_where_some_did():
    some = drawn([0.9, 0.9, 0.9, 0.9, 0.0], method="lora", key=2)
    works, *_ = compare("add", [rows()[0], some, rows()[3]]).sentence.split("; prefix")
    assert works.startswith("Full fine-tuning (99.0 %, 95 % interval 98.6 to 99.2) and LoRA (")
    assert works.endswith("; 1 of 5 seeds failed) work")


def test_many_methods_have_a_range_of_scores_and_very_many_a_number():
    def methods(count: int) -> list[Scores]:
        return [drawn([0.9 - n / 20] * 3, method=f"method {n}", key=n) for n in range(count)]

    few, many = (compare("add", methods(count)).sentence for count in (5, 9))
    assert few.startswith("method 0, method 1, method 2, method 3 and method 4 work (7")
    assert re.match(r"9 methods work \(\d\d\.\d to \d\d\.\d %\)\.", many)


def test_one_open_pair_is_asked_which_is_better():
    close = [drawn([0.99] * 3, method="lora", key=1), drawn([0.97] * 3, method="bitfit", key=2)]
    said = compare("add", close).sentence
    assert "With 3 seeds, it remains open which of LoRA and BitFit is better over all" in said


def test_titles_are_in_lower_case_within_a_sentence_unless_they_are_names():
    names = ("full_finetuning", "pinned_finetuning", "layernorm_tuning", "ia3", "frozen")
    assert [method_in_sentence(name) for name in names] == [
        *("full fine-tuning", "fine-tuning with pinned attention"),
        *("LayerNorm tuning", "IA3", "the frozen base"),
    ]


def test_titles_name_the_budget_and_keep_what_users_gave():
    labels = ("full_finetuning at 1,728", "lora(rank=4) at 64", "frozen", "lora at night", "ours")
    assert [row_title(label) for label in labels] == [
        *("Full fine-tuning at 1,728", "LoRA (rank=4) at 64", "Frozen base"),
        *("lora at night", "ours"),
    ]
    assert first_in_sentence("frozen") == "The frozen base"
    assert row_titles(("lora", "LoRA", "frozen")) == {
        "lora": "lora",
        "LoRA": "LoRA",
        "frozen": "Frozen base",
    }


def test_labels_of_users_and_methods_that_are_not_installed_stay_as_they_are():
    labels = ("our_way", "lora(rank=2)", "lora on base-b", "Mine", "LoRA", "lora")
    given = [drawn([0.0] * 3, method=label, key=n) for n, label in enumerate(labels)]
    given.append(drawn([0.9] * 3, method="ours", key=9))
    assert compare("add", given).sentence.startswith("ours works (9")
    assert (
        compare("add", given)
        .sentence.partition("; ")[2]
        .startswith("our_way, LoRA (rank=2), LoRA on base-b, Mine, LoRA and lora do not (0.0 %).")
    )


def test_it_names_nothing_that_works_where_every_seed_failed():
    zeros = [drawn([0.0] * 5, method=name, key=1) for name in ("lora", "adapter")]
    found = compare("add", zeros, chance=0.001)
    assert found.sentence == (
        "Nothing measured works: the best, LoRA, scores 0.0 %; chance is 0.1 %."
    )
    assert found.cells[0].best_successful == ()
    alone = compare("add", [drawn([0.0] * 5, method="prefix_tuning")], chance=0.001)
    assert alone.sentence == "Prefix-tuning does not work: it scores 0.0 %; chance is 0.1 %."


def test_a_base_that_has_not_learned_its_task_is_the_first_thing_to_change():
    unlearned = [ComparisonWarning(kind="base_not_learned", text=f"base {n}") for n in range(2)]
    advice = "The base model has not learned its own task: adapt a better one first."
    assert compare("add", rows(), of_bases=unlearned[:1]).sentence.endswith(advice)
    assert compare("add", rows()[3:], of_bases=unlearned[:1]).sentence.endswith(advice)
    two = "2 base models have not learned their own tasks: adapt better ones first."
    assert compare("add", rows(), of_bases=unlearned).sentence.endswith(two)


def test_a_base_that_has_not_learned_its_task_does_not_work_in_the_same_breath():
    unlearned = ComparisonWarning(kind="base_not_learned", text="it scores too little")
    works = ComparisonWarning(kind="base_works_alone", text="it scores enough")
    said = "The base model alone works, too."
    assert said in compare("add", rows(), of_bases=[works]).sentence
    assert said not in compare("add", rows(), of_bases=[works, unlearned]).sentence


def test_chance_is_no_success():
    guesses = [drawn([0.25] * 5, method=name, key=1) for name in ("lora", "adapter")]
    assert " work." in compare("add", guesses).sentence
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
        f"Full fine-tuning is the best over all seeds: {100 * wider.mean:.1f} % (95 % interval "
        f"{100 * wider.low:.1f} to {100 * wider.high:.1f}), corrected for the choice among 2 "
        "methods."
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
    assert "corrected for the choice among 6 methods." in cell.sentence


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
    assert said.startswith("At a budget of 100: LoRA works (9")
    assert "At a budget of 1,000: LoRA (9" in said


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
