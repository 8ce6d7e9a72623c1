"""Choices of the record's own: scores by hand, answers and attention."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import agreements, planned, pretraining
from tests.texts import QUIZ, Stored, joined, quizzes, stored, without

from adaptlab.engine.items.texts import items_of_step, texts_of
from adaptlab.engine.items.word_choice import WordItems
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AnswersGiven, AttentionCaptured, Evaluated, ItemsShown

SAMPLES = 20


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), quizzes(300))


def record_of(data: Stored, task: Any, split: Any, place: int) -> dict[str, str]:
    """The record of one item."""
    number = int(texts_of(task).of_split[split][place])
    return quizzes(300)[number]


def test_the_choice_is_the_likeliest_of_the_records_own(data: Stored):
    plan, model = planned(pretraining(data, QUIZ), data)
    right = outcomes(model, plan.task, "test", SAMPLES, 2)
    for place in range(SAMPLES):
        record = record_of(data, plan.task, "test", place)
        prompt = f"{record['question']}. It is".encode()
        scores: list[torch.Tensor] = []
        for choice in "abc":
            word = f" {record[choice]}".encode()
            tokens = torch.tensor([[[*prompt, *word]]])
            logs = model.logits(tokens, slice(len(prompt) - 1, -1)).log_softmax(-1)[:, 0]
            places = torch.arange(len(word))
            scores.append(logs[:, places, torch.tensor(list(word))].sum(-1))
        chosen = torch.stack(scores).argmax(0)
        expected = chosen == "ABC".index(record["answer"])
        assert right[:, place].tolist() == expected.tolist()
    assert 0 < right.sum() < right.numel()


def test_scores_do_not_depend_on_how_many_items_pass_together(
    data: Stored, monkeypatch: pytest.MonkeyPatch
):
    plan, model = planned(pretraining(data, QUIZ), data)
    together = outcomes(model, plan.task, "test", 40, 2)
    monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_at_once", lambda *_: 7)
    assert torch.equal(outcomes(model, plan.task, "test", 40, 2), together)


def test_items_of_full_length_have_the_same_choices(data: Stored):
    plan, model = planned(pretraining(data, QUIZ), data)
    texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    records = texts.of_split["test"][:12].unsqueeze(0)
    short, full = texts.items(records), texts.items(records, is_full=True)
    assert isinstance(full, WordItems)
    assert isinstance(short, WordItems)
    assert full.tokens.shape[-1] == plan.task.sequence_length() > short.tokens.shape[-1]
    assert torch.equal(full.choose(model.answers), short.choose(model.answers))


def test_the_loss_is_that_of_the_right_choice_alone(data: Stored):
    plan, model = planned(pretraining(data, QUIZ), data)
    found = judged(model, plan.task, "validation", SAMPLES, 2)
    total, tokens = torch.zeros(2, dtype=torch.float64), 0
    for place in range(SAMPLES):
        record = record_of(data, plan.task, "validation", place)
        prompt = f"{record['question']}. It is".encode()
        word = f" {record[record['answer'].lower()]}".encode()
        text = torch.tensor([[[*prompt, *word]]])
        logs = model.logits(text, slice(len(prompt) - 1, -1)).log_softmax(-1)[:, 0].detach()
        total -= logs[:, torch.arange(len(word)), torch.tensor(list(word))].sum(-1)
        tokens += len(word)
    assert found.loss is not None
    assert torch.allclose(found.loss, total / tokens, rtol=0, atol=1e-12)
    assert found.right.any(1).all()
    assert not found.right.all(1).any()


def test_training_reads_the_right_choice_alone(data: Stored):
    plan, _ = planned(pretraining(data, QUIZ), data)
    task: Any = plan.task
    made = items_of_step(task, plan.seeds[:1], 8, 0)
    assert not isinstance(made, WordItems)
    right = {f"{r['question']}. It is {r[r['answer'].lower()]}" for r in quizzes(300)}
    for place in range(8):
        assert made.counted is not None
        read = [token for token in made.tokens[0, place].tolist() if token]
        last = made.targets[0, place, int(made.counted[0, place].sum()) - 1]
        assert joined([*read, int(last)]) in right


@pytest.mark.long("long trainings")
def test_a_model_learns_to_choose_and_shows_the_records_own_choices(data: Stored, tmp_path: Path):
    training = {"steps": 120, "batch_size": 16, "learning_rate": 0.01}
    attention = {"attention": {"samples": 5}}
    spec = pretraining(data, QUIZ, training=training, capture=attention)
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    scores = [event.evaluation for event in told.of(Evaluated)]
    assert min(score.accuracy for score in scores) > 1 / 3 + 0.25
    found = agreements(told)
    assert {bit for _, bit in found} == {True, False}, "one alone would show nothing"
    assert all(equal == bit for equal, bit in found)
    assert Expected.of(spec).problems(told.events) == ()
    (shown,), answers = told.of(ItemsShown), told.of(AnswersGiven)
    for item in shown.items:
        assert item.line is not None
        record = quizzes(300)[item.line - 1]
        assert (item.expected.label, item.expected.text) == (
            record["answer"],
            f" {record[record['answer'].lower()]}",
        )
    captured = [e for e in told.of(AttentionCaptured) if not e.attention.replicate]
    assert captured
    for event in captured:
        given = answers[0].answers
        words = [(text.expected, text.predicted) for text in event.attention.texts]
        assert words == [((shown.items[n].expected.text,), (given[n].text,)) for n in range(5)]


def test_a_reported_choice_must_have_a_label_of_the_task(data: Stored, tmp_path: Path):
    spec = pretraining(data, QUIZ, training={"steps": 1, "batch_size": 4})
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    event = told.of(AnswersGiven)[0]

    def codes(**changes: Any) -> set[str]:
        first = event.answers[0].model_copy(update=changes)
        changed = event.model_copy(update={"answers": (first, *event.answers[1:])})
        return {problem.code for problem in Expected.of(spec).problems([changed])}

    assert codes() == set()
    assert codes(label="B", text=" own", characters=4) == set()
    assert codes(label="D") != set()
    assert codes(label=None) != set()
    assert codes(text="x" * 501, characters=501) == {"too_long"}


def test_two_and_thirty_two_choices_are_scored(tmp_path: Path):
    for count in (2, 32):
        names = [f"{n}" for n in range(count)]
        several = [f"o{n}" for n in range(min(count, 29))]
        records = [
            {"q": f"q {n}", "y": names[n % count], **{name: f"{name} {n}" for name in several}}
            for n in range(4 * count + 60)
        ]
        words = {n: f" {{o{n}}}" if f"o{n}" in several else f" {n}" for n in names}
        task = without(
            QUIZ, prompt="{q}:", label={"field": "y", "words": words}, splits={"by": "q"}
        )
        folder = tmp_path / str(count)
        folder.mkdir()
        data = stored(folder, records)
        spec = pretraining(data, task, evaluation={"samples": 5}, training={"steps": 2})
        told = Remembering()
        run(spec, (), folder, told, "cpu", datasets=(data.path,))
        assert [event.evaluation.total for event in told.of(Evaluated)] == [5, 5]
        assert Expected.of(spec).problems(told.events) == ()
