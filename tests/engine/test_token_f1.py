"""Token F1 of jobs is that of the answers that they keep as text."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.metrics.token_f1 import answer_words, token_f1
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    AnswersGiven,
    CheckpointWritten,
    Evaluated,
    Evaluation,
    ItemsShown,
    Measure,
    MetricFloor,
    Split,
)
from adaptlab.runs.item_statistics import as_text, from_text, packed, unpacked
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import Resolved, spec_digest
from adaptlab.specs.spec import AdaptSpec

TASK: dict[str, Any] = {
    **COMPLETION,
    "answer": {"field": "told"},
    "tokens": {"longest": 64, "answer": 12},
    "metric": "token_f1",
}
ITEMS = 40
SCORED = {"samples": ITEMS, "shown": ITEMS}
TRAINING = {"steps": 150, "batch_size": 16, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Records whose answers have two words, so that they can be half right."""
    records = [{**one, "told": f" {one['label']} {one['thing']}"} for one in reviews(300)]
    return stored(tmp_path_factory.mktemp("data"), records)


@pytest.fixture(scope="module")
def base(data: Stored, tmp_path_factory: pytest.TempPathFactory) -> tuple[Resolved, Remembering]:
    spec = pretraining(data, TASK, training=TRAINING, evaluation=SCORED)
    return spec, ran(spec, data, tmp_path_factory.mktemp("base"))


def ran(spec: Resolved, data: Stored, folder: Path, *bases: Path) -> Remembering:
    watching = Remembering()
    run(spec, bases, folder, watching, "cpu", datasets=(data.path,))
    return watching


def check(spec: Resolved, told: Remembering) -> list[float]:
    """Check every score against the answers as text; return those scores."""
    (shown,) = told.of(ItemsShown)
    given = {(one.replicate, one.attached): one.answers for one in told.of(AnswersGiven)}
    measured: list[float] = []
    for event in told.of(Evaluated):
        one = event.evaluation
        if one.replicate:  # the first replicate answers
            measured.append(value_of(one))
            continue
        scores = [
            token_f1(answer_words(answer.text), answer_words(item.expected.text))
            for answer, item in zip(given[one.replicate, one.attached], shown.items, strict=True)
        ]
        measure, cut = one.measures
        assert cut.metric == "cut_share"
        assert measure.value == pytest.approx(math.fsum(scores) / ITEMS, rel=1e-12)
        assert measure.value >= one.accuracy
        by_item = unpacked(from_text(measure.statistics or ""), ITEMS, 1)
        assert by_item[:, 0] == pytest.approx(scores, rel=1e-6)
        measured.append(measure.value)
    assert Expected.of(spec).problems(told.events) == ()
    return measured


def value_of(evaluation: Evaluation) -> float:
    return evaluation.measures[0].value


@pytest.mark.long("long trainings")
def test_a_pretraining_measures_it(base: tuple[Resolved, Remembering]) -> None:
    spec, told = base
    measured = check(spec, told)
    assert len(set(measured)) == 2, "seeds differ"
    assert any(e.evaluation.accuracy < value_of(e.evaluation) for e in told.of(Evaluated))


def adapting(data: Stored, base: Resolved) -> Resolved:
    facts = BaseModelFacts(
        name="base", digest=spec_digest(base), family=base.family, task=base.task, replicates=2
    )
    spec = {
        "base_model": "base",
        "task": TASK,
        "method": "lora",
        "budget": {"trainable_parameters": 600},
        "training": {"precision": "float64", "steps": 30, "batch_size": 16, "learning_rate": 0.02},
        "seeds": 4,
        "evaluation": SCORED,
    }
    return resolve(AdaptSpec.model_validate(spec), facts, data.datasets)


