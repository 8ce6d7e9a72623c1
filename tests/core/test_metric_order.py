"""The best set by a task's own metric, and what must not make one."""

import json
import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from tests.core.scoring import scores

from adaptlab.charts.differences import pairwise_differences
from adaptlab.comparisons.comparison import ComparisonCell, compare
from adaptlab.comparisons.report import report_of
from adaptlab.metrics.perplexity import LARGEST_PERPLEXITY
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.events import MetricFloor
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.statistics.failing import works_from
from adaptlab.statistics.metric_samples import metric_sample
from adaptlab.statistics.scores import Scores

LORA = (5.0, 5.1, 4.9, 5.05, 5.0)
IA3 = (5.3, 5.2, 5.25, 5.3, 5.2)
PREFIX = (9.0, 8.7, 9.2, 9.1, 8.8)


def row(
    method: str,
    values: Sequence[float],
    metric: str = "perplexity",
    *,
    items: Sequence[float] = (),
) -> Scores:
    """A method with a metric of every seed, and half of the items right.

    The metric of item i differs from that of its seed by `items[i]`.
    """
    plain = scores(np.tile([True, False], (len(values), 32)), method, budget=8)
    kept = tuple(as_text(packed(np.array([items]).T + value)) for value in values if items)
    return plain.model_copy(
        update={"metric": metric, "measured": tuple(values), "statistics": kept}
    )


def cell_of(*rows: Scores) -> ComparisonCell:
    (cell,) = compare("text_completion", rows).cells
    return cell


def test_the_lowest_perplexity_is_the_best_and_the_headline_is_about_it_alone() -> None:
    cell = cell_of(row("prefix_tuning", PREFIX), row("ia3", IA3), row("lora", LORA))
    assert cell.best == ("lora at 8",)
    assert cell.sentence == (
        "LoRA (5.01) is the best by perplexity on these items; prefix-tuning (8.96) and IA3 (5.25) "
        "are behind."
    )
    prefix, _, lora = cell.rows
    assert prefix.against_best is not None
    assert prefix.against_best.difference == pytest.approx(-math.log(8.96 / 5.01), abs=1e-2)
    assert lora.against_best is None


def test_pairs_are_about_the_metric_and_not_about_right_items() -> None:
    """Half of the items are right with every method."""
    by_perplexity = cell_of(row("lora", LORA), row("prefix_tuning", PREFIX)).verdicts
    assert [(one.finding, one.reason) for one in by_perplexity] == [("better", "test")]
    assert "LoRA at 8 is better than prefix-tuning at 8 (×0.559, 95 % interval ×0.5" in (
        by_perplexity[0].text
    )
    shares = [[value / 20 for value in of] for of in (PREFIX, LORA)]
    by_share = cell_of(row("lora", shares[0], "chrf"), row("ia3", shares[1], "chrf")).verdicts
    assert by_share[0].text.startswith("LoRA at 8 is better than IA3 at 8 (+19.7 points, 95 % ")


def test_methods_of_one_perplexity_differ_by_less_than_a_part_of_it() -> None:
    close = [value * 1.001 for value in LORA]
    (verdict,) = cell_of(row("lora", LORA), row("ia3", close)).verdicts
    assert verdict.reason == "within_margin"
    assert "they differ by less than 1 % (×0.999" in verdict.text


def test_a_row_without_the_metric_is_in_no_pair() -> None:
    plain = row("ia3", IA3).model_copy(update={"metric": None, "measured": ()})
    cell = cell_of(row("lora", LORA), plain, row("prefix_tuning", PREFIX))
    pairs = [(one.pair.first, one.pair.second) for one in cell.verdicts]
    assert pairs == [("lora at 8", "prefix_tuning at 8")]
    assert cell.best == ("lora at 8",)


def test_limits_are_at_the_level_that_was_asked_for() -> None:
    methods = [row("ia3", IA3), row("lora", LORA)]
    widths = []
    for level in (0.8, 0.99):
        (cell,) = compare("text_completion", methods, level=level).cells
        assert cell.by_metric is not None
        of_ia3, pair = cell.by_metric.rows[0], cell.rows[0].against_best
        assert of_ia3.low is not None
        assert of_ia3.high is not None
        assert pair is not None
        widths.append((of_ia3.high - of_ia3.low, pair.high - pair.low))
    assert all(wide > narrow for narrow, wide in zip(*widths, strict=True))


def test_an_order_by_a_share_holds_for_new_items_too() -> None:
    """Items that are hard for both say nothing; those hard for one do."""
    first, second = (0.5, 0.51, 0.49, 0.5, 0.5), (0.43, 0.43, 0.42, 0.43, 0.43)
    hard = [0.3, -0.3] * 32
    easy_for_one = [0.3, 0.3, -0.3, -0.3] * 16
    sure = cell_of(
        row("lora", first, "token_f1", items=hard), row("ia3", second, "token_f1", items=hard)
    )
    assert sure.best == ("lora at 8",)
    assert "on these items" not in sure.sentence
    unsure = cell_of(
        row("lora", first, "token_f1", items=hard),
        row("ia3", second, "token_f1", items=easy_for_one),
    )
    assert unsure.best == ("lora at 8", "ia3 at 8")
    assert sure.by_metric is not None
    assert sure.by_metric.covers_items


def test_a_diverged_seed_is_the_worst_and_makes_no_order_by_itself() -> None:
    lost = row("ia3", (*LORA[:4], LARGEST_PERPLEXITY))
    assert set(cell_of(row("lora", LORA), lost).best) == {"lora at 8", "ia3 at 8"}


