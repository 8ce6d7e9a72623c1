"""Metrics: their values and pseudo-values, from statistics by item."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from adaptlab.metrics.macro_f1 import macro_f1
from adaptlab.plugins.metric import METRICS, Metric, metrics
from adaptlab.records.text_units import TEXT_UNITS
from adaptlab.runs.item_statistics import packed, unpacked
from adaptlab.statistics.metric_samples import pseudo_values

Array = NDArray[np.float64]
ITEMS = 60
TEXTS = ("the cat is on a mat", "no dog ran here", "red or blue or green", "Lima is a big city")
NUMBERS = ("It is 7.", "#### 1,200", "8 or 9", "-3")
VALUES = ('{"a": 1}', "[1, 2]", '"red"', "null")


def answers_of(metric: Metric) -> Sequence[str]:
    """Return different right answers that the metric reads."""
    return next(some for some in (TEXTS, NUMBERS, VALUES) if all(map(metric.reads_answer, some)))


def drawn(metric: Metric, items: int = ITEMS, seed: int = 0) -> Array:
    """Return statistics of some items as they come from the engine."""
    draw = np.random.default_rng(seed)
    match metric.needs:
        case "labels":
            right = draw.integers(0, 3, items)
            given = np.where(draw.random(items) < 0.7, right, draw.integers(0, 3, items))
            return np.stack((right, given), 1).astype(np.float64)
        case "likelihood" | "likelihood_of_text":
            tokens = draw.integers(1, 9, items)
            return np.stack((draw.gamma(2.0, size=items) * tokens, tokens.astype(np.float64)), 1)
        case "base":
            tokens = draw.integers(1, 9, items).astype(np.float64)
            return np.stack(
                (draw.gamma(2.0, size=items) * tokens, 3 * tokens, tokens, 4 * tokens), 1
            )
        case "answers":
            texts = answers_of(metric)
            right = draw.choice(texts, items)
            given = np.where(draw.random(items) < 0.6, right, draw.choice(texts, items))
            return np.array([*map(metric.of_answer, given.tolist(), right.tolist())])
        case "choices":
            return draw.integers(0, 2, (items, 1)).astype(np.float64)
        case "endings":
            return draw.integers(0, 5, (items, 1)) / 4


def every() -> Sequence[object]:
    return [pytest.param(metric, id=metric.name) for metric in metrics()]


@pytest.mark.parametrize("metric", every())
def test_pseudo_values_are_those_of_leaving_items_out(metric: Metric) -> None:
    table = drawn(metric)
    scaled = [metric.scaled(np.array(metric.value(np.delete(table, i, 0)))) for i in range(ITEMS)]
    whole = float(metric.scaled(np.array(metric.value(table))))
    expected = ITEMS * whole - (ITEMS - 1) * np.array(scaled)
    assert pseudo_values(metric, table) == pytest.approx(expected)
    assert expected.mean() == pytest.approx(whole, abs=0.05 * abs(whole))
    assert expected.std() > 0


@pytest.mark.parametrize("metric", every())
def test_those_of_groups_leave_whole_groups_out(metric: Metric) -> None:
    table = drawn(metric)
    groups = tuple(np.sort(np.random.default_rng(1).integers(0, 9, ITEMS)).tolist())
    assert len(set(groups)) == 9
    kept = [table[np.array(groups) != group] for group in range(9)]
    scaled = [metric.scaled(np.array(metric.value(rows))) for rows in kept]
    whole = float(metric.scaled(np.array(metric.value(table))))
    found = pseudo_values(metric, table, groups)
    assert found == pytest.approx(9 * whole - 8 * np.array(scaled))
    assert pseudo_values(metric, table, (0,) * ITEMS) == pytest.approx([whole])


@pytest.mark.parametrize("metric", every())
def test_statistics_survive_packing(metric: Metric) -> None:
    table = drawn(metric)
    data = packed(table)
    found = unpacked(data, ITEMS, metric.columns)
    assert found == pytest.approx(table, rel=1e-6)
    assert len(data) < table.nbytes
    for items, columns in ((ITEMS + 1, metric.columns), (ITEMS, metric.columns + 1), (1, 1)):
        with pytest.raises(ValueError, match="They are not numbers of"):
            unpacked(data, items, columns)


@pytest.mark.parametrize("data", [b"", b"B" * 9, packed(np.array([[math.inf]]))])
def test_what_is_no_statistics_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="They are not"):
        unpacked(data, 1, 1)


@pytest.mark.parametrize("metric", every())
def test_more_is_better_on_the_scale_of_tests(metric: Metric) -> None:
    (best,) = {*metric.limits} - {metric.worst}
    assert metric.as_score(best) == 1
    assert metric.as_score(metric.worst) == 0
    assert metric.unscaled(float(metric.scaled(np.array(best)))) == pytest.approx(best)


@pytest.mark.parametrize("metric", every())
def test_exact_answers_have_the_best_value(metric: Metric) -> None:
    if metric.needs != "answers":
        return
    texts = answers_of(metric)
    table = np.array([metric.of_answer(text, text) for text in texts])
    assert metric.value(table) == pytest.approx(metric.limits[1])
    nothing = np.array([metric.of_answer("", text) for text in texts])
    assert metric.value(nothing) == pytest.approx(metric.worst)


def test_macro_f1_is_that_of_the_counts() -> None:
    metric = METRICS.get("macro_f1")
    table = drawn(metric)
    counts = [[0] * 3 for _ in range(3)]
    for right, given in table.astype(int).tolist():
        counts[right][given] += 1
    assert metric.value(table) == pytest.approx(macro_f1(counts))


def test_the_only_item_of_a_label_does_not_outweigh_all_others() -> None:
    """Left out, it would take its label out of the mean."""
    metric = METRICS.get("macro_f1")
    table = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]] * 50 + [[2.0, 0.0]])
    found = pseudo_values(metric, table)
    assert abs(found - metric.value(table)).max() < 2


def test_more_labels_than_are_counted_are_refused() -> None:
    with pytest.raises(ValueError, match="65,535 labels"):
        METRICS.get("macro_f1").value(np.array([[0.0, 65_534.0]]))


def test_perplexity_is_of_all_tokens_and_not_a_mean_of_items() -> None:
    metric = METRICS.get("perplexity")
    table = np.array([[math.log(2), 1.0], [9 * math.log(8), 9.0]])
    assert metric.value(table) == pytest.approx(math.exp((math.log(2) + 9 * math.log(8)) / 10))
    for losses in ([70.0, 1.0], [1.0, 0.0], [0.0, 0.0]):
        assert metric.value(np.array([losses])) == metric.worst
    assert metric.value(np.array([[-1e-9, 1.0]])) == 1


def test_perplexities_of_text_are_those_of_lm_eval() -> None:
    """Its `weighted_perplexity` and `bits_per_byte` of sums over documents."""
    from lm_eval.api import metrics as lm_eval

    texts, nats = ("the cat sat", "喝茶 and a Vögel ", "no"), (11.5, 30.25, 2.0)
    sizes = {unit: [*map(count, texts)] for unit, count in TEXT_UNITS.items()}
    assert sizes["words"] == [3, 5, 1], "an empty part behind the last space counts"
    for name in ("word_perplexity", "byte_perplexity", "bits_per_byte"):
        metric = METRICS.get(name)
        pairs = [*zip((-one for one in nats), sizes[metric.text_unit], strict=True)]
        by_lm_eval = lm_eval.bits_per_byte if name == "bits_per_byte" else None
        expected = (by_lm_eval or lm_eval.weighted_perplexity)(pairs)
        table = np.array([(-loss, size) for loss, size in pairs])
        assert metric.value(table) == pytest.approx(expected)
