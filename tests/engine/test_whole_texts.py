"""A job that watches whole texts of a standard task."""

import math
from pathlib import Path

import pytest
from tests.benchmarks import rendering
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.texts import COMPLETION, reviews, stored

from adaptlab.records.rendered_items import RenderedItem
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated, ItemsShown
from adaptlab.runs.item_statistics import from_text, unpacked

TASK = {**COMPLETION, "tokens": {"longest": 64, "answer": 6}}
TEXTS = ("Vögel singen", "a stone", "x" * 200)


def test_the_server_accepts_what_is_measured_on_them(tmp_path: Path) -> None:
    data = stored(tmp_path, reviews(60))
    about = rendering("wikitext", output="loglikelihood_rolling", choices=1, chance=1.0, text=70)
    records = [
        RenderedItem(
            place, ("",), (text,), ("",), 0, {"bytes": len(text.encode()), "words": 2}
        ).record(about)
        for place, text in enumerate(TEXTS)
    ]
    texts = stored(tmp_path, records, "wikitext-0-shots")
    watched = {"name": "benchmark", "tasks": ["wikitext"], "tokens": {"longest": 33}}
    spec = pretraining(
        data, TASK, watched=texts,
        training={"steps": 4, "batch_size": 4},
        evaluation={"tasks": [TASK, watched], "samples": 8, "shown": 4},
    )  # fmt: skip
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path, texts.path))
    assert Expected.of(spec).problems(told.events) == ()
    assert len(told.of(ItemsShown)) == 1, "nobody asks whole texts a question"
    scored = [one.evaluation for one in told.of(Evaluated)]
    (first, *_) = [one for one in scored if one.task["name"] == "benchmark"]
    bits, *_ = first.measures
    nats, sizes = unpacked(from_text(bits.statistics or ""), len(TEXTS), 2).T
    assert sorted(sizes) == [7, 13, 200]
    assert bits.value == pytest.approx(nats.sum() / math.log(2) / sizes.sum(), rel=1e-5)
    assert [one.metric for one in first.measures][1:] == ["byte_perplexity", "word_perplexity"]
