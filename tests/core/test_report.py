"""The report of a table: its headline, its rows and its text."""

import pytest
from tests.core.scoring import drawn

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.comparisons.report import Report, SeenSeeds, report_lines, report_of
from adaptlab.statistics import Scores

MOST_WORDS, MOST_LINES, WIDTH = 40, 25, 80
ZERO = [0.0] * 5


def row(method: str, accuracies: list[float], key: int, *, budget: int = 1152) -> Scores:
    return drawn(accuracies, 1000, method, key, budget=budget, parameters=budget)


def found(*rows: Scores) -> tuple[Comparison, Report]:
    comparison = compare("sort_descending", rows)
    return comparison, report_of(comparison, comparison.cells[0], moved={"lora at 1,152": 0.99})


def demo() -> tuple[Comparison, Report]:
    full = drawn([0.999] * 5, 1000, "full_finetuning", 1, parameters=52_096)
    same = {"function": "prefix"}
    return found(
        full.model_copy(update={"is_reference": True}),
        row("lora", [0.97, 0.98, 0.99, 0.95, 0.98], 2),
        row("prefix_tuning", ZERO, 3).model_copy(update=same),
        row("soft_prompt", ZERO, 4).model_copy(update=same),
        row("attention_bias", ZERO, 5),
    )


def test_the_headline_is_a_sentence_for_a_paper() -> None:
    _, report = demo()
    assert report.headline == (
        "At up to 1,152 trained parameters, LoRA (97.5 %) is the best; prefix-tuning, soft prompt "
        "and attention bias (0.0 %) fail."
    )


def test_many_methods_with_one_figure_have_it_once() -> None:
    names = ("prefix_tuning", "soft_prompt", "attention_bias", "frozen")
    others = [row(name, ZERO, key) for key, name in enumerate(names, 3)]
    _, report = found(row("lora", [0.97, 0.98, 0.99, 0.95, 0.98], 2), *others)
    assert report.headline.endswith("is the best; 4 methods (0.0 %) fail.")


def test_rows_are_in_the_order_of_the_best_set_with_one_tag_each() -> None:
    _, report = demo()
    assert [(line.label, line.tag, line.seeds_ok) for line in report.rows] == [
        ("lora at 1,152", "best", 5),
        ("prefix_tuning at 1,152", "fails", 0),
        ("soft_prompt at 1,152", "fails", 0),
        ("attention_bias at 1,152", "fails", 0),
        ("full_finetuning", "reference", 5),
    ]
    assert report.marks == (
        "[a] prefix-tuning and soft prompt compute one function on this model and count once.",
    )


def test_limits_are_named_by_their_level() -> None:
    comparison = compare("sort_descending", [row("lora", [0.97, 0.98], 2)], level=0.9)
    lines = [*report_lines(report_of(comparison, comparison.cells[0], moved={}))]
    assert "90 %" in lines[2]
    assert "95 %" not in "".join(lines)


def test_one_method_that_fails_on_some_seeds_is_singular() -> None:
    steady, lottery = [0.97, 0.98, 0.99, 0.95] * 3, [0.9, 0.0, 0.0, 0.91] * 3
    comparison, _ = found(row("lora", steady, 2), row("ia3", lottery, 3))
    assert comparison.cells[0].sentence == (
        "LoRA (97.3 %) is the best; IA3 (45.1 %, 6 of 12 seeds ok) fails on some seeds."
    )


def test_the_text_fits_a_terminal() -> None:
    _, report = demo()
    lines = [*report_lines(report)]
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= WIDTH for line in lines)
    table = "\n".join(lines)
    assert "[a]" in table


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            (row("lora", [0.9] * 5, 1), row("adapter", [0.9] * 5, 2)),
            "may each be the best.",
        ),
        ((row("lora", [0.9] * 3, 1), row("adapter", ZERO[:3], 2)), "LoRA (90.6 %) works;"),
        ((row("lora", ZERO, 1), row("adapter", ZERO, 2)), "Nothing works:"),
        ((row("lora", [0.9] * 5, 1),), "LoRA (89.9 %) works."),
        (
            (row("lora", [0.95] * 5, 1), row("adapter", [0.9, 0.9, 0.9, 0.0, 0.0], 2)),
            "3 of 5 seeds ok",
        ),
    ],
)
def test_headlines_of_other_tables(rows: tuple[Scores, ...], says: str) -> None:
    comparison, report = found(*rows)
    assert says.removeprefix("Nothing") in comparison.sentence
    assert len(report.headline.split()) <= MOST_WORDS


def test_many_methods_still_fit_forty_words() -> None:
    names = ("lora", "adapter", "bitfit", "ia3", "prefix_tuning", "soft_prompt", "head_only")
    rows = [row(name, [0.9, 0.91, 0.89, 0.9, 0.92], key) for key, name in enumerate(names)]
    rows += [row("attention_bias", ZERO, 20), row("layernorm_tuning", [0.4] * 5, 21)]
    _, report = found(*rows)
    assert len(report.headline.split()) <= MOST_WORDS


def test_a_voided_table_says_so_and_nothing_else() -> None:
    differing = SettingDifference(
        pointer="/training/steps", weight="voids", values=(), text="Steps differ."
    )
    comparison = compare("add", [row("lora", [0.9] * 5, 1)], differences=[differing])
    report = report_of(comparison, comparison.cells[0], moved={})
    assert report.headline.startswith("No verdict")
    assert report.rows[0].tag == "unknown"


def test_no_more_than_three_notes() -> None:
    comparison, _ = demo()
    warnings = [f"Warning {number}." for number in range(5)]
    report = report_of(comparison, comparison.cells[0], moved={}, warnings=warnings)
    assert report.notes == ("Warning 0.", "Warning 1.", "Warning 2.")


def test_a_risk_without_failures_is_not_named_where_all_seeds_failed() -> None:
    _, report = found(row("lora", [0.0] * 5, 1), row("ia3", [0.0] * 5, 2))
    assert not any("none here did" in note for note in report.notes)
    _, report = found(row("lora", [0.9] * 5, 1), row("ia3", [0.0] * 5, 2))
    assert any("none here did" in note for note in report.notes)


def test_seeds_of_other_jobs_are_those_of_the_method_and_not_of_the_row() -> None:
    """The row is named by its user, and the other jobs adapt other sites."""
    comparison = compare("sort_descending", [row("LoRA on the MLP", [0.9] * 5, 1)])
    (cell,) = comparison.cells
    assert cell.leader is not None
    seen = [SeenSeeds(label=cell.leader, method="lora", family="minigpt", failing=3, seeds=412)]
    report = report_of(comparison, cell, moved={}, seen=seen)
    assert report.notes[-1].endswith("In other jobs here, LoRA failed on 3 of 412 seeds (minigpt).")
