"""The best set by a task's own metric, and what must not make one."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.core.scoring import scores

from adaptlab.comparisons.comparison import ComparisonCell, compare
from adaptlab.comparisons.report import report_of
from adaptlab.statistics.confusions import macro_f1
from adaptlab.statistics.metric_samples import jackknife_variance
from adaptlab.statistics.scores import Scores
from adaptlab.text.metrics import LARGEST_PERPLEXITY, OtherMetric

LORA = (5.0, 5.1, 4.9, 5.05, 5.0)
IA3 = (5.3, 5.2, 5.25, 5.3, 5.2)
PREFIX = (9.0, 8.7, 9.2, 9.1, 8.8)


def row(
    method: str,
    values: Sequence[float],
    metric: OtherMetric = "perplexity",
    *,
    variance: float | None = None,
) -> Scores:
    """A method with a metric of every seed, and half of the items right."""
    plain = scores(np.tile([True, False], (len(values), 32)), method, budget=8)
    variances = () if variance is None else (variance,) * len(values)
    return plain.model_copy(
        update={"metric": metric, "measured": tuple(values), "item_variances": variances}
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
    order = cell.by_metric
    assert order is not None
    by_label = {one.label: one for one in order.rows}
    difference = by_label["prefix_tuning at 8"].difference
    assert difference == pytest.approx(-math.log(8.96 / 5.01), abs=1e-2)


def test_limits_are_at_the_level_that_was_asked_for() -> None:
    methods = [row("ia3", IA3), row("lora", LORA)]
    widths = []
    for level in (0.8, 0.99):
        order = compare("text_completion", methods, level=level).cells[0].by_metric
        assert order is not None
        of_ia3 = order.rows[0]
        assert of_ia3.low is not None
        assert of_ia3.high is not None
        assert of_ia3.difference_low is not None
        assert of_ia3.difference_high is not None
        widths.append((of_ia3.high - of_ia3.low, of_ia3.difference_high - of_ia3.difference_low))
    assert all(wide > narrow for narrow, wide in zip(*widths, strict=True))


def test_an_order_by_a_share_holds_for_new_items_too() -> None:
    """A difference of 4 points is one of items if each adds 3 points of noise."""
    first, second = (0.5, 0.51, 0.49, 0.5, 0.5), (0.46, 0.46, 0.45, 0.46, 0.46)
    sure = cell_of(
        row("lora", first, "token_f1", variance=1e-6), row("ia3", second, "token_f1", variance=1e-6)
    )
    assert sure.best == ("lora at 8",)
    assert "on these items" not in sure.sentence
    unsure = cell_of(
        row("lora", first, "token_f1", variance=9e-4), row("ia3", second, "token_f1", variance=9e-4)
    )
    assert unsure.best == ("lora at 8", "ia3 at 8")


def test_a_diverged_seed_is_the_worst_and_makes_no_order_by_itself() -> None:
    lost = row("ia3", (*LORA[:4], LARGEST_PERPLEXITY))
    assert set(cell_of(row("lora", LORA), lost).best) == {"lora at 8", "ia3 at 8"}


def test_equal_functions_are_no_order() -> None:
    values = [value * (1 + 1e-9) for value in LORA]
    assert len(cell_of(row("lora", LORA), row("ia3", values)).best) == 2


def test_the_report_shows_the_metric() -> None:
    comparison = compare("text", [row("lora", LORA), row("ia3", IA3)])
    report = report_of(comparison, comparison.cells[0], moved={})
    assert report.unit == "Perplexity"
    assert [line.figure for line in report.rows] == ["5.01", "5.25"]
    assert report.rows[1].difference.startswith("×1.05")


def test_the_jackknife_of_macro_f1_is_that_of_single_items() -> None:
    counts = [[30, 5, 1], [4, 20, 2], [0, 3, 9]]
    items = [(i, j) for i in range(3) for j in range(3) for _ in range(counts[i][j])]
    left = []
    for out in range(len(items)):
        table = np.zeros((3, 3))
        for place, cell in enumerate(items):
            table[cell] += place != out
        left.append(macro_f1(table.tolist()))
    n = len(items)
    expected = (n - 1) / n * float(((np.array(left) - np.mean(left)) ** 2).sum())
    assert jackknife_variance(counts) == pytest.approx(expected)
