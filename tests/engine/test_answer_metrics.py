"""Metrics of answers on a model, and right answers that they cannot read."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.texts import COMPLETION, Stored, a_byte_pair_tokeniser, reviews, stored

from adaptlab.engine.items.texts import sizes_of_answers, texts_of
from adaptlab.engine.measuring.metric_floors import unskilled
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.metric import METRICS, metrics
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated, ItemsShown
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.text.tokeniser import ByteTokeniser, read_tokeniser

TASK: dict[str, Any] = {
    **COMPLETION,
    "answer": {"field": "told"},
    "tokens": {"longest": 72, "answer": 20},
}
ITEMS = 16
NAMES = sorted(one.name for one in metrics() if one.needs in ("answers", "likelihood_of_text"))
ANSWERS = {"json": '["{thing}"]', "numeric": " about {number}", "maths": " {number}"}


def records(metric: str, count: int = 80) -> list[dict[str, str]]:
    form = ANSWERS.get(metric, " a {label} {thing} é now")
    return [{**one, "told": form.format(number=len(one["thing"]), **one)} for one in reviews(count)]


@pytest.mark.long("long trainings")
@pytest.mark.parametrize("metric", NAMES)
def test_a_job_measures_it_and_the_server_accepts_it(metric: str, tmp_path: Path) -> None:
    data = stored(tmp_path, records(metric))
    task = {**TASK, "metric": metric}
    spec = pretraining(
        data, task, training={"steps": 4, "batch_size": 4}, seeds=2,
        evaluation={"samples": ITEMS, "shown": ITEMS},
    )  # fmt: skip
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    assert Expected.of(spec).problems(told.events) == ()
    kind = METRICS.get(metric)
    for event in told.of(Evaluated):
        measure, *_ = event.evaluation.measures
        assert measure.signature == kind.signature()
        total = event.evaluation.total
        by_item = unpacked(from_text(measure.statistics or ""), total, kind.columns)
        assert measure.value == pytest.approx(kind.value(by_item), rel=1e-4)
        assert measure.floor is not None
        if metric == "bits_per_byte":
            (shown,) = told.of(ItemsShown)
            sizes = [len(item.expected.text.encode()) for item in shown.items]
            assert by_item[:, 1].tolist() == sizes
            loss = event.evaluation.loss
            assert loss is not None
            tokens = sum(sizes) + total  # of bytes, and the end
            assert measure.value == pytest.approx(loss * tokens / math.log(2) / sum(sizes))


def refused(data: Stored, metric: str) -> str:
    """Return why a job that names the dataset is refused."""
    with pytest.raises(InvalidSpec) as caught:
        data.task({**TASK, "metric": metric})
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/task/metric", "unread_answers")
    return problem.detail


@pytest.mark.parametrize(
    ("metric", "answer", "wanted"),
    [
        ("rouge_l", "東京です", "letters a to z"),
        ("numeric", "3,5", "end with a number"),
        ("json", '{"a": 1, "a": 2}', "be JSON"),
    ],
)
def test_right_answers_that_it_cannot_read_are_refused(
    metric: str, answer: str, wanted: str, tmp_path: Path
) -> None:
    rows = records(metric)
    rows[4]["told"] = answer
    detail = refused(stored(tmp_path, rows), metric)
    assert f"{METRICS.get(metric).title} cannot read the right answer of record 5" in detail
    assert wanted in detail


@pytest.mark.parametrize("metric", ["rouge_l", "maths"])
def test_a_job_on_an_earlier_dataset_is_refused_before_its_first_step(
    metric: str, tmp_path: Path
) -> None:
    """Its facts have no forms, and those of maths are never among them."""
    rows = records(metric)
    for row in rows:
        row["told"] = "東京です" if metric == "rouge_l" else "none of them"
    data = stored(tmp_path, rows)
    fields = tuple(one.model_copy(update={"missed_forms": None}) for one in data.facts.fields)
    earlier = Stored(data.path, data.facts.model_copy(update={"fields": fields}))
    task = earlier.task({**TASK, "metric": metric})
    assert task.problems() == ()
    with pytest.raises(InvalidSpec, match=r"cannot read .* right answers; line"):
        texts_of(task)


def test_bytes_are_those_of_the_text_with_any_tokeniser(tmp_path: Path) -> None:
    rows = records("bits_per_byte")
    data = stored(tmp_path, rows)
    pairs = read_tokeniser(a_byte_pair_tokeniser(row["told"] for row in rows), 1)
    document = {**TASK, "metric": "bits_per_byte"}
    found = [
        sizes_of_answers(data.task(document, tokeniser), "test", 8, "bytes").tolist()
        for tokeniser in (ByteTokeniser(), pairs)
    ]
    assert found[0] == found[1]
    assert min(found[0]) > 10


def test_bits_per_byte_need_a_tokeniser_that_keeps_the_text(tmp_path: Path) -> None:
    class Lowering(ByteTokeniser):
        def text(self, ids: tuple[int, ...]) -> str:
            return super().text(ids).lower()

    rows = records("bits_per_byte")
    for row in rows:
        row["told"] = row["told"].upper()
    task = stored(tmp_path, rows).task({**TASK, "metric": "bits_per_byte"}, Lowering())
    with pytest.raises(InvalidSpec, match=r"tokeniser changes .* right answers"):
        texts_of(task)


def test_the_floor_of_bits_per_byte_is_in_bytes(tmp_path: Path) -> None:
    data = stored(tmp_path, records("bits_per_byte"))
    document = {**TASK, "metric": "bits_per_byte"}
    task = data.task(document)
    sizes = sizes_of_answers(task, "test", 8, "bytes").numpy()
    table = np.stack((np.zeros(8), sizes), 1).astype(np.float64)
    found = unskilled(task, METRICS.get("bits_per_byte"), table)
    assert found is not None
    tokens = unskilled(
        data.task({**TASK, "metric": "perplexity"}), METRICS.get("perplexity"), table
    )
    assert tokens is not None
    counted = sizes.sum() + 8
    bits = math.log2(tokens.value) * counted / sizes.sum()
    assert found.value == pytest.approx(bits)


SCHEMA = '{"type": "array", "items": {"type": "string", "maxLength": 4}}'


def test_right_answers_must_fit_the_schema(tmp_path: Path) -> None:
    data = stored(tmp_path, records("json"))
    document = {**TASK, "metric": "json"}
    fitting = data.task({**document, "answer_schema": SCHEMA.replace("4", "9")})
    assert texts_of(fitting).tokens.tolist() == texts_of(data.task(document)).tokens.tolist()
    with pytest.raises(InvalidSpec, match="and fit `answer_schema`"):
        texts_of(data.task({**document, "answer_schema": SCHEMA.replace("4", "1")}))


@pytest.mark.parametrize(
    ("metric", "schema", "code"),
    [("chrf", SCHEMA, "no_schema_read"), ("json", '{"$ref": "http://x"}', "bad_schema")],
)
def test_a_schema_that_is_not_used_or_bad_is_refused(
    metric: str, schema: str, code: str, tmp_path: Path
) -> None:
    data = stored(tmp_path, records(metric))
    with pytest.raises(InvalidSpec) as caught:
        data.task({**TASK, "metric": metric, "answer_schema": schema})
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/task/answer_schema", code)


@pytest.mark.long("long trainings")
def test_a_job_checks_answers_by_the_schema(tmp_path: Path) -> None:
    data = stored(tmp_path, records("json"))
    task = {**TASK, "metric": "json", "answer_schema": SCHEMA}
    spec = pretraining(
        data, task, training={"steps": 4, "batch_size": 4}, seeds=2,
        evaluation={"samples": ITEMS, "shown": ITEMS},
    )  # fmt: skip
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    assert Expected.of(spec).problems(told.events) == ()
    measures = [event.evaluation.measures[0] for event in told.of(Evaluated)]
    assert all("|jsonschema-rs|" in (one.signature or "") for one in measures)
