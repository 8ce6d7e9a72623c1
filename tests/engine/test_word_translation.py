"""Words as items, and a run that learns to spell them.

Tests cover which words are asked in which split.
"""

from pathlib import Path

import pytest
import torch
from tests.engine.making import Remembering
from tests.engine.running import run

from adaptlab.engine.items.digits import items_of, make_items
from adaptlab.errors import BadDataset, InvalidSpec
from adaptlab.plugins.dataset import Triple, content_of, word_list
from adaptlab.plugins.task import DigitTask
from adaptlab.runs.events import Evaluated, Split
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import Choice, PretrainSpec

FEW = {"name": "word_translation", "words": 12, "longest": 6}
ANIMALS = word_list(
    [
        Triple("ant", "Ameise", "hormiga"),
        Triple("cat", "Katze", "gato"),
        Triple("dog", "Hund", "perro"),
        Triple("hen", "Henne", "gallina"),
    ]
)


def made(**knobs: object) -> DigitTask:
    task = resolve_task(Choice.model_validate({**FEW, **knobs}), "/task")
    assert isinstance(task, DigitTask)
    return task


def asked(task: DigitTask, split: Split, first: int, count: int, seed: int = 0) -> list[tuple[int]]:
    items = make_items(task, split, torch.tensor([seed]), first, count)
    return [tuple(row) for row in items.tokens[0, :, : task.input_length()].tolist()]


@pytest.mark.parametrize("split", ["validation", "test"])
def test_scored_items_have_every_word_once_before_any_twice(split: Split):
    task = made(words=100, longest=9)
    once = asked(task, split, 0, 100)
    assert len(set(once)) == 100
    assert asked(task, split, 100, 130) == [*once, *once[:30]]
    assert asked(task, split, 0, 10, seed=7) == once[:10]


def test_trained_items_are_drawn_from_the_same_words():
    task = made(words=100, longest=9)
    drawn = asked(task, "train", 0, 2000)
    assert set(drawn) == set(asked(task, "test", 0, 100))
    counts = [drawn.count(word) for word in set(drawn)]
    assert max(counts) < 20 + 5 * 20**0.5, "evenly: five standard deviations of 20 each"
    assert drawn != asked(task, "train", 0, 2000, seed=1)


def test_held_out_words_are_each_of_one_split():
    task = made(words=400, longest=9, held_out=True)
    splits: tuple[Split, ...] = ("train", "validation", "test")
    words = {split: set(asked(task, split, 0, 4000)) for split in splits}
    assert len(words["train"] | words["validation"] | words["test"]) == 400
    assert sum(map(len, words.values())) == 400
    assert len(words["train"]) == pytest.approx(400 * 11 / 16, abs=46)  # five standard deviations
    assert words["train"] | words["validation"] | words["test"] == set(
        asked(made(words=400, longest=9), "test", 0, 400)
    )


def test_a_split_without_words_is_refused_with_the_number_that_has_some():
    with pytest.raises(InvalidSpec) as refused:
        made(words=2, held_out=True)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == ("/task/words", "empty_split")
    (nearest,) = problem.nearest
    assert isinstance(nearest, int)
    splits: tuple[Split, ...] = ("train", "validation", "test")
    enough = made(words=nearest, held_out=True)
    assert len({word for split in splits for word in asked(enough, split, 0, 200)}) == nearest
    fewer = enough.model_copy(update={"words": nearest - 1})
    with pytest.raises(InvalidSpec, match="Use longer inputs or more"):
        [asked(fewer, split, 0, 1) for split in splits]


def test_words_too_short_for_every_split_are_refused_at_their_length():
    with pytest.raises(InvalidSpec, match="Use longer words") as refused:
        made(words=None, longest=5, held_out=True)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.nearest) == ("/task/longest", (6,))
    assert made(words=None, longest=6, held_out=True)
    every = made(words=None, longest=5).model_copy(update={"held_out": True})
    with pytest.raises(InvalidSpec, match="Use longer inputs or more"):
        [asked(every, split, 0, 1) for split in ("train", "validation", "test")]


