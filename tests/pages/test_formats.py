from datetime import UTC, datetime

import pytest
from tests.making import a_replicate

from adaptlab_answers.results import EvaluationLinks, EvaluationView
from adaptlab_api.pages.jobs.scores import score_table
from adaptlab_api.pages.rendering import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.0\xa0%"),
        (0.0004, "< 0.1 %"),
        (0.9996, "> 99.9 %"),
        (1.0, "100.0\xa0%"),
        (0.953, "95.3\xa0%"),
    ],
)
def test_a_share_is_all_or_nothing_only_when_it_is(value: float | None, text: str):
    assert formats.percent(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0061, "6 ms"),
        (59.04, "59.0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (97200, "1 d 3 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str):
    assert formats.duration(seconds) == text


def test_a_change_has_its_sign_and_is_nothing_only_when_it_is():
    changes = (0.123, -0.04, 0.0003, -0.00004, 0.0)
    texts = ["+12.3", "\N{MINUS SIGN}4.0", "+0.03", "\N{MINUS SIGN}0.004", "0.0"]
    assert [formats.points(change) for change in changes] == texts


def test_a_tiny_number_does_not_look_like_zero():
    assert formats.scientific(3.1e-8) == "3.1×10⁻⁸"
    assert formats.scientific(0.0) == "0.000"
    assert formats.scientific(0.0231) == "0.023"


def test_sizes_times_and_names():
    assert [formats.size(n) for n in (500, 1536, 5 * 2**20)] == ["500 B", "1.5 KiB", "5.0 MiB"]
    assert formats.integer(117888) == "117,888"
    assert formats.utc(datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC)) == "2026-11-21 01:02:03 UTC"
    assert formats.method_title("lora") == "LoRA"
    assert formats.method_title("gone_method") == "gone method"
    assert formats.one_line({"a": 1, "nested": {"b": 2}, "text": "x"}) == "a: 1, text: x"


def test_scores_stand_side_by_side():
    scored = [evaluation(r, task, c) for r, task, c in ((0, "a", 8), (0, "b", 2), (1, "a", 10))]
    table = score_table(scored, [a_replicate(0), a_replicate(1)])
    assert [column.task for column in table.columns] == ["a", "b"]
    assert [row.accuracies for row in table.rows] == [(0.8, 0.2), (1.0, None)]
    assert table.columns[0].accuracy.mean == pytest.approx(0.9)
    assert table.columns[1].accuracy.over_items_only


def test_the_job_s_own_task_comes_first():
    scored = [evaluation(0, task, 8) for task in ("a", "b", "c")]
    table = score_table(scored, [a_replicate(0)], {"name": "b"})
    assert [column.task for column in table.columns] == ["b", "a", "c"]


def test_scores_of_the_base_alone_are_in_no_mean():
    scored = [evaluation(0, "a", 8), evaluation(0, "a", 2, attached=False)]
    (column,) = score_table(scored, [a_replicate(0)]).columns
    assert column.accuracy.mean == pytest.approx(0.8)


def evaluation(replicate: int, task: str, correct: int, *, attached: bool = True) -> EvaluationView:
    return EvaluationView(
        id=replicate,
        replicate=replicate,
        seed=replicate,
        task={"name": task},
        split="test",
        attached=attached,
        correct=correct,
        total=10,
        accuracy=correct / 10,
        links=EvaluationLinks(outcomes=""),
    )


def test_the_name_of_a_dataset_in_a_label_keeps_its_underscores():
    title = formats.task_title
    assert title("text_classification of my_reviews") == "text classification of my_reviews"
    assert [title("sort_ascending"), title(None)] == ["sort ascending", "–"]


def test_a_difference_is_in_points_or_a_factor_of_a_perplexity() -> None:
    texts = [formats.difference(0.05, metric) for metric in (None, "chrf", "perplexity")]
    assert texts == ["+5.0", "+5.0", "×0.951"]
