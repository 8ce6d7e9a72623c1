"""Calibration by an empty input equals its formula, computed word by word."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.engine.judging import outcomes
from tests.engine.making import Remembering, base_tensors, perturbed, trainables
from tests.engine.running import run
from tests.engine.text_jobs import MINIGPT, agreements, planned, pretraining
from tests.texts import CLASSIFICATION, QUIZ, Stored, quizzes, reviews, stored, without

from adaptlab.engine.items.texts import chosen_items, items_of_step, texts_of
from adaptlab.engine.items.word_choice import ChoiceItems, WordItems
from adaptlab.engine.measuring.answering import given_answers
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    AnswersGiven,
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
)
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec

SAMPLES = 24
MIXED = {"field": "answer", "words": {"A": " {a}", "B": " {b}", "C": " good"}}
WORDS = {"field": "label", "words": {"neg": " bad", "pos": " quite good"}}
TASKS: dict[str, dict[str, Any]] = {
    "signs": without(CLASSIFICATION, calibration="empty_input"),
    "words": without(
        CLASSIFICATION,
        label=WORDS,
        tokens={"longest": 52, "answer": 11},
        calibration="empty_input",
    ),
    "own": without(QUIZ, calibration="empty_input"),
    "mixed": without(QUIZ, label=MIXED, calibration="empty_input"),
}
RECORDS = {"signs": reviews(300), "words": reviews(300), "own": quizzes(300), "mixed": quizzes(300)}


@pytest.fixture(scope="module")
def data_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stored]:
    root = tmp_path_factory.mktemp("data")
    for name in TASKS:
        (root / name).mkdir()
    return {name: stored(root / name, records) for name, records in RECORDS.items()}


def adapted(data: Stored, task: Mapping[str, Any], method: str) -> tuple[Plan, Model]:
    """An adaptation of two seeds to random weights."""
    base = pretraining(data, task)
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=base.family, task=base.task, replicates=1
    )
    spec = {
        "base_model": "base",
        "task": dict(task),
        "method": method,
        "budget": {"trainable_parameters": 300},
        "training": {"precision": "float64", "steps": 4, "batch_size": 4},
        "seeds": 2,
    }
    resolved = resolve(AdaptSpec.model_validate(spec), facts, data.datasets)
    plan = make_plan(resolved, "cpu", {}, data.source())
    tensors = base_tensors(plan)
    return plan, Model(plan, tensors, perturbed(plan, trainables(plan, tensors).tensors))


def log_probability(model: Model, prompt: str, word: str, *, attached: bool) -> torch.Tensor:
    """That of a word after a prompt, by a pass of its own, in bytes."""
    asked, answered = list(prompt.encode()), list(word.encode())
    compute = model.logits if attached else model.base_logits
    logits = compute(torch.tensor([[[*asked, *answered]]]), slice(len(asked) - 1, -1))
    logs = logits.log_softmax(-1)[:, 0]
    return logs[:, torch.arange(len(answered)), torch.tensor(answered)].sum(-1).detach()


def texts_by_hand(name: str, record: Mapping[str, str]) -> tuple[str, str, list[str]]:
    """The prompt of a record, the empty prompt, and the label words."""
    if name in ("signs", "words"):
        words = TASKS[name]["label"]["words"]
        return f"{record['text']}. It is", ". It is", list(words.values())
    third = record["c"] if name == "own" else "good"
    words = [f" {record['a']}", f" {record['b']}", f" {third}"]
    return f"{record['question']}. It is", ". It is", words


@pytest.mark.long("every combination", but=3)
@pytest.mark.parametrize("attached", [True, False], ids=["adapted", "base"])
@pytest.mark.parametrize("name", TASKS)
def test_scores_and_answers_are_those_of_the_formula(
    name: str, attached: bool, data_of: dict[str, Stored]
):
    plan, model = adapted(data_of[name], TASKS[name], "soft_prompt")
    task: Any = plan.task
    right = outcomes(model, task, "test", SAMPLES, 2, attached=attached)
    given = given_answers(model, task, SAMPLES, 2, attached=attached)
    labels, field = list(TASKS[name]["label"]["words"]), TASKS[name]["label"]["field"]
    uncalibrated = 0
    for place in range(SAMPLES):
        record = RECORDS[name][int(texts_of(task).of_split["test"][place])]
        prompt, empty, words = texts_by_hand(name, record)
        plain, alone = (
            torch.stack([log_probability(model, text, word, attached=attached) for word in words])
            for text in (prompt, empty)
        )
        chosen = (plain - alone).argmax(0).expand(2)
        uncalibrated += int((plain.argmax(0) != chosen).sum())
        for row in range(2):
            label = labels[int(chosen[row])]
            assert bool(right[row, place]) == (label == record[field])
            assert (given[row][place].label, given[row][place].text) == (
                label,
                words[int(chosen[row])],
            )
    assert uncalibrated > 0, "calibration that changes nothing would show nothing"


@pytest.mark.parametrize("name", TASKS)
def test_validation_is_calibrated_and_its_loss_is_not(name: str, data_of: dict[str, Stored]):
    data, plain = data_of[name], without(TASKS[name], calibration="none")
    plan, model = planned(pretraining(data, TASKS[name]), data)
    plain_plan, plain_model = planned(pretraining(data, plain), data)
    found = judged(model, plan.task, "validation", SAMPLES, 2)
    uncalibrated = judged(plain_model, plain_plan.task, "validation", SAMPLES, 2)
    assert found.loss is not None
    assert uncalibrated.loss is not None
    assert torch.equal(found.loss, uncalibrated.loss)
    assert torch.equal(found.right, outcomes(model, plan.task, "validation", SAMPLES, 2))
    task, plain_task = plan.task, plain_plan.task
    read, plain_read = (
        items_of_step(one, plan.seeds[:1], 8, 0)  # pyright: ignore[reportArgumentType]
        for one in (task, plain_task)
    )
    assert torch.equal(read.tokens, plain_read.tokens)


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("name", TASKS)
def test_scores_do_not_depend_on_how_many_items_pass_together(
    name: str, data_of: dict[str, Stored], monkeypatch: pytest.MonkeyPatch
):
    plan, model = planned(pretraining(data_of[name], TASKS[name]), data_of[name])
    together = outcomes(model, plan.task, "test", 40, 2)
    monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_at_once", lambda *_: 1)
    assert torch.equal(outcomes(model, plan.task, "test", 40, 2), together)


def test_the_empty_prompt_is_read_once_per_batch(data_of: dict[str, Stored]):
    """One item for words of one token; otherwise every word once."""
    sizes: dict[str, tuple[int, int]] = {}
    for name, task in TASKS.items():
        plan, model = planned(pretraining(data_of[name], task), data_of[name])
        texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
        made = texts.items(texts.of_split["test"][:12].unsqueeze(0))
        passes: list[int] = []

        def answer(items: Any, model: Model = model, passes: list[int] = passes) -> Any:
            passes.append(items.tokens.shape[1])
            return model.answers(items)

        made.right(answer(made), answer)
        sizes[name] = len(passes), sum(passes)
        if isinstance(made, WordItems):
            assert made.alone is not None
            assert made.alone.items.tokens.shape[1] <= 12 * 3
    assert sizes["signs"] == (1 + 1, 12 + 1)
    assert sizes["words"] == (1 + 2 + 1, 12 * 3 + 2)
    different = {r[name] for name in "abc" for r in quizzes(300)}
    assert sizes["own"][1] <= 12 * 4 + min(36, len(different))


@pytest.mark.parametrize("name", TASKS)
def test_items_are_moved_to_a_device_as_a_whole(name: str, data_of: dict[str, Stored]):
    plan, _ = planned(pretraining(data_of[name], TASKS[name]), data_of[name])
    device = torch.device("meta")
    there = chosen_items(plan.task, "test", torch.arange(3), device)  # pyright: ignore[reportArgumentType]
    assert devices(there) == {device}
    kinds = {type(there)}
    assert kinds == ({ChoiceItems} if name == "signs" else {WordItems})


def devices(value: object) -> set[torch.device]:
    """Those of all tensors in items, at any depth."""
    if isinstance(value, torch.Tensor):
        return {value.device}
    inside = value if isinstance(value, tuple) else getattr(value, "__dict__", {}).values()
    return {device for one in inside for device in devices(one)}


def trained(data: Stored, folder: Path) -> tuple[Plan, dict[str, torch.Tensor]]:
    """A model that has learned the signs, with calibrated scores."""
    training = {"steps": 150, "batch_size": 16, "learning_rate": 0.01}
    spec = pretraining(data, TASKS["signs"], training=training)
    told = Remembering()
    run(spec, (), folder, told, "cpu", datasets=(data.path,))
    files = [load_file(event.path) for event in told.of(CheckpointWritten)]
    plan = make_plan(spec, "cpu", {}, data.source())
    return plan, {n: torch.stack([f[n].to(plan.dtype) for f in files]) for n in files[0]}


@pytest.mark.long("long trainings")
def test_a_strong_preference_for_one_word_is_removed(data_of: dict[str, Stored], tmp_path: Path):
    data = data_of["signs"]
    plan, tensors = trained(data, tmp_path)
    plain: Any = plan.task.model_copy(update={"calibration": "none"})
    plain = plain.with_texts(data.source())
    unbiased = Model(plan, {}, tensors)
    before = outcomes(unbiased, plan.task, "test", 40, 2)
    # A shift of the last norm adds the same to the logits of a token after every prompt.
    towards = tensors["unembed.weight"][:, ord("-")] - tensors["unembed.weight"][:, ord("+")]
    shift = 30 * towards / towards.square().sum(-1, keepdim=True)
    biased = Model(plan, {}, {**tensors, "final_norm.bias": tensors["final_norm.bias"] + shift})
    spoiled = outcomes(biased, plain, "test", 40, 2)
    numbers = texts_of(plain).of_split["test"][:40]
    negative = torch.tensor([RECORDS["signs"][int(n)]["label"] == "neg" for n in numbers])
    assert torch.equal(spoiled, negative.expand(2, -1)), "one answer to all"
    assert torch.equal(outcomes(biased, plan.task, "test", 40, 2), before)
    assert before.double().mean() > spoiled.double().mean() + 0.2


@pytest.mark.parametrize("name", TASKS)
def test_everything_that_a_job_reports_is_calibrated(
    name: str, data_of: dict[str, Stored], tmp_path: Path
):
    data = data_of[name]
    attention = {"attention": {"samples": 5}}
    training = {"steps": 20, "batch_size": 8, "learning_rate": 0.01}
    spec = pretraining(data, TASKS[name], capture=attention, training=training, family=MINIGPT)
    told = Remembering()
    run(spec, (), tmp_path, told, "cpu", datasets=(data.path,))
    assert all(equal == bit for equal, bit in agreements(told))
    answers = {event.replicate: event.answers for event in told.of(AnswersGiven)}
    captured = [e for e in told.of(AttentionCaptured) if e.attention.replicate in answers]
    assert captured
    for event in captured:
        predicted = [text.predicted for text in event.attention.texts]
        given = answers[event.attention.replicate][:5]
        assert predicted == [(answer.text,) for answer in given]
    assert len(told.of(Evaluated)) == 2
    assert Expected.of(spec).problems(told.events) == ()