@pytest.mark.long("long trainings")
@pytest.mark.parametrize("at_once", [None, 7])
def test_an_adaptation_measures_it_attached_and_alone(
    data: Stored,
    base: tuple[Resolved, Remembering],
    at_once: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if at_once is not None:
        monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_at_once", lambda *_: at_once)
    spec = adapting(data, base[0])
    bases = (written.path for written in base[1].of(CheckpointWritten))
    told = ran(spec, data, tmp_path, *bases)
    assert len(check(spec, told)) == 2 * 4
    alone = {
        e.evaluation.replicate: value_of(e.evaluation)
        for e in told.of(Evaluated)
        if not e.evaluation.attached
    }
    assert alone[0] == alone[2] != alone[1] == alone[3], "seeds on one base share its score"


@pytest.mark.parametrize(("validated", "tested"), [(40, 20), (20, 40)])
def test_that_of_validation_reads_the_prompts_of_validation(
    base: tuple[Resolved, Remembering], validated: int, tested: int, tmp_path: Path
) -> None:
    spec, told = base
    trained = [load_file(written.path) for written in told.of(CheckpointWritten)]
    tensors = {name: torch.stack([one[name].double() for one in trained]) for name in trained[0]}
    others = {"validation": "test", "test": "validation", "train": "train"}

    def measured(split: Split, of_split: dict[str, str]) -> list[float]:
        names = ["validation"] * validated + ["test"] * tested + ["train"] * 20
        records = [
            {**one, "told": f" {one['label']} {one['thing']}", "split": of_split[name]}
            for one, name in zip(reviews(len(names)), names, strict=True)
        ]
        (folder := tmp_path / of_split["test"]).mkdir()
        own = stored(folder, records)
        task = own.task(TASK | {"splits": {"field": "split"}})
        model = Model(make_plan(spec, "cpu"), {}, tensors)
        metric = METRICS.get("token_f1")
        found = judged(model, task, split, validated, 2, with_answers=True)
        return [metric.value(one) for one in statistics_of(task, split, metric, found)]

    found = measured("validation", {name: name for name in others})
    assert found == pytest.approx(measured("test", others), rel=1e-12)
    assert all(0 < value < 1 for value in found)


def test_another_metric_measures_none(data: Stored, tmp_path: Path) -> None:
    spec = pretraining(
        data, TASK | {"metric": "exact_match"}, training={"steps": 1}, evaluation=SCORED
    )
    told = ran(spec, data, tmp_path)
    assert [event.evaluation.measures for event in told.of(Evaluated)] == [(), ()]


def codes_of(spec: Resolved, told: Remembering, *measures: Measure) -> list[str]:
    """Return what is wrong with the first evaluation if it has these measures."""
    event = told.of(Evaluated)[0]
    changed = event.evaluation.model_copy(update={"measures": measures})
    return [p.code for p in Expected.of(spec).problems([Evaluated(evaluation=changed)])]


def test_the_share_of_cut_answers_may_accompany_it(base: tuple[Resolved, Remembering]) -> None:
    spec, told = base
    measure, cut = told.of(Evaluated)[0].evaluation.measures
    assert codes_of(spec, told, measure, cut) == []
    wrong = cut.model_copy(update={"value": 2.0})
    assert codes_of(spec, told, measure, wrong) == ["out_of_range", "inconsistent"]
    assert codes_of(spec, told, measure, cut, measure) == ["not_asked_for"]
    assert codes_of(spec, told, cut, measure) == ["not_asked_for"]


def test_reports_of_it_must_fit_the_task_and_the_statistics(
    base: tuple[Resolved, Remembering],
) -> None:
    spec, told = base
    measure, _ = told.of(Evaluated)[0].evaluation.measures

    def codes(*several: dict[str, Any]) -> list[str]:
        return codes_of(spec, told, *(measure.model_copy(update=one) for one in several))

    assert codes({}) == []
    assert codes() == ["missing"]
    assert codes({"value": measure.value - 0.01}) == ["inconsistent"]
    assert codes({"value": 1.01}) == ["out_of_range", "inconsistent"]
    assert codes({"value": math.nan}) == ["out_of_range", "inconsistent"]
    assert codes({"statistics": None}) == ["missing"]
    for text in ("", "!", "AAAA", as_text(packed(np.zeros((ITEMS + 1, 1))))):
        assert codes({"statistics": text}) == ["unreadable"]
    beyond = MetricFloor(value=1.5, kind="base_alone")
    assert codes({"floor": beyond}) == ["out_of_range"]
    assert codes({"metric": "perplexity"}) == codes({}, {}) == ["not_asked_for"]


def test_reports_of_it_are_refused_where_it_is_not_measured(data: Stored) -> None:
    spec = pretraining(data, TASK | {"metric": "exact_match"}, evaluation=SCORED)
    measures = [{"metric": "token_f1", "value": 0.5}]
    score = {"correct": 0, "total": ITEMS, "outcomes": "00" * 5, "measures": measures}
    document = {
        "evaluation": {"replicate": 0, "seed": 0, "split": "test", **score}
        | {"task": spec.task.model_dump(mode="json")}
    }
    (problem,) = Expected.of(spec).problems([Evaluated.model_validate(document)])
    assert problem.pointer == "/events/0/evaluation/measures/0/metric"
    assert problem.code == "not_asked_for"
