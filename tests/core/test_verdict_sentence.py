"""The one sentence in which a comparison's finding is quoted everywhere."""

import re

from tests.core.scoring import drawn

from adaptlab.comparison import compare
from adaptlab.statistics import Scores


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
    assert partly == "most seeds of adapter (3 of 5 seeds failed) fail"
    assert never == "prefix_tuning (0.0 %) does not"
    assert order[0].startswith("Among seeds that do not fail, full_finetuning is better than lora")
    assert re.fullmatch(
        "With 5 seeds, the order of full_finetuning, lora and adapter over all seeds is not known; "
        r"[0-9]+ or more further seeds would settle it\.",
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
    """One right item in one seed is above the others' median of none, and does not work."""
    lucky = drawn([0.001, 0.0, 0.0, 0.0, 0.0], method="lora", key=1)
    none = drawn([0.0] * 5, method="adapter", key=2)
    found = compare("add", [lucky, none])
    assert found.sentence.startswith("Nothing measured works")
    assert [row.failing.failing for row in found.cells[0].rows] == [5, 5]


def test_a_best_over_all_seeds_is_named():
    found = compare("add", [rows()[0], rows()[3]])
    assert found.sentence.endswith("Over all seeds, full_finetuning is the best.")


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
