"""Perplexity as a metric: its limits, and reports of it."""

import math
from typing import Any

import pytest
from tests.chats import CHAT
from tests.making import a_replicate
from tests.texts import CLASSIFICATION, COMPLETION, Stored, reviews, stored

from adaptlab.errors import InvalidSpec
from adaptlab.metrics.perplexity import LARGEST_PERPLEXITY, limited_perplexity
from adaptlab.plugins.metric import METRICS, is_share
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import ReplicatesDecided
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec
from adaptlab.statistics.confusions import mean_over_seeds
from adaptlab.tasks.chat_completion import ChatCompletion

MINIGPT = {"name": "minigpt", "layers": 1, "heads": 2, "width": 8}
BY_PERPLEXITY: dict[str, Any] = {**COMPLETION, "metric": "perplexity"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(60))


def test_it_is_between_1_and_a_limit():
    assert limited_perplexity(math.log(3)) == pytest.approx(3)
    assert limited_perplexity(-1e-9) == limited_perplexity(0.0) == 1
    for loss in (None, math.nan, math.inf, 70.0, 1e30):
        assert limited_perplexity(loss) == LARGEST_PERPLEXITY
    assert limited_perplexity(69.0) < LARGEST_PERPLEXITY


def test_its_interval_is_cut_at_1_and_not_above():
    limits = METRICS.get("perplexity").limits
    wide = mean_over_seeds([1.5, 30.0, 400.0], limits=limits)
    assert wide.low == 1
    assert (wide.high or 0) > 400


def test_it_is_no_share_and_the_score_is_one():
    assert not is_share("perplexity")
    assert all(map(is_share, ("macro_f1", "token_f1", "accuracy", "exact_match", None)))


def test_it_is_shown_as_a_number():
    assert METRICS.get("perplexity").figure(12.3456) == "12.35"
    assert METRICS.get("token_f1").figure(0.75) == "75.0 %"


def test_it_is_of_completions_and_takes_no_decoding(data: Stored):
    task = data.task(BY_PERPLEXITY)
    assert (task.other_metric(), task.passes_of_decoding()) == ("perplexity", 0)
    chat = ChatCompletion.model_validate({**CHAT, "metric": "perplexity"})
    assert chat.other_metric() == "perplexity"
    with pytest.raises(InvalidSpec):
        data.task({**CLASSIFICATION, "metric": "perplexity"})


def codes(data: Stored, task: dict[str, Any], value: float) -> list[str]:
    """Return the problems of a report with a value of the metric."""
    pretraining = {"name": "base", "family": MINIGPT, "task": task, "seeds": 1}
    spec = resolve(PretrainSpec.model_validate(pretraining), None, data.datasets)
    one = a_replicate(validation_metric=value)
    problems = Expected.of(spec).problems([ReplicatesDecided(replicates=(one,))])
    return [one.code for one in problems if one.pointer.endswith("validation_metric")]


@pytest.mark.parametrize(
    ("value", "by_perplexity", "by_f1"),
    [
        (0.5, ["out_of_range"], []),
        (1.0, [], []),
        (40.0, [], ["out_of_range"]),
        (LARGEST_PERPLEXITY, [], ["out_of_range"]),
        (2 * LARGEST_PERPLEXITY, ["out_of_range"], ["out_of_range"]),
    ],
)
def test_a_report_of_it_is_within_its_limits(
    data: Stored, value: float, by_perplexity: list[str], by_f1: list[str]
):
    assert codes(data, BY_PERPLEXITY, value) == by_perplexity
    assert codes(data, {**COMPLETION, "metric": "token_f1"}, value) == by_f1
