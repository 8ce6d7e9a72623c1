"""Confusions that jobs report, counted again from items and answers."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.engine.text_models import HEAD_TASK, folder_maker, head_job
from tests.texts import CLASSIFICATION, COMPLETION, QUIZ, quizzes, reviews, stored, without

from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AnswersGiven, Evaluated, ItemsShown
from adaptlab.weights.model_folder import check_folder

WORDS = {"field": "label", "words": {"neg": " bad", "pos": " quite good"}}
TASKS: dict[str, dict[str, Any]] = {
    "signs": dict(CLASSIFICATION),
    "words": without(CLASSIFICATION, label=WORDS, tokens={"longest": 52, "answer": 11}),
    "own": without(QUIZ, calibration="empty_input"),
}
SEEN = {"samples": 30, "shown": 30}


def check(told: Remembering, expected: Expected) -> None:
    """Check every confusion against the shown items and the answers to them."""
    assert expected.problems(told.events) == ()
    (shown,) = told.of(ItemsShown)
    right = [item.expected.label for item in shown.items]
    scores = {
        (e.evaluation.replicate, e.evaluation.attached): e.evaluation for e in told.of(Evaluated)
    }
    for event in told.of(AnswersGiven):
        pairs = Counter(zip(right, (answer.label for answer in event.answers), strict=True))
        confusion = scores.pop((event.replicate, event.attached)).confusion
        assert confusion is not None
        assert set(confusion.labels) == set(expected.labels[0])
        assert confusion.counts == tuple(
            tuple(pairs[first, second] for second in confusion.labels) for first in confusion.labels
        )
    assert all(replicate for replicate, _ in scores), "the first replicate answers"


@pytest.mark.parametrize("name", TASKS)
def test_words_that_were_given_are_counted(name: str, tmp_path: Path):
    data = stored(tmp_path, quizzes(300) if name == "own" else reviews(300))
    training = {"steps": 12, "batch_size": 8, "learning_rate": 0.01}
    spec = pretraining(data, TASKS[name], evaluation=SEEN, training=training)
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    check(told, Expected.of(spec))


def test_classes_of_a_head_are_counted_for_adapted_and_base(tmp_path: Path):
    data = stored(tmp_path, reviews(160))
    folder = folder_maker(tmp_path)("qwen3")
    task = without(HEAD_TASK, label={"field": "thing"}, tokens={"longest": 32})
    family = check_folder(folder.path).family
    spec = head_job(data, family, task=task, evaluation={"samples": 20, "shown": 20})
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", folder=folder, datasets=(data.path,))
    check(told, Expected.of(spec))
    alone = [e.evaluation.confusion for e in told.of(Evaluated) if not e.evaluation.attached]
    assert len(alone) == 2
    for confusion in alone:
        assert confusion is not None
        assert all(row[1:] == (0,) * (len(row) - 1) for row in confusion.counts), "the first class"


def test_texts_that_are_no_labels_are_not_counted(tmp_path: Path):
    data = stored(tmp_path, reviews(120))
    spec = pretraining(data, COMPLETION, evaluation={"samples": 8}, training={"steps": 1})
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    assert [e.evaluation.confusion for e in told.of(Evaluated)] == [None, None]
    assert Expected.of(spec).problems(told.events) == ()


@pytest.mark.parametrize("count", [32, 33])
def test_the_confusion_of_many_labels_is_left_out(count: int, tmp_path: Path):
    records = [{"q": f"q {n}", "y": f"w{n % count}"} for n in range(6 * count)]
    words = {f"w{n}": f" {n:02}" for n in range(count)}
    task = without(
        CLASSIFICATION,
        prompt="{q}:",
        label={"field": "y", "words": words},
        tokens={"longest": 40, "answer": 3},
    )
    data = stored(tmp_path, records)
    spec = pretraining(data, task, evaluation={"samples": 8}, training={"steps": 1})
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    has_counts = {e.evaluation.confusion is not None for e in told.of(Evaluated)}
    assert has_counts == {count == 32}
    assert Expected.of(spec).problems(told.events) == ()
