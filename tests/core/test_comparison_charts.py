"""Charts of a comparison: numbers, colours and strangers' names.

The numbers are those that the charts hold.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adaptlab.charts import (
    Chart,
    SweepPoint,
    Theme,
    better_first,
    pairwise_differences,
    possible_ranks,
    rate_sweeps,
    score_against_budget,
    svg,
)
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.statistics import Scores

HOSTILE = "<script>alert(1)</script>\"\\ '; datum.x //"
ITEMS = 400
SEEDS = 24
METHODS = ("frozen", "full_finetuning", "lora", "adapter")


def scores(method: str, budget: int | None, right: int) -> Scores:
    """Return scores of seeds that agree.

    There are enough to exclude unseen failures. The first `right` of 400 are right.
    """
    packed = np.packbits(np.arange(ITEMS) < right).tobytes().hex()
    return Scores(
        method=method,
        budget=budget,
        parameters=1000 if budget is None else budget,
        trials=3,
        seeds=tuple(range(SEEDS)),
        items=ITEMS,
        outcomes=(packed,) * SEEDS,
    )


def comparison(second: str = "lora") -> Comparison:
    """Return a comparison of the adapter with method `second`.

    The method is behind the adapter at 100 by as much as it is ahead at 10,000.
    """
    return compare(
        "sort_descending",
        [
            scores("frozen", None, 0),
            scores("full_finetuning", None, 400),
            scores(second, 100, 200),
            scores(second, 10_000, 360),
            scores("adapter", 100, 280),
            scores("adapter", 10_000, 280),
        ],
        reference="full_finetuning",
    )


def layers(chart: Chart) -> list[Any]:
    found: list[Any] = json.loads(json.dumps(chart))["layer"]
    return found


def rows_with(chart: Chart, *fields: str) -> list[dict[str, Any]]:
    """The data of the first layer that has all these fields."""
    for layer in layers(chart):
        values = layer.get("data", {}).get("values", [])
        if values and set(fields) <= set(values[0]):
            return values
    raise AssertionError(f"no layer has {fields}")


def budgets(found: Comparison, theme: Theme = "light", **options: Any) -> Chart:
    references = [row for row in found.cells[0].rows if row.budget is None]
    return score_against_budget(
        found.curves, crossings=found.crossings, references=references, theme=theme, **options
    )


def forest(found: Comparison, theme: Theme = "light") -> Chart:
    return pairwise_differences(found.cells[0], margin=found.margin, theme=theme)


def ranks(found: Comparison, theme: Theme = "light") -> Chart:
    return possible_ranks(found.cells[0].rows, theme=theme)


def sweeps(found: Comparison, theme: Theme = "light") -> Chart:
    points = [point(1e-3, 0.5), point(1e-2, None, diverged=3)]
    return rate_sweeps({row.method: points for row in found.cells[0].rows}, theme=theme)


CHARTS: list[Callable[..., Chart]] = [budgets, forest, ranks, sweeps]


def point(rate: float, accuracy: float | None, chosen: int = 0, diverged: int = 0) -> SweepPoint:
    return SweepPoint(
        learning_rate=rate, accuracy=accuracy, seeds=3, chosen=chosen, diverged=diverged
    )


def test_curves_hold_scores_bands_and_references() -> None:
    chart = budgets(comparison())
    points = {(row["method"], row["budget"]): row for row in rows_with(chart, "method", "budget")}
    assert points["lora", 100]["score"] == 0.5
    assert points["lora", 10_000]["score"] == 0.9
    assert points["adapter", 100]["low"] < 0.7 < points["adapter", 100]["high"]
    references = [row for row in rows_with(chart, "method") if "budget" not in row]
    assert {row["method"]: row["score"] for row in references} == {
        "frozen": 0,
        "full_finetuning": 1,
    }


def test_a_crossing_is_marked_where_the_drawn_lines_cross() -> None:
    (cross,) = rows_with(budgets(comparison()), "below", "above")
    # 80 items behind at 10² and 80 ahead at 10⁴: equal half way, at 10³, where both have 280.
    assert cross["budget"] == pytest.approx(1000)
    assert cross["score"] == pytest.approx(0.7)
    assert (cross["below"], cross["above"]) == ("adapter", "lora")
    assert 100 < cross["from"] < 1000 < cross["to"] < 10_000


def test_of_two_told_apart_the_better_one_comes_first() -> None:
    cell = comparison().cells[0]
    turned = {
        (pair.first, pair.second): pair
        for pair in (better_first(one) for one in cell.verdicts if one.finding == "worse")
    }
    ahead = turned["adapter at 100", "lora at 100"]
    assert ahead.difference == pytest.approx(0.2)
    assert 0 < ahead.low < 0.2 < ahead.high
    rows = rows_with(forest(comparison()), "difference", "finding")
    assert len(rows) == 6  # of four methods
    assert {row["finding"] for row in rows} == {"better"}
    assert all(row["low"] > 0 for row in rows)
    assert [row["difference"] for row in rows if row["pair"] == "adapter  −  lora"] == [
        pytest.approx(20)
    ]


def test_pairs_that_are_not_told_apart_come_after_those_that_are() -> None:
    alike = compare("t", [scores("a", 8, 200), scores("b", 8, 200), scores("c", 8, 300)])
    rows = rows_with(pairwise_differences(alike.cells[0]), "finding")
    assert [row["finding"] for row in rows] == ["better", "better", "cannot be told apart"]


def test_ranks_stand_in_the_given_order() -> None:
    found = comparison().cells[0]
    chart = possible_ranks(found.rows[::-1])
    values = json.loads(json.dumps(chart))["data"]["values"]
    assert [(row["method"], row["low"], row["high"]) for row in values] == [
        ("adapter", 2, 2),
        ("lora", 3, 3),
        ("full_finetuning", 1, 1),
        ("frozen", 4, 4),
    ]


def test_a_sweep_shows_what_was_chosen_and_what_diverged() -> None:
    trials = [point(1e-4, 0.2), point(1e-3, 0.8, chosen=3), point(1e-1, None, diverged=3)]
    chart = rate_sweeps({"lora": trials})
    shown = rows_with(chart, "accuracy", "picked")
    assert [(row["accuracy"], row["picked"]) for row in shown] == [
        (0.2, "not chosen"),
        (0.8, "chosen"),
    ]
    (lost,) = layers(chart)[-1]["data"]["values"]
    assert lost["learning_rate"] == pytest.approx(0.1)
    ticks = layers(chart)[0]["encoding"]["x"]["axis"]["values"]
    assert [math.log10(tick) for tick in ticks] == pytest.approx([-4, -3, -2, -1])


def test_a_method_has_one_colour_and_one_shape_in_all_charts() -> None:
    found = comparison()
    listed = ("soft_prompt", *METHODS)
    some = rate_sweeps({"lora": [point(1e-3, 0.5), point(1e-2, 0.6)]}, methods=listed)
    all_of_them = budgets(found, methods=listed)
    in_ranks = layers(possible_ranks(found.cells[0].rows, methods=listed))[0]["encoding"]
    scales = [
        chart["encoding"]["color"]["scale"] for chart in (as_json(some), as_json(all_of_them))
    ]
    assert scales[0] == scales[1] == in_ranks["color"]["scale"]
    assert scales[0]["domain"] == list(listed)
    assert len(set(scales[0]["range"])) == 5
    # A legend names what its own chart shows.
    assert as_json(some)["encoding"]["color"]["legend"]["values"] == ["lora"]


def test_twenty_methods_differ_in_colour_or_in_shape() -> None:
    names = [f"m{number}" for number in range(20)]
    chart = rate_sweeps({name: [point(1e-3, 0.5)] for name in names}, methods=names)
    colours = as_json(chart)["encoding"]["color"]["scale"]["range"]
    shapes = layers(chart)[1]["encoding"]["shape"]["scale"]["range"]
    assert len(set(zip(colours, shapes, strict=True))) == 20


def as_json(chart: Chart) -> Any:
    return json.loads(json.dumps(chart, allow_nan=False))


@pytest.mark.parametrize("draw", CHARTS)
def test_names_of_a_stranger_are_data_and_no_expression(draw: Callable[..., Chart]) -> None:
    chart = draw(comparison(HOSTILE))
    assert keys_of(chart).isdisjoint({"expr", "labelExpr", "calculate", "signal", "href", "url"})
    assert "<script" not in svg(chart)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("draw", CHARTS)
def test_charts_are_json_and_are_drawn(draw: Callable[..., Chart], theme: Theme) -> None:
    chart = draw(comparison(), theme=theme)
    assert as_json(chart) == chart
    assert "undefined" not in svg(chart)


@pytest.mark.parametrize(
    ("draw", "fault"),
    [
        (lambda: score_against_budget([]), "no score at a budget"),
        (lambda: possible_ranks([]), "no method"),
        (lambda: rate_sweeps({"lora": [point(1e-3, None)]}), "validation split"),
        (
            lambda: pairwise_differences(compare("t", [scores("a", 8, 9)]).cells[0]),
            "can be compared",
        ),
    ],
)
def test_nothing_to_draw_is_refused(draw: Callable[[], Chart], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        draw()


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return {str(k) for k in value} | {k for v in value.values() for k in keys_of(v)}
    return {k for v in value for k in keys_of(v)} if isinstance(value, list) else set()
