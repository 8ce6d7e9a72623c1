"""Whole texts of standard tasks: windows, figures, and refusals."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks import rendering
from tests.texts import Stored, stored

from adaptlab.errors import InvalidSpec
from adaptlab.plugins.corpus import read_corpus
from adaptlab.plugins.metric import measured_on
from adaptlab.plugins.registry import as_json, by_name
from adaptlab.plugins.task import TASKS
from adaptlab.records.rendered_items import RenderedItem
from adaptlab.tasks.benchmark import Benchmark
from adaptlab.text.encoding import LeavesNothing, encoded_windows
from adaptlab.text.tokeniser import ByteTokeniser

TEXTS = ("Vögel singen", "a stone", "x" * 400)
FIGURES = ("bits_per_byte", "byte_perplexity", "word_perplexity")


@pytest.fixture
def texts(tmp_path: Path) -> Stored:
    about = rendering("wikitext", output="loglikelihood_rolling", choices=1, chance=1.0, text=140)
    sizes = ({"bytes": 13, "words": 2}, {"bytes": 9, "words": 3}, {"bytes": 400, "words": 1})
    records = [
        RenderedItem(number, ("",), (text,), ("",), 0, dict(size)).record(about)  # pyright: ignore[reportArgumentType] - units
        for number, (text, size) in enumerate(zip(TEXTS, sizes, strict=True))
    ]
    return stored(tmp_path, records, "wikitext-0-shots")


def task(data: Stored, **changes: Any) -> Benchmark:
    members = {"name": "benchmark", "tasks": ["wikitext"], **changes}
    return Benchmark.model_validate(members).settled(data.datasets)


@dataclass(frozen=True)
class Beginning(ByteTokeniser):
    """Bytes, with a token that begins texts, written or not."""

    begin: int | None = 99


@pytest.mark.parametrize("longest", [2, 3, 4, 9])
def test_windows_are_those_of_lm_eval(longest: int) -> None:
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    for length in range(1, 30):
        text = "abcdefghijklmnopqrstuvwxyzABCDEFG"[:length]
        ids = [*text.encode()]
        theirs = get_rolling_token_windows(ids, 99, longest - 1, 1)
        expected = [tuple(map(tuple, make_disjoint_window(pair))) for pair in theirs]
        ours = encoded_windows(Beginning(), text, longest)
        assert [(one.prompt, one.answer) for one in ours] == expected


def test_a_text_without_tokens_is_refused() -> None:
    with pytest.raises(LeavesNothing):
        list(encoded_windows(Beginning(), "", 9))


def test_each_text_is_one_item_of_several_windows(texts: Stored) -> None:
    settled = task(texts, tokens={"longest": 128})
    corpus = read_corpus(settled.with_texts(texts.source()))
    assert corpus.requests is not None
    assert list(corpus.requests.counts) == [0, 0, 3]
    assert list(corpus.lengths) == [14, 8, 128]
    assert {unit: list(sizes) for unit, sizes in corpus.answer_sizes.items()} == {
        "bytes": [13, 9, 400], "words": [2, 3, 1],
    }  # fmt: skip
    whole = task(texts, tokens={"longest": 128, "if_longer": "refuse"})
    with pytest.raises(InvalidSpec, match=r"1 requests have more .* the longest has 401"):
        read_corpus(whole.with_texts(texts.source()))


def test_all_figures_are_measured_that_of_the_task_first(texts: Stored) -> None:
    settled = task(texts)
    assert settled.problems() == ()
    assert [one.name for one in measured_on(as_json(settled))] == [*FIGURES]
    words = task(texts, metric="word_perplexity")
    first, *others = (one.name for one in measured_on(as_json(words)))
    assert (first, {*others}) == ("word_perplexity", {*FIGURES[:2]})
    assert by_name(TASKS, as_json(words)) == words, "as it is stored"
    assert (settled.chance(), settled.shown(4)) == (0.0, 0)
    assert settled.passes_of_choices() == 0
    assert task(texts, tokens={"longest": 16}).passes_of_choices() == 140 // 4 // 16


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"score": "acc_norm"}, "/score"),
        ({"tokens": {"answer": 7}}, "/tokens/answer"),
    ],
)
def test_what_whole_texts_do_not_have(texts: Stored, changes: dict[str, Any], place: str) -> None:
    (problem,) = task(texts, **changes).problems()
    assert problem.pointer == place


def test_other_items_have_no_figure_of_texts(tmp_path: Path) -> None:
    item = RenderedItem(0, ("Q: ",) * 2, (" a", " b"), ("a", "b"), 0)
    data = stored(tmp_path, [item.record(rendering("wikitext"))], "wikitext-0-shots")
    (problem,) = task(data, metric="bits_per_byte").problems()
    assert (problem.pointer, problem.code) == ("/metric", "no_texts")