def test_words_that_a_server_has_no_list_of_are_refused_as_items_are_made():
    animals = ANIMALS.facts("animals", "imported")
    knobs = {"name": "word_translation", "dataset": "animals", "words": 2, "held_out": True}
    task = resolve_task(Choice.model_validate(knobs), "/task", {"animals": animals})
    task = task.with_words({ANIMALS.digest: ANIMALS})
    assert isinstance(task, DigitTask)
    with pytest.raises(InvalidSpec, match="Use longer inputs or more"):
        [asked(task, split, 0, 1) for split in ("train", "validation", "test")]


def test_only_words_of_the_list_are_answered():
    task = made()
    words = torch.tensor([asked(task, "test", 0, 12)])
    assert torch.equal(
        items_of(task, words).targets, make_items(task, "test", torch.tensor([0]), 0, 12).targets
    )
    changed = words.clone()
    changed[0, 3, 0] = (changed[0, 3, 0] + 1) % 20
    with pytest.raises(InvalidSpec, match="12 words"):
        items_of(task, changed)


def spec(task: object, **knobs: object) -> PretrainSpec:
    return PretrainSpec.model_validate(
        {
            "name": "base",
            "family": {"name": "minigpt", "width": 48},
            "task": task,
            "training": {"steps": 200, "batch_size": 24, "learning_rate": 5e-3, "validations": 1},
            "evaluation": {"samples": 24},
            **knobs,
        }
    )


def test_a_model_remembers_words_to_their_end(tmp_path: Path):
    observer = Remembering()
    tasks = [FEW, {**FEW, "target": "german_reversed"}]
    asked_for = spec(FEW, evaluation={"tasks": tasks, "samples": 24})
    run(resolve(asked_for, None), (), tmp_path, observer, device="cpu")
    own, backwards = (event.evaluation for event in observer.of(Evaluated))
    assert own.correct >= 22, "twelve words, twice each"
    assert backwards.correct == 0


def test_two_languages_without_a_cue_are_learned_by_halves(tmp_path: Path):
    observer = Remembering()
    parts = [FEW, {**FEW, "target": "spanish"}]
    mixture = {"name": "mixture", "tasks": parts}
    asked_for = spec(mixture, evaluation={"tasks": parts, "samples": 12})
    run(resolve(asked_for, None), (), tmp_path, observer, device="cpu")
    german, spanish = (event.evaluation for event in observer.of(Evaluated))
    # A greedy answer is one word: whichever of the two it is, it is not the other.
    assert german.correct + spanish.correct <= 12
    assert german.correct + spanish.correct >= 8


def test_the_words_of_a_dataset_come_from_its_file(tmp_path: Path):
    known = {"animals": ANIMALS.facts("animals", "imported")}
    task = {"name": "word_translation", "dataset": "animals"}
    resolved = resolve(spec(task), None, known)
    file = tmp_path / "words.jsonl"
    file.write_bytes(content_of(ANIMALS.triples))
    observer = Remembering()
    run(resolved, (), tmp_path, observer, device="cpu", datasets=(file,))
    (found,) = (event.evaluation for event in observer.of(Evaluated))
    assert found.correct >= 22
    with pytest.raises(BadDataset, match="animals"):
        run(resolved, (), tmp_path, Remembering(), device="cpu")
    other = tmp_path / "other.jsonl"
    other.write_bytes(content_of(ANIMALS.triples[:3]))
    with pytest.raises(BadDataset, match="animals"):
        run(resolved, (), tmp_path, Remembering(), device="cpu", datasets=(other,))
    other.write_bytes(content_of(reversed(ANIMALS.triples)))
    with pytest.raises(BadDataset, match="animals"):
        run(resolved, (), tmp_path, Remembering(), device="cpu", datasets=(other,))
