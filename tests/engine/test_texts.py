"""Padded items of texts equal the same items alone, and sums by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.texts import (
    CLASSIFICATION,
    COMPLETION,
    Stored,
    joined,
    reviews,
    stored,
    without,
)
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import items_of_steps, make_items
from adaptlab.engine.items.texts import STEPS_SORTED, right_choices, text_items, texts_of
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.initial_tensors import initial_trainables
from adaptlab.errors import InvalidSpec, TrainingStopped
from adaptlab.plugins.splits import Split
from adaptlab.runs.events import Evaluated, TrainingSaved
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec

WORDS = {"field": "label", "words": {"neg": " bad", "pos": " quite good"}}
SPELLED = without(CLASSIFICATION, label=WORDS, tokens={"longest": 52, "answer": 11})
TASKS: dict[str, dict[str, Any]] = {
    "signs": dict(CLASSIFICATION),
    "words": SPELLED,
    "completion": dict(COMPLETION),
}
FAMILIES: dict[str, dict[str, Any]] = {
    "minigpt": {"name": "minigpt", "layers": 2, "heads": 2, "width": 12},
    "gpt2": {"name": "gpt2", "layers": 2, "heads": 2, "width": 12},
    "llama": {"name": "llama", "layers": 2, "heads": 2, "width": 12, "hidden": 10},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(300))


def pretraining(data: Stored, task: dict[str, Any], family: str = "minigpt", **changes: Any) -> Any:
    """A resolved pretraining on texts."""
    spec = {
        "name": "base",
        "family": FAMILIES[family],
        "task": task,
        "training": {"precision": "float64", "steps": 6, "batch_size": 4, "validations": 2},
        "seeds": 2,
        "evaluation": {"samples": 40},
        **changes,
    }
    return resolve(PretrainSpec.model_validate(spec), None, data.datasets)


def planned(data: Stored, task: dict[str, Any], family: str = "minigpt") -> tuple[Plan, Model]:
    plan = make_plan(pretraining(data, task, family), "cpu", {}, data.source())
    return plan, Model(plan, {}, initial_trainables(plan, {}).tensors)


def alone(items: Items, place: int) -> Items:
    """One of the items without padding, with its answer as the last rows."""
    counted = items.counted
    answered = items.targets.shape[-1] if counted is None else int(counted[0, place].sum())
    assert items.answer_rows is not None
    first = items.first + int(items.answer_rows[0, place, 0])
    return Items(
        items.tokens[:1, place : place + 1, : first + answered],
        items.targets[:1, place : place + 1, :answered],
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("task", TASKS)
def test_an_item_has_the_logits_that_it_has_alone(data: Stored, task: str, family: str):
    plan, model = planned(data, TASKS[task], family)
    made = make_items(plan.task, "test", plan.seeds[:1], 0, 12)
    together = model.answers(made)
    lengths = set[int]()
    for place in range(12):
        one = alone(made, place)
        lengths.add(one.tokens.shape[-1])
        expected = model.answers(one)
        answered = one.targets.shape[-1]
        assert (together[:, place, :answered] - expected[:, 0]).abs().max() < 1e-12
    assert len(lengths) > 2, "items of one length would show nothing"


@pytest.mark.parametrize("task", TASKS)
def test_items_of_full_length_have_the_same_logits(data: Stored, task: str):
    plan, model = planned(data, TASKS[task])
    texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    records = texts.of_split["test"][:6].unsqueeze(0)
    short, full = texts.items(records), texts.items(records, is_full=True)
    assert full.tokens.shape[-1] == plan.task.sequence_length() > short.tokens.shape[-1]
    assert (full.span, full.targets.shape[-1]) == (
        slice(0, plan.task.sequence_length()),
        plan.task.target_length(),
    )
    found, expected = model.answers(full), model.answers(short)
    answered = short.targets.shape[-1]
    assert (found[:, :, :answered] - expected).abs().max() < 1e-12
    assert torch.equal(full.right(found, model.answers), short.right(expected, model.answers))
    losses = full.token_losses(found).sum(-1) - short.token_losses(expected).sum(-1)
    assert losses.abs().max() < 1e-12


def test_the_model_reads_the_prompt_and_the_answer_but_its_last_token(data: Stored):
    plan, _ = planned(data, TASKS["completion"])
    made = make_items(plan.task, "test", plan.seeds[:1], 0, 12)
    known = {f"{r['text']}. Its thing:{r['thing']}" for r in reviews(300)}
    for place in range(12):
        one = alone(made, place)
        text = joined([*one.tokens[0, 0].tolist(), int(one.targets[0, 0, -2])])
        assert int(one.targets[0, 0, -1]) == 256, "the token that ends a text"
        assert joined(one.tokens[0, 0].tolist()) in known
        assert text == joined(one.tokens[0, 0].tolist()) + text[-1]


def test_the_loss_is_the_mean_over_answer_tokens_alone(data: Stored):
    plan, model = planned(data, TASKS["completion"])
    samples = 20
    loss = judged(model, plan.task, "validation", samples, 2).loss
    assert loss is not None
    made = make_items(plan.task, "validation", plan.seeds[:1], 0, samples)
    total, tokens = torch.zeros(2, dtype=torch.float64), 0
    for place in range(samples):
        one = alone(made, place)
        logs = model.answers(one).log_softmax(-1)[:, 0]
        total -= logs.gather(-1, one.targets[0].T.expand(2, -1, -1)).sum((1, 2)).detach()
        tokens += one.targets.numel()
    assert torch.allclose(loss, total / tokens, rtol=0, atol=1e-12)


def log_probability(model: Model, one: Items) -> Tensor:
    logs = model.answers(one).log_softmax(-1)[:, 0]
    return logs.gather(-1, one.targets[0].T.expand(2, -1, -1)).sum((1, 2)).detach()


@pytest.mark.parametrize("task", ["signs", "words"])
def test_the_choice_is_the_likeliest_of_all_words(data: Stored, task: str):
    plan, model = planned(data, TASKS[task])
    samples = 30
    texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    right = outcomes(model, plan.task, "test", samples, 2)
    made = make_items(plan.task, "test", plan.seeds[:1], 0, samples)
    assert texts.choices is not None
    assert texts.labels is not None
    words = [word[:length].tolist() for word, length in zip(*texts.choices, strict=True)]
    for place in range(samples):
        one = alone(made, place)
        answered = one.targets.shape[-1]
        prompt = one.tokens[0, 0, : one.tokens.shape[-1] - answered + 1]
        scores: list[Tensor] = []
        for word in words:
            read = torch.tensor([[[*prompt.tolist(), *word[:-1]]]])
            scores.append(log_probability(model, Items(read, torch.tensor([[word]]))))
        label = int(texts.labels[texts.of_split["test"][place]])
        expected = torch.stack(scores).argmax(0) == label
        assert right[:, place].tolist() == expected.tolist()
    assert 0 < right.sum() < right.numel()


def test_scores_do_not_depend_on_how_many_items_pass_together(
    data: Stored, monkeypatch: pytest.MonkeyPatch
):
    plan, model = planned(data, TASKS["words"])
    together = outcomes(model, plan.task, "test", 40, 2)
    monkeypatch.setattr("adaptlab.engine.measuring.evaluate.items_at_once", lambda *_: 7)
    assert torch.equal(outcomes(model, plan.task, "test", 40, 2), together)


def test_a_step_has_records_of_training_in_no_order_of_the_file(data: Stored):
    plan, _ = planned(data, TASKS["signs"])
    texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    several = list(items_of_steps(plan.task, plan.seeds[:1], 1, range(24)))
    assert [made.tokens.shape[:2] for made in several] == [(1, 1)] * 24
    assert len({made.tokens.shape[-1] for made in several}) > 1, "each as long as its longest"
    for split in ("validation", "test"):
        places = texts.of_split[split]
        assert not torch.equal(places, places.sort().values)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_first_items_of_a_file_sorted_by_class_have_all_classes(split: Split, tmp_path: Path):
    by_class = sorted(reviews(300), key=lambda record: record["label"])
    task = stored(tmp_path, by_class).task(TASKS["signs"])
    first = right_choices(task, split, 8)
    assert len(first) == 8
    assert first.unique().tolist() == [0, 1]


def test_equal_seeds_read_equal_items_and_others_do_not(data: Stored):
    plan, _ = planned(data, TASKS["signs"])
    first, again = (
        make_items(plan.task, "train", torch.tensor(seeds), 0, 50)
        for seeds in ([0, 1, 0], [0, 1, 0])
    )
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.tokens[0], first.tokens[2])
    assert not torch.equal(first.tokens[0], first.tokens[1])


def test_a_run_that_is_resumed_ends_where_an_undisturbed_one_does(data: Stored, tmp_path: Path):
    resolved = pretraining(data, TASKS["words"])
    whole, broken, resumed = Remembering(), Remembering(stop_after=3, save_after=3), Remembering()
    folders = [tmp_path / name for name in ("whole", "broken", "resumed")]
    for folder in folders:
        folder.mkdir()
    run(resolved, (), folders[0], whole, "cpu", datasets=(data.path,))
    with pytest.raises(TrainingStopped):
        run(resolved, (), folders[1], broken, "cpu", datasets=(data.path,))
    state = broken.of(TrainingSaved)[0].path
    run(resolved, (), folders[2], resumed, "cpu", state, datasets=(data.path,))
    assert [e.evaluation for e in resumed.of(Evaluated)] == [
        e.evaluation for e in whole.of(Evaluated)
    ]


def test_memory_is_measured_with_items_of_the_greatest_length(
    data: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    measured: list[int] = []

    def fitting(one: object, items: Items, *rest: object) -> None:
        measured.append(items.tokens.shape[-1])

    monkeypatch.setattr("adaptlab.engine.training.descent.fitting", fitting)
    resolved = pretraining(data, TASKS["completion"])
    run(resolved, (), tmp_path, Remembering(), "cpu", datasets=(data.path,))
    assert resolved.task is not None
    assert measured == [resolved.task.sequence_length()]


def test_a_model_that_trains_on_texts_learns_them(data: Stored, tmp_path: Path):
    training = {"steps": 150, "batch_size": 16, "learning_rate": 0.01}
    resolved = pretraining(data, TASKS["signs"], training=training, seeds=1)
    watching = Remembering()
    run(resolved, (), tmp_path, watching, "cpu", datasets=(data.path,))
    (score,) = (e.evaluation for e in watching.of(Evaluated))
    assert resolved.task is not None
    assert score.total == 40
    assert score.correct / score.total > resolved.task.chance() + 0.15


@pytest.mark.parametrize("if_longer", ["refuse", "cut"])
def test_the_longest_label_word_counts_for_every_item(tmp_path: Path, if_longer: str):
    """An item with a short word is also scored with the long one."""
    text = "a very poor film, and a long one"
    data = stored(tmp_path, [*reviews(200), {"text": text, "label": "neg", "thing": "film"}])
    longest = len(f"{text}. It is quite good")
    limits = {"longest": longest - 1, "answer": 11, "if_longer": if_longer}
    resolved = pretraining(data, without(SPELLED, tokens=limits), evaluation={"samples": 100})
    if if_longer == "cut":
        run(resolved, (), tmp_path, Remembering(), "cpu", datasets=(data.path,))
        return
    with pytest.raises(InvalidSpec) as caught:
        run(resolved, (), tmp_path, Remembering(), "cpu", datasets=(data.path,))
    assert [problem.nearest for problem in caught.value.problems] == [(longest,)]


def test_items_that_are_too_long_end_a_run_with_their_number(data: Stored, tmp_path: Path):
    short = without(CLASSIFICATION, tokens={"longest": 30, "answer": 1})
    with pytest.raises(InvalidSpec) as caught:
        run(pretraining(data, short), (), tmp_path, Remembering(), "cpu", datasets=(data.path,))
    (problem,) = caught.value.problems
    longest = max(len(f"{r['text']}. It is+") for r in reviews(300))
    assert (problem.code, problem.nearest) == ("items_too_long", (longest,))
    assert "of 300 items have more than 30 tokens" in problem.detail


def test_the_items_of_a_step_are_alike_in_length_and_none_is_drawn_more_often(data: Stored):
    plan, _ = planned(data, TASKS["signs"])
    task: Any = plan.task
    size, seeds = 4, plan.seeds[:2]
    steps = list(items_of_steps(task, seeds, size, range(2 * STEPS_SORTED)))
    drawn = text_items(task, "train", seeds, 0, 2 * STEPS_SORTED * size)
    for seed in range(2):
        taken = [item for made in steps for item in _tokens(made, seed)]
        assert sorted(taken) == sorted(_tokens(drawn, seed))
    widths = [made.tokens.shape[-1] for made in steps[:STEPS_SORTED]]
    assert widths != sorted(widths), "long and short steps take turns"
    unsorted = [
        text_items(task, "train", seeds, step * size, size) for step in range(2 * STEPS_SORTED)
    ]
    assert sum(made.tokens.shape[-1] for made in steps) < sum(
        made.tokens.shape[-1] for made in unsorted
    )


def _tokens(made: Items, seed: int) -> list[list[int]]:
    return [[token for token in item if token] for item in made.tokens[seed].tolist()]


def test_a_step_is_the_same_wherever_training_begins(data: Stored):
    plan, _ = planned(data, TASKS["signs"])
    whole = list(items_of_steps(plan.task, plan.seeds, 3, range(20)))
    later = list(items_of_steps(plan.task, plan.seeds, 3, range(17, 20)))
    for one, other in zip(whole[17:], later, strict=True):
        assert torch.equal(one.tokens, other.tokens)