def test_limits_of_two_seeds_of_which_one_diverged_are_numbers() -> None:
    methods = [row("lora", LORA[:2]), row("ia3", (5.0, LARGEST_PERPLEXITY))]
    comparison = compare("text_completion", methods, level=0.999)
    order = comparison.cells[0].by_metric
    assert order is not None
    assert order.rows[1].high == LARGEST_PERPLEXITY
    report = report_of(comparison, comparison.cells[0], moved={})
    assert "e+" in report.rows[1].difference


def test_equal_functions_are_no_order() -> None:
    values = [value * (1 + 1e-9) for value in LORA]
    assert len(cell_of(row("lora", LORA), row("ia3", values)).best) == 2


def test_the_report_shows_the_metric() -> None:
    comparison = compare("text", [row("lora", LORA), row("ia3", IA3)])
    report = report_of(comparison, comparison.cells[0], moved={})
    assert report.unit == "Perplexity"
    assert [line.figure for line in report.rows] == ["5.01", "5.25"]
    assert report.rows[1].difference.startswith("×1.05")


def test_items_add_as_much_as_their_spread_to_the_mean_of_a_metric() -> None:
    hard = [0.3, -0.3] * 32
    sample = metric_sample(row("lora", (0.5, 0.52, 0.48), "token_f1", items=hard))
    assert sample.values == pytest.approx([0.5, 0.52, 0.48])
    assert sample.of_items == pytest.approx(float(np.var(hard, ddof=1)) / 64)
    groups = (*range(16),) * 4
    wide = metric_sample(
        row("lora", (0.5, 0.52, 0.48), "token_f1", items=hard).model_copy(
            update={"clusters": groups}
        )
    )
    assert wide.units == 16
    assert wide.of_items == pytest.approx(4 * sample.of_items, rel=0.1)


def test_a_seed_without_a_score_has_the_worst_value() -> None:
    hard = [0.3, -0.3] * 32
    plain = row("lora", (0.5, 0.52, 0.48), "token_f1", items=hard)
    sample = metric_sample(plain.model_copy(update={"unscored": (7, 8)}))
    assert sample.values == pytest.approx([0.5, 0.52, 0.48, 0, 0])
    assert sample.by_unit.mean() == pytest.approx(0.3)


def with_floor(one: Scores, value: float) -> Scores:
    return one.model_copy(update={"metric_floor": MetricFloor(value=value, kind="base_alone")})


def test_seeds_fail_by_the_floor_of_the_metric() -> None:
    """Half of the items are right, and no method beats the base alone."""
    rows = [with_floor(row("lora", LORA), 4.0), with_floor(row("prefix_tuning", PREFIX), 4.5)]
    cell = cell_of(*rows)
    assert [one.failing.ok for one in cell.rows] == [0, 0]
    assert cell.sentence == (
        "Nothing works: the best, LoRA (5.01), does not beat the floor; the floor is 4 (the base "
        "model alone)."
    )
    better = cell_of(*(one.model_copy(update={"metric_floor": None}) for one in rows))
    assert [one.failing.ok for one in better.rows] == [5, 5]


def test_a_floor_is_beaten_by_a_part_of_the_way_to_the_best() -> None:
    floor = MetricFloor(value=math.e**2, kind="constant_answer")
    assert works_from(METRICS.get("perplexity"), floor, 100) == pytest.approx(math.e**1.8)
    share = MetricFloor(value=0.75, kind="constant_answer")
    assert works_from(METRICS.get("chrf"), share, 100) == pytest.approx(
        0.75 + 1.6449 * 0.0433, 1e-3
    )
    assert works_from(METRICS.get("chrf"), share, 10_000) == pytest.approx(0.775)


def test_a_difference_from_a_leader_among_many_is_wider() -> None:
    """Of six alike methods, the leader is the one with the luckiest seeds."""
    alike = [row(name, LORA) for name in ("lora", "bitfit", "dora", "vera", "attention_bias")]
    widths = []
    for others in (alike[:1], alike):
        cell = cell_of(*others, row("ia3", [1.01 * value for value in reversed(LORA)]))
        assert len(cell.best) == len(others) + 1
        pair = cell.rows[-1].against_best
        assert pair is not None
        widths.append(pair.high - pair.low)
    assert widths[1] > 1.3 * widths[0]


def test_a_table_by_a_metric_has_no_cheapest_method_by_right_items() -> None:
    rows = [row("lora", LORA), row("full_finetuning", LORA)]
    rows = [one.model_copy(update={"parameters": 8}) for one in rows]
    by_metric = compare("text", rows, reference="full_finetuning")
    assert (by_metric.cheapest, by_metric.crossings) == (None, ())
    plain = [one.model_copy(update={"metric": None, "measured": ()}) for one in rows]
    assert compare("text", plain, reference="full_finetuning").cheapest is not None


@pytest.mark.parametrize(
    ("metric", "unit", "largest"),
    [("perplexity", "nats per token", 0.58), ("token_f1", "points of token F1", 395)],
)
def test_the_chart_of_differences_has_the_unit_of_the_metric(
    metric: str, unit: str, largest: float
) -> None:
    rows = row("lora", LORA, metric), row("prefix_tuning", PREFIX, metric)
    chart = json.dumps(pairwise_differences(cell_of(*rows), margin=0.01))
    assert f"first minus second, {unit}" in chart
    assert max(map(float, re.findall(r'"difference": ([0-9.]+)', chart))) == pytest.approx(
        largest, rel=0.01
    )
