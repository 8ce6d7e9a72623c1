"""Tasks of which an item has several right answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import planned, pretraining
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.engine.items.accepted import AcceptedItems
from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.items.items import Answer, Items
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.measuring.metric_floors import unskilled
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated
from adaptlab.specs.resolved import spec_digest

ITEMS = 12
FIELD = {"field": "told", "several": "list"}
TASK: dict[str, Any] = {
    **COMPLETION,
    "answer": FIELD,
    "metric": "text_match",
    "tokens": {"longest": 64, "answer": 16},
}


def records(others: tuple[str, ...] = (" é thing", " other")) -> list[dict[str, str]]:
    return [{**one, "told": json.dumps([f" {one['thing']}", *others])} for one in reviews(160)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), records())


def refused(data: Stored, **changes: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidSpec) as caught:
        texts_of(data.task(TASK | changes))
    return [(one.pointer, one.code, one.detail) for one in caught.value.problems]


def test_training_has_the_first(data: Stored) -> None:
    first = [{**one, "told": json.loads(one["told"])[0]} for one in records()]
    alone = {"dataset": "first", "metric": "exact_match", "answer": {"field": "told"}}
    ours = texts_of(data.task(TASK))
    theirs = texts_of(stored(data.path.parent, first, "first").task(TASK | alone))
    assert ours.tokens.tolist() == theirs.tokens.tolist()
    assert (ours.others is None, theirs.others is None) == (False, True)


def test_an_item_has_its_other_answers(data: Stored) -> None:
    for split in ("test", "validation"):
        texts = item_texts(data.task(TASK), split)
        assert {texts.others(place) for place in range(8)} == {(" é thing", " other")}
    assert item_texts(data.task(TASK), "train").others(0) == (), "training reads the first"


def test_a_model_that_gives_another_right_answer_is_right(tmp_path: Path) -> None:
    """The statistics stay one row per item."""
    given = {}
    for others in ((), (" x",)):
        data = stored(tmp_path, records(others), f"having-{len(others)}")
        model = planned(pretraining(data, TASK | {"dataset": data.facts.name}), data)[1]
        found = judged(model, model.plan.task, "test", ITEMS, 2, with_answers=True, seeds=(0, 1))
        given[others] = found, model.plan.task
    found, task = given[(" x",)]
    texts = item_texts(task)
    told = texts._tokeniser.tokens(" x").ids  # pyright: ignore - the reader's own tokens
    found.told[0][3] = [list(told)]
    by_item = statistics_of(task, "test", METRICS.get("text_match"), found)[0]
    assert by_item.shape == (ITEMS, 1)
    assert by_item[3] == 1
    without = statistics_of(given[()][1], "test", METRICS.get("text_match"), found)[0]
    assert without[3] == 0


def test_a_question_without_an_answer_is_right_if_nothing_is_given(tmp_path: Path) -> None:
    """Its item asks for the end of the text, and its metric for no words."""
    every = [{**one, "told": "[]"} if n % 2 else one for n, one in enumerate(records())]
    data = stored(tmp_path, every)
    task = TASK | {"metric": "squad_f1"}
    model = planned(pretraining(data, task), data)[1]
    found: Any = judged(model, model.plan.task, "test", ITEMS, 2, with_answers=True, seeds=(0, 1))
    texts = item_texts(model.plan.task)
    empty = [place for place, one in enumerate(texts.shown(ITEMS)) if not one.expected.text]
    assert 0 < len(empty) < ITEMS
    found.told[0][empty[0]] = [[texts.end] if texts.end is not None else []]
    by_item = statistics_of(model.plan.task, "test", METRICS.get("squad_f1"), found)[0]
    assert by_item[empty[0]] == 1


@pytest.mark.parametrize("metric", ["exact_match", "text_match"])
def test_exact_match_counts_any_right_answer(metric: str, data: Stored) -> None:
    texts = texts_of(data.task(TASK | {"metric": metric}))
    places = texts.of_split["test"][:ITEMS].unsqueeze(0)
    items = texts.items(places)
    assert isinstance(items, AcceptedItems)
    assert texts.others is not None
    first = [tuple(items.targets[0, n, : items.counted_tokens()[n]].tolist()) for n in range(ITEMS)]
    every = [
        [one, *texts.others.of_record(record)]
        for one, record in zip(first, places[0].tolist(), strict=True)
    ]
    assert {len(answers) for answers in every} == {3}
    for given in range(3):
        answer = greedy([answers[(given + n) % 3] for n, answers in enumerate(every)], items)
        assert items.right(answer(items), answer).all()
    wrong = [(*one[:-1], one[-1] + (n % 2)) for n, (_, one, _) in enumerate(every)]
    answer = greedy(wrong, items)
    assert items.right(answer(items), answer)[0].tolist() == [n % 2 == 0 for n in range(ITEMS)]


def greedy(told: list[tuple[int, ...]], items: Items) -> Answer:
    """Return a model that gives these answers, after anything else token 0."""
    plans = dict(zip(prompts(items), told, strict=True))

    def answer(asked: Items) -> torch.Tensor:
        logits = torch.zeros(1, *asked.targets.shape[1:], 300)
        for place, prompt in enumerate(prompts(asked)):
            plan, start = plans[prompt], len(prompt)
            for at in range(min(len(plan), logits.shape[2])):
                before = tuple(asked.tokens[0, place, start : start + at].tolist())
                logits[0, place, at, plan[at] if before == plan[:at] else 0] = 1
        return logits

    return answer


def prompts(items: Items) -> list[tuple[int, ...]]:
    assert items.answer_rows is not None
    starts = (items.answer_rows[0, :, 0] + items.first + 1).tolist()
    return [tuple(items.tokens[0, n, :start].tolist()) for n, start in enumerate(starts)]


def test_a_constant_answer_is_worth_any_right_one(data: Stored) -> None:
    task = data.task(TASK)
    floor = unskilled(task, METRICS.get("text_match"), np.zeros((ITEMS, 1)))
    more = records((" film", " book", " song", " meal"))
    task = stored(data.path.parent, more, "same").task(TASK | {"dataset": "same"})
    wide = unskilled(task, METRICS.get("text_match"), np.zeros((ITEMS, 1)))
    assert floor is not None
    assert wide is not None
    assert wide.value > floor.value


@pytest.mark.parametrize(
    ("told", "code", "said"),
    [
        ('{"a": 1}', "not_answers", "such as"),
        ('[" film", " "]', "not_answers", "none of them empty"),
        ('[" film", "東京"]', "unread_answers", "letters a to z"),
    ],
)
def test_answers_that_are_none_are_refused(told: str, code: str, said: str, tmp_path: Path) -> None:
    rows = [{**one, "told": told} for one in reviews(80)]
    ((_, found, detail),) = refused(stored(tmp_path, rows), metric="rouge_l")
    assert found == code
    assert said in detail
    assert "line" in detail


def test_a_metric_that_reads_the_first_only_is_refused(data: Stored) -> None:
    ((pointer, code, _),) = refused(data, metric="perplexity")
    assert (pointer, code) == ("/task/answer/several", "first_answer_only")


def test_a_task_with_one_answer_keeps_its_digest(tmp_path: Path) -> None:
    data = stored(tmp_path, reviews(80))
    plain, said = (
        spec_digest(pretraining(data, {**COMPLETION, "answer": {"field": "thing", **more}}))
        for more in ({}, {"several": None})
    )
    assert plain == said


@pytest.mark.long("long trainings")
@pytest.mark.parametrize("metric", ["bleu", "chrf", "rouge_l", "squad_f1", "text_match"])
def test_a_job_has_them_and_the_server_accepts_it(metric: str, tmp_path: Path) -> None:
    data = stored(tmp_path, records((" a red thing now",)))
    spec = pretraining(
        data, TASK | {"metric": metric}, training={"steps": 4, "batch_size": 4}, seeds=2,
        evaluation={"samples": ITEMS, "shown": ITEMS},
    )  # fmt: skip
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    assert Expected.of(spec).problems(told.events) == ()
    kind = METRICS.get(metric).of_several()
    measures = [event.evaluation.measures[0] for event in told.of(Evaluated)]
    assert {one.signature for one in measures} == {f"{kind.signature()}|any right answer"}
    assert all(one.floor is not None and one.floor.value > 0 for one in measures)


def test_all_right_answers_are_shown(data: Stored) -> None:
    for metric in ("text_match", "exact_match"):
        (shown, *_) = item_texts(data.task(TASK | {"metric": metric})).shown(1)
        assert " | " in shown.expected.text
