"""Given answers equal plain greedy decoding, and agree with scores."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH, Remembering, bert, made_base
from tests.engine.running import run
from tests.engine.text_jobs import agreements
from tests.engine.tiny import adapting, pretraining
from tests.texts import CLASSIFICATION, COMPLETION, Stored, reviews, stored, without

from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.measuring.answering import given_answers
from adaptlab.engine.measuring.token_by_token import decoded
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.initial_tensors import initial_trainables
from adaptlab.plugins.text_task import TextTask
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AnswersGiven, ItemsShown
from adaptlab.runs.reported_answers import answer_excerpt, prompt_excerpt
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import Resolved
from adaptlab.specs.spec import PretrainSpec

WORDS = {"field": "label", "words": {"neg": " bad", "pos": " quite good"}}
TEXTS: dict[str, dict[str, Any]] = {
    "signs": dict(CLASSIFICATION),
    "words": without(CLASSIFICATION, label=WORDS, tokens={"longest": 52, "answer": 11}),
    "completion": dict(COMPLETION),
}
LAW = {"length": 4, "alphabet": 5}
DIGITS: dict[str, dict[str, Any]] = {
    "sort": {"name": "sort_ascending", **LAW},
    "filter": {"name": "filter_less_than_first", **LAW},
    "words": {"name": "word_translation", "words": 12, "longest": 6},
    "mixture": {"name": "mixture", "tasks": [{"name": "sort_ascending", **LAW},
                                             {"name": "filter_less_than_first", **LAW}]},
}  # fmt: skip
MINIGPT = {"name": "minigpt", "layers": 2, "heads": 2, "width": 16}
SHOWN = 20


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(300))


def resolved(task: dict[str, Any], data: Stored | None = None, **changes: Any) -> Any:
    spec = {
        "name": "base",
        "family": MINIGPT,
        "task": task,
        "training": {"precision": "float64", "steps": 120, "batch_size": 16, "validations": 1,
                     "learning_rate": 0.01},
        "seeds": 2,
        "evaluation": {"samples": 40, "shown": SHOWN},
        **changes,
    }  # fmt: skip
    datasets = {} if data is None else data.datasets
    return resolve(PretrainSpec.model_validate(spec), None, datasets)


def ran(spec: Resolved, folder: Path, data: Stored | None = None, **named: Any) -> Remembering:
    watching = Remembering()
    datasets = () if data is None else (data.path,)
    run(spec, named.get("bases", ()), folder, watching, "cpu", datasets=datasets)
    return watching


@pytest.mark.parametrize(("name", "steps"), [("signs", 6), ("words", 6), ("completion", 150)])
def test_an_answer_to_a_text_is_the_expected_one_where_it_is_right(
    data: Stored, name: str, steps: int, tmp_path: Path
) -> None:
    training = {"steps": steps, "batch_size": 16, "learning_rate": 0.01}
    spec = resolved(TEXTS[name], data, training=training)
    told = ran(spec, tmp_path, data)
    found = agreements(told)
    assert len(found) == SHOWN, "the first replicate answers"
    assert {bit for _, bit in found} == {True, False}, "one alone would show nothing"
    assert all(equal == bit for equal, bit in found)
    assert Expected.of(spec).problems(told.events) == ()


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("name", DIGITS)
def test_an_answer_in_tokens_is_the_expected_one_where_it_is_right(
    name: str, tmp_path: Path
) -> None:
    spec = resolved(DIGITS[name])
    told = ran(spec, tmp_path)
    found = agreements(told)
    assert any(bit for _, bit in found), "wrong answers alone would show nothing"
    assert all(equal == bit for equal, bit in found)
    assert Expected.of(spec).problems(told.events) == ()


def planned(spec: Resolved, data: Stored | None = None) -> tuple[Plan, Model]:
    plan = make_plan(spec, "cpu", {}, {} if data is None else data.source())
    torch.manual_seed(5)
    tensors = {
        name: tensor + torch.randn_like(tensor) / 2
        for name, tensor in initial_trainables(plan, {}).tensors.items()
    }
    return plan, Model(plan, {}, tensors)


def one_by_one(
    model: Model, prompt: Sequence[int], row: int, most: int, end: int | None
) -> list[int]:
    """Greedy decoding of one prompt, without padding, drafts or other items."""
    tokens = list(prompt)
    for _ in range(most):
        logits = model.logits(torch.tensor([[tokens]]), slice(len(tokens) - 1, len(tokens)))
        tokens.append(int(logits[row, 0, -1].argmax()))
        if tokens[-1] == end:
            break
    answer = tokens[len(prompt) :]
    return answer[:-1] if answer[-1] == end else answer


def test_texts_are_decoded_as_token_by_token(data: Stored) -> None:
    plan, model = planned(resolved(TEXTS["completion"], data), data)
    task = plan.task
    assert isinstance(task, TextTask)
    found = given_answers(model, task, SHOWN, 2)
    tokeniser = task.source().tokeniser
    made = make_items(task, "test", plan.seeds[:1], 0, SHOWN)
    assert made.answer_rows is not None
    lengths = set[int]()
    for place in range(SHOWN):
        asked = made.first + int(made.answer_rows[0, place, 0]) + 1
        prompt = made.tokens[0, place, :asked].tolist()
        most = min(task.target_length(), task.sequence_length() + 1 - asked)
        for row in range(2):
            expected = one_by_one(model, prompt, row, most, 256)
            assert found[row][place] == answer_excerpt(tokeniser.text(tuple(expected)))
            lengths.add(len(expected))
    assert len({one.text for row in found for one in row}) > 4


@pytest.mark.parametrize("name", ["sort", "filter"])
def test_tokens_are_decoded_as_token_by_token(name: str) -> None:
    plan, model = planned(resolved(DIGITS[name]))
    found = given_answers(model, plan.task, SHOWN, 2)
    made = make_items(plan.task, "test", torch.tensor([0]), 0, SHOWN)
    end = plan.task.end_token()
    for place in range(SHOWN):
        prompt = made.tokens[0, place, : plan.task.input_length()].tolist()
        for row in range(2):
            expected = one_by_one(model, prompt, row, plan.task.target_length(), end)
            assert found[row][place].text == " ".join(map(str, expected))
    assert len({one.text for row in found for one in row}) > 4


def test_few_items_at_once_have_the_same_answers(
    data: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, model = planned(resolved(TEXTS["completion"], data), data)
    together = given_answers(model, plan.task, SHOWN, 2)
    monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_at_once", lambda *_: 3)
    assert given_answers(model, plan.task, SHOWN, 2) == together


def test_a_right_draft_takes_one_pass_and_a_wrong_one_no_more_than_tokens() -> None:
    passes: list[torch.Tensor] = []

    def next_is_one_more(draft: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        passes.append(items)
        before = torch.cat([torch.zeros_like(draft[..., :1]), draft[..., :-1]], -1)
        return torch.nn.functional.one_hot(before + 1, 9).double()

    right, wrong = torch.tensor([[[1, 2, 3, 4]]]), torch.tensor([[[5, 5, 5, 5]]])
    room = torch.tensor([4])
    assert decoded(next_is_one_more, right, room, None).tolist() == right.tolist()
    assert len(passes) == 1
    assert decoded(next_is_one_more, wrong, room, None).tolist() == right.tolist()
    assert len(passes) == 1 + 4
    ended = decoded(next_is_one_more, wrong, room, 2)
    assert ended[0, 0, :2].tolist() == [1, 2]
    assert len(passes) == 5 + 2, "nothing is decoded behind the end token"
    both = torch.cat([right, wrong], 1)
    assert decoded(next_is_one_more, both, torch.tensor([4, 4]), None).tolist() == [
        [[1, 2, 3, 4]] * 2
    ]
    assert [len(items) for items in passes[7:]] == [2, 1, 1, 1], "finished items leave the pass"


def test_items_say_which_record_they_are(data: Stored, tmp_path: Path) -> None:
    spec = resolved(TEXTS["completion"], data, training={"steps": 1})
    (shown,) = ran(spec, tmp_path, data).of(ItemsShown)
    lines = data.path.read_text().splitlines()
    assert [item.item for item in shown.items] == list(range(SHOWN))
    for item in shown.items:
        assert item.line is not None
        record = json.loads(lines[item.line - 1])
        assert item.prompt.text == f"{record['text']}. Its thing:"
        assert item.expected.text == record["thing"]
    assert len({item.line for item in shown.items}) == SHOWN


@pytest.mark.long("long trainings")
def test_nothing_is_computed_for_no_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adaptlab.engine.measuring.answering.item_texts", None)
    spec = resolved(DIGITS["sort"], evaluation={"samples": 40, "shown": 0})
    told = ran(spec, tmp_path)
    assert not [event for event in told.events if isinstance(event, ItemsShown | AnswersGiven)]


@pytest.mark.long("long trainings")
def test_there_are_no_more_items_than_are_scored(tmp_path: Path) -> None:
    spec = resolved(DIGITS["sort"], evaluation={"samples": 7, "shown": 30})
    (shown,) = ran(spec, tmp_path).of(ItemsShown)
    assert len(shown.items) == 7


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("method", ["frozen", "lora", "soft_prompt"])
def test_an_adaptation_answers_twice(method: str, tmp_path: Path) -> None:
    facts, paths = made_base(pretraining(), tmp_path)
    spec = resolve(adapting(method, budget=400, seeds=4), facts)
    told = ran(spec, tmp_path, bases=paths)
    answers = told.of(AnswersGiven)
    assert {(e.task_place, e.replicate, e.attached) for e in answers} == {
        (task, replicate, attached)
        for task in (0, 1)
        for replicate in (0,)
        for attached in (True, False)
    }
    assert all(equal == bit for equal, bit in agreements(told))
    assert Expected.of(spec).problems(told.events) == ()
    by_place = {(e.task_place, e.replicate, e.attached): e.answers for e in answers}
    assert (by_place[0, 0, False] == by_place[0, 0, True]) == (method == "frozen")


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize("family", [*SMALL_OF_EACH, "bert"])
def test_every_family_answers_as_it_is_scored(family: str, tmp_path: Path) -> None:
    made = bert(12, 2, 16) if family == "bert" else SMALL_OF_EACH[family]
    task = {"name": "sort_ascending", "length": 3, "alphabet": 4}
    chosen = made.model_dump(mode="json")
    training = {"steps": 40, "batch_size": 16, "precision": "float64", "learning_rate": 0.01}
    spec = resolved(task, family=chosen, training=training)
    assert all(equal == bit for equal, bit in agreements(ran(spec, tmp_path)))


def test_long_texts_are_cut_and_counted() -> None:
    prompt, answer = prompt_excerpt("a" * 3000), answer_excerpt("b\0" * 400, "neg")
    assert (len(prompt.text), prompt.characters, prompt.is_shortened) == (2000, 3000, True)
    assert (len(answer.text), answer.characters, answer.label) == (500, 800, "neg")
    assert answer.text.startswith("b␀b␀"), "Postgres stores no null character"
    assert not prompt_excerpt("a" * 2000).is_shortened
