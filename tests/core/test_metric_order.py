"""The order of methods by a metric, and what must not make one."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from tests.core.scoring import scores

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.comparison import Comparison, compare
from adaptlab.comparisons.metric_order import MetricOrder, MetricPair, Rule, metric_pairs
from adaptlab.statistics.scores import Scores
from adaptlab.statistics.unseen import least_p_value
from adaptlab.text.metrics import LARGEST_PERPLEXITY, OtherMetric

RULE = Rule(0.95, 0.01, 0.05)
LORA = (5.0, 5.1, 4.9, 5.05, 5.0)
IA3 = (5.3, 5.2, 5.25, 5.3, 5.2)
PREFIX = (9.0, 8.7, 9.2, 9.1, 8.8)


def row(
    method: str,
    values: Sequence[float],
    metric: OtherMetric = "perplexity",
    *,
    budget: int | None = 8,
    items: int = 16,
) -> Scores:
    """A method that answers no item right, with a metric of every seed."""
    plain = scores(np.zeros((len(values), items), dtype=bool), method, budget=budget)
    return plain.model_copy(update={"metric": metric, "measured": tuple(values)})


def order_of(*rows: Scores) -> MetricOrder:
    (cell,) = compare("text_completion", rows).cells
    assert cell.by_metric is not None
    assert cell.sentence.startswith(f"{cell.by_metric.sentence} By right items: Nothing measured")
    return cell.by_metric


def test_the_lowest_perplexity_is_the_best() -> None:
    found = order_of(row("prefix_tuning", PREFIX), row("ia3", IA3), row("lora", LORA))
    assert found.best == ("lora at 8",)
    assert [pair.finding for pair in found.pairs] == ["worse", "worse", "worse"]
    assert found.sentence == (
        "By perplexity on these items, LoRA is the best with 5.01 (lower is better), better than "
        "IA3 (5.25) and prefix-tuning (8.96)."
    )
    assert found.pairs[2].text == (
        "By perplexity, IA3 at 8 is worse than LoRA at 8 (1.048 times, 95 % interval 1.024 to "
        "1.073; p = 0.0079, corrected for 3 comparisons; 5 seeds, the same items)."
    )


def test_the_highest_share_is_the_best() -> None:
    rows = (("lora", (0.5, 0.51, 0.49, 0.5)), ("ia3", (0.2, 0.21, 0.2, 0.19)))
    found = order_of(*(row(name, values, "token_f1") for name, values in rows))
    assert found.best == ("lora at 8",)
    assert "LoRA is the best with 50.0 %, better than IA3 (20.0 %)." in found.sentence
    assert found.pairs[0].text.startswith("By token F1, LoRA at 8 is better than IA3 at 8 (+30.0 ")


def test_several_could_be_the_best() -> None:
    other = tuple(value + change for value, change in zip(LORA, (0.1, -0.1) * 3, strict=False))
    found = order_of(row("lora", LORA), row("ia3", other), row("prefix_tuning", PREFIX))
    assert found.best == ("lora at 8", "ia3 at 8")
    assert found.sentence.endswith(
        "LoRA (5.01) and IA3 (5.03) could be the best (lower is better); prefix-tuning (8.96) is "
        "worse."
    )


def test_the_test_is_the_paired_one_on_logarithms() -> None:
    (pair,) = metric_pairs((row("lora", LORA), row("ia3", IA3)), RULE)
    found = stats.ttest_rel(np.log(LORA), np.log(IA3))
    limits = found.confidence_interval(0.95)
    assert pair.corrected_p == pytest.approx(max(found.pvalue, least_p_value(5)))
    assert (pair.low, pair.high) == pytest.approx((limits.low, limits.high), rel=1e-6)
    assert pair.difference == pytest.approx(np.mean(np.log(LORA) - np.log(IA3)))


def nothing(pairs: Sequence[MetricPair]) -> bool:
    return bool(pairs) and not {"better", "worse"} & {pair.finding for pair in pairs}


def test_rounding_and_few_seeds_order_nothing() -> None:
    twin = tuple(value * (1 + 1e-7) for value in LORA)
    found = order_of(row("lora", LORA), row("soft_prompt", twin))
    assert [pair.finding for pair in found.pairs] == ["cannot_be_told_apart"]
    assert "differ by less than 1 %" in found.pairs[0].text
    assert "no order is known: LoRA has 5.01 and soft prompt 5.01" in found.sentence
    for seeds in (1, 2, 3):
        pairs = metric_pairs((row("lora", LORA[:seeds]), row("ia3", PREFIX[:seeds])), RULE)
        assert nothing(pairs), seeds
    (alone,) = metric_pairs((row("lora", LORA[:1]), row("ia3", PREFIX[:1])), RULE)
    assert (alone.low, alone.high, alone.corrected_p) == (None, None, None)


def test_what_other_items_could_undo_is_no_order() -> None:
    near = tuple(value * 1.004 for value in LORA)
    (pair,) = metric_pairs((row("lora", LORA), row("soft_prompt", near)), RULE)
    assert pair.corrected_p == pytest.approx(least_p_value(5))
    assert pair.finding == "cannot_be_told_apart"
    factors = (1.004, 1.006, 1.008, 1.01, 1.012)
    drawn = tuple(value * factor for value, factor in zip(LORA, factors, strict=True))
    (pair,) = metric_pairs((row("lora", LORA), row("soft_prompt", drawn)), RULE)
    assert (pair.corrected_p or 1) < 0.05
    assert pair.finding == "not_known"


def test_a_seed_that_diverges_hides_the_order() -> None:
    broken = (*LORA[:4], LARGEST_PERPLEXITY)
    found = order_of(row("lora", broken), row("prefix_tuning", PREFIX))
    assert nothing(found.pairs)
    assert math.isfinite(found.pairs[0].difference)


@pytest.mark.parametrize("seeds", [4, 5, 8])
def test_equal_methods_are_seldom_ordered(seeds: int) -> None:
    draw = np.random.default_rng(seeds)
    tables = 400
    false = 0
    for _ in range(tables):
        shared = draw.normal(0, 0.03, seeds)
        drawn = 0.5 + shared + draw.normal(0, 0.02, (4, seeds))
        rows = [row(f"m{i}", values, "token_f1") for i, values in enumerate(drawn.tolist())]
        false += not nothing(metric_pairs(rows, RULE))
    assert false <= stats.binom.ppf(0.999, tables, 0.05)


def test_only_rows_with_the_metric_are_ordered() -> None:
    plain = scores(np.zeros((5, 16), dtype=bool), "bitfit", budget=8)
    found = order_of(row("lora", LORA), plain, row("ia3", IA3))
    assert [(pair.first, pair.second) for pair in found.pairs] == [("lora at 8", "ia3 at 8")]
    other_items = row("prefix_tuning", PREFIX, items=32)
    (cell,) = compare("text_completion", (row("lora", LORA), other_items)).cells
    assert cell.by_metric is None


def by_metric(found: Comparison) -> list[MetricOrder | None]:
    return [cell.by_metric for cell in found.cells]


def test_what_cannot_be_compared_has_no_order() -> None:
    rows = (row("lora", LORA), row("ia3", IA3))
    voided = SettingDifference(pointer="/steps", weight="voids", values=(), text="Steps differ.")
    assert by_metric(compare("text_completion", rows, differences=(voided,))) == [None]
    answers = {8: "LoRA is better."}
    assert by_metric(compare("text_completion", rows, answers=answers)) == [None]


def test_pairs_of_all_budgets_are_corrected_together() -> None:
    close = tuple(value + change for value, change in zip(LORA, (0.1, 0.3) * 3, strict=False))
    here = (row("lora", LORA), row("ia3", close))
    there = tuple(one.model_copy(update={"budget": 16}) for one in here)
    (alone,) = metric_pairs(here, RULE)
    both = metric_pairs((*here, *there), RULE)
    assert alone.corrected_p is not None
    assert alone.corrected_p > least_p_value(5)
    assert [pair.corrected_p for pair in both] == pytest.approx([2 * alone.corrected_p] * 2)


def test_values_need_a_name_and_one_per_seed() -> None:
    plain = scores(np.zeros((2, 8), dtype=bool))
    for changes in ({"metric": "perplexity"}, {"measured": (1.0, 2.0)}):
        with pytest.raises(ValueError, match="one per seed"):
            Scores.model_validate(plain.model_dump() | changes)
