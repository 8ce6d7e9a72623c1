"""Sampled answers: what is drawn, and what it depends on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.engine.text_jobs import planned, pretraining
from tests.texts import COMPLETION, Stored, reviews, stored
from transformers import TemperatureLogitsWarper, TopPLogitsWarper

from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.measuring.drawn_tokens import Draws, nucleus
from adaptlab.engine.measuring.evaluate import Judged, judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.models.model import Model
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.answer_decoding import AnswerDecoding
from adaptlab.plugins.metric import METRICS
from adaptlab.specs.resolved import spec_digest
from adaptlab.statistics.metric_samples import pseudo_values
from adaptlab.statistics.samples import Sample, residual_of
from adaptlab.statistics.spread import spread
from adaptlab.statistics.typical import typical_limits

ITEMS = 12
TASK: dict[str, Any] = {**COMPLETION, "metric": "text_match"}
HOT: dict[str, Any] = {"temperature": 1.5, "samples": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(200))


def model_of(data: Stored, decoding: dict[str, Any] | None, **changes: Any) -> Model:
    """Return a random model whose task decodes answers in a way."""
    named = {} if decoding is None else {"decoding": decoding}
    return planned(pretraining(data, TASK | named | changes), data)[1]


def found(model: Model, seeds: tuple[int, ...] = (3, 4), items: int = ITEMS) -> Judged:
    return judged(model, model.plan.task, "test", items, 2, with_answers=True, seeds=seeds)


def test_the_nucleus_is_that_of_the_library() -> None:
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    warmed = TemperatureLogitsWarper(0.7)(torch.empty(0), logits)  # type: ignore[arg-type]
    kept = TopPLogitsWarper(0.8)(torch.empty(0), warmed)  # type: ignore[arg-type]
    chances = nucleus(logits, AnswerDecoding(temperature=0.7, top_p=0.8))
    assert torch.allclose(chances / chances.sum(-1, keepdim=True), kept.softmax(-1))
    assert ((chances > 0).sum(-1) < 50).all()


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    number, rule = 20_000, AnswerDecoding(temperature=1.0, top_p=0.9)
    logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -3.0])
    draws = Draws(rule, torch.tensor([7]), torch.arange(number), samples=1)
    column = torch.arange(number).unsqueeze(0)
    tokens = draws.pick(logits.expand(1, number, -1), column, torch.zeros_like(column))
    expected = nucleus(logits, rule)
    expected = (expected / expected.sum()).numpy()
    shares = torch.bincount(tokens[0], minlength=5).numpy() / number
    errors = np.sqrt(expected * (1 - expected) / number)
    assert (abs(shares - expected) <= 4 * errors).all()
    assert shares[-1] == 0, "outside the nucleus"


def test_a_draw_depends_on_seed_item_sample_and_place_alone(
    data: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(data, HOT)
    together = found(model).told
    first, second = ({tuple(map(tuple, answers)) for answers in row} for row in together)
    assert first.isdisjoint(second), "seeds differ"
    assert any(len({*map(tuple, answers)}) == HOT["samples"] for answers in together[0])
    assert [row[:5] for row in found(model, items=5).told] == [row[:5] for row in together]
    monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_kept_at_once", lambda *_: 2)
    assert found(model).told == together, "not on the batch"
    monkeypatch.setattr(Model, "begun", lambda *_, **__: None)
    assert found(model).told == together, "nor on the cache"


def test_a_low_temperature_and_a_small_nucleus_give_the_likeliest_tokens(data: Stored) -> None:
    greedy = found(model_of(data, None)).told
    for decoding in ({"temperature": 1e-6}, {"temperature": 1.0, "top_p": 1e-6, "samples": 4}):
        drawn = found(model_of(data, decoding)).told
        assert [[answer for answer, *_ in row] for row in drawn] == [
            [answer for (answer,) in row] for row in greedy
        ]
        assert all(len({*map(tuple, answers)}) == 1 for row in drawn for answers in row)


def measured(model: Model, metric: str, judgement: Judged) -> Any:
    return statistics_of(model.plan.task, "test", METRICS.get(metric), judgement)


def test_samples_are_nested_in_items(data: Stored) -> None:
    """Equal samples have the statistics of one, not those of as many items."""
    same = model_of(data, {"temperature": 1.0, "top_p": 1e-6, "samples": 4})
    greedy = model_of(data, None)
    for metric in ("token_f1", "text_match", "cut_share", "chrf"):
        assert (
            measured(same, metric, found(same)).tolist()
            == measured(greedy, metric, found(greedy)).tolist()
        )
    hot = model_of(data, HOT)
    assert measured(hot, "chrf", found(hot)).shape == (2, ITEMS, METRICS.get("chrf").columns)


def test_the_best_sample_is_kept_if_asked_for(data: Stored) -> None:
    mean, best = (model_of(data, HOT | {"kept": kept}) for kept in ("mean", "best"))
    means, bests = (measured(model, "chrf", found(model)) for model in (mean, best))
    chrf = METRICS.get("chrf")
    assert chrf.value(bests[0]) > chrf.value(means[0])
    texts = item_texts(best.plan.task)
    told = [[texts.written(one) for one in answers] for answers in found(best).told[0]]
    assert len(told) == ITEMS
    (number,) = {len(answers) for answers in told}
    assert number == HOT["samples"]


def test_the_best_of_some_samples_is_between_the_mean_and_the_best(data: Stored) -> None:
    def chrf(**kept: Any) -> float:
        model = model_of(data, HOT | kept)
        return METRICS.get("chrf").value(measured(model, "chrf", found(model))[0])

    values = [chrf(kept="best", best_of=number) for number in (1, 2, 3)]
    assert values[0] == pytest.approx(chrf())
    assert values[2] == chrf(kept="best")
    assert values[0] < values[1] < values[2]


def test_equal_samples_have_the_interval_of_one(data: Stored) -> None:
    """However they are reduced, an item counts once."""
    tables = []
    drawn = found(model_of(data, HOT)).told
    for count, kept in ((1, {}), (4, {}), (4, {"kept": "best", "best_of": 2})):
        model = model_of(data, {"temperature": 1.5, "samples": count, **kept})
        same = [[[first] * count for first, *_ in row] for row in drawn]
        tables.append(measured(model, "chrf", replace(found(model), told=same)))
    first, *others = map(interval, tables)
    assert first[1] - first[0] > 0
    assert others == [pytest.approx(first)] * 2
    low, high = interval(np.repeat(tables[0], 4, axis=1))
    assert high - low < first[1] - first[0], "samples as items would narrow it"


def interval(table: Any) -> tuple[float, float]:
    """Return the limits of a typical seed, of statistics [seed, item, column]."""
    rows = np.stack([pseudo_values(METRICS.get("chrf"), one) for one in table])
    sample = Sample(rows.mean(1), rows.mean(0), residual_of(spread(rows)), rows.shape[1])
    return typical_limits(sample.values, sample.of_items, sample.units, 0.95)


def test_an_answer_ends_before_a_stop_sequence() -> None:
    decoding = AnswerDecoding(stop=("\n\n", "Q:"))
    assert decoding.cut("four\nQ: next\n\n") == "four\n"
    assert decoding.cut("four\n\nQ:") == "four"
    assert decoding.cut("four Q") == "four Q"


def test_a_stop_sequence_across_tokens_ends_an_answer(data: Stored) -> None:
    plain = model_of(data, None)
    texts = item_texts(plain.plan.task)
    written = [texts.written(answer) for (answer,) in found(plain).told[0]]
    long = max(written, key=len)
    stop = long[1:3]
    stopped = model_of(data, {"stop": [stop]})
    cut = measured(stopped, "cut_share", found(stopped))[0, :, 0]
    before = measured(plain, "cut_share", found(plain))[0, :, 0]
    assert cut[written.index(long)] == 0
    assert cut.sum() < before.sum()


def test_the_share_of_cut_answers_falls_with_the_limit(data: Stored) -> None:
    shares = []
    for limit in (6, 24):
        model = model_of(data, HOT, tokens={"longest": 64, "answer": limit})
        shares.append(float(measured(model, "cut_share", found(model)).mean()))
    assert 0 <= shares[1] < shares[0] <= 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"metric": "exact_match", "decoding": {"stop": ["."]}}, "nothing_decoded"),
        ({"metric": "perplexity", "decoding": HOT}, "nothing_decoded"),
        ({"decoding": {"samples": 2}}, "equal_samples"),
        ({"decoding": HOT | {"best_of": 2}}, "mean_kept"),
        ({"decoding": HOT | {"kept": "best", "best_of": 4}}, "too_few_samples"),
        ({"decoding": {"top_p": 0.5}}, "nothing_drawn"),
    ],
)
def test_what_has_no_effect_is_refused(data: Stored, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        pretraining(data, TASK | changes)
    assert [problem.code for problem in refused.value.problems] == [code]


def test_greedy_decoding_leaves_the_digest_as_it_was(data: Stored) -> None:
    plain, greedy, drawn = (
        spec_digest(pretraining(data, TASK | changes))
        for changes in ({}, {"decoding": {"temperature": 0}}, {"decoding": HOT})
    )
    assert plain == greedy != drawn
