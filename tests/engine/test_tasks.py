"""The contract of every task, over the registry, and some tasks' own."""

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch
from tests.engine.making import DIGIT_TASKS, Remembering
from tests.engine.plain_tasks import plain_answer, plain_counted, plain_draw, plain_share
from tests.engine.running import run

from adaptlab.engine.items.digits import items_of, make_items, split_of, target_rows
from adaptlab.engine.tasks.mixture import drawn_tasks
from adaptlab.plugins.task import DigitTask
from adaptlab.runs.events import AttentionCaptured, Evaluated, Split
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import Choice, PretrainSpec
from adaptlab.tasks.composition import Composition
from adaptlab.tasks.double_histogram import DoubleHistogram
from adaptlab.tasks.filter_less_than_first import FilterLessThanFirst
from adaptlab.tasks.inverse_binary import InverseBinary
from adaptlab.tasks.lookup import Lookup
from adaptlab.tasks.mixture import Mixture
from adaptlab.tasks.modulo import Modulo
from adaptlab.tasks.sort_ascending import SortAscending

SEEDS = (0, 7)
ODD = {"length": 7, "alphabet": 5, "few_distinct": False}
VARIANTS: dict[str, dict[str, object]] = {
    "odd-add": {"name": "add", "k": 5, **ODD},
    "odd-filter": {"name": "filter_less_than_first", **ODD},
    "odd-inversion": {"name": "inverse_binary", **ODD},
    "odd-histogram": {"name": "double_histogram", **ODD},
    "single-digit": {"name": "modulo", "length": 1, "alphabet": 60},
    "long-answers": {"name": "lookup", "length": 3, "answer_length": 4, "map_seed": 5},
    "unequal-weights": {"name": "mixture", "tasks": ["copy", "reverse"], "weights": [1, 6]},
    "composed-twice": {
        "name": "composition",
        "first": {"name": "composition", "first": "double_histogram", "then": {
            "name": "filter_less_than_first", "alphabet": 11}},
        "then": {"name": "sort_descending", "alphabet": 12, "few_distinct": False},
    },
    "filtered-or-not": {
        "name": "mixture", "tasks": ["filter_less_than_first", {"name": "add", "k": 2}],
    },
    "filtered-last": {
        "name": "composition", "first": "sort_descending", "then": "filter_less_than_first",
    },
    "few-words": {"name": "word_translation", "words": 300, "longest": 7, "target": "spanish"},
    "held-out-words": {
        "name": "word_translation", "words": 900, "target": "german_reversed", "held_out": True,
    },
    "languages-mixed": {
        "name": "mixture",
        "tasks": [{"name": "word_translation"}, {"name": "word_translation", "target": "spanish"}],
        "weights": [2, 1],
    },
    "words-backwards": {
        "name": "composition",
        "first": {"name": "word_translation", "words": 500, "longest": 7},
        "then": {"name": "reverse", "length": 8, "alphabet": 56},
    },
    "cued-mixture": {
        "name": "mixture",
        "tasks": [
            {"name": "cued", "task": {"name": "add", "k": 2}, "cue": 12},
            {"name": "cued", "task": "reverse", "cue": 10},
        ],
        "weights": [1, 3],
    },
    "cued-words": {"name": "cued", "task": "word_translation", "cue": 60},
    "three-permuted": {"name": "episodes", "ways": 3, "shots": 1, "labels": "permuted"},
    "fixed-labels": {"name": "episodes", "kinds": 3, "labels": "fixed", "map_seed": 4},
    "compositions-mixed": {
        "name": "mixture", "tasks": [{"name": "composition"}, "sort_then_add", "modulo"],
    },
}  # fmt: skip
every_task = pytest.mark.parametrize("name", [*DIGIT_TASKS, *VARIANTS])


def made(name: str) -> DigitTask:
    task = resolve_task(Choice.model_validate(VARIANTS.get(name, {"name": name})), "/task")
    assert isinstance(task, DigitTask)
    return task


@every_task
def test_answers_are_those_of_a_plain_solution(name: str):
    task, seeds = made(name), torch.tensor(SEEDS)
    items, asked = make_items(task, "test", seeds, 20, 100), task.input_length()
    for row, seed in enumerate(SEEDS):
        for place in range(100):
            question = items.tokens[row, place, :asked].tolist()
            expected = plain_answer(task, question, plain_draw("test", seed, 20 + place))
            assert items.targets[row, place].tolist() == expected


@every_task
def test_an_answer_counts_up_to_its_first_end_token(name: str):
    task, seeds = made(name), torch.tensor(SEEDS)
    items, asked = make_items(task, "train", seeds, 20, 100), task.input_length()
    counts: list[int] = []
    for row, seed in enumerate(SEEDS):
        for place in range(100):
            question = items.tokens[row, place, :asked].tolist()
            counts.append(plain_counted(task, question, plain_draw("train", seed, 20 + place)))
    if items.counted is None:
        assert set(counts) == {task.target_length()}
        return
    places = torch.arange(task.target_length())
    expected = places < torch.tensor(counts).view(2, 100, 1)
    assert torch.equal(items.counted, expected)
    assert 1 <= min(counts) < max(counts)


@pytest.mark.parametrize(
    "name", [name for name in [*DIGIT_TASKS, *VARIANTS] if name != "filtered-last"]
)
def test_the_counted_length_is_the_mean_of_what_counts(name: str):
    task = made(name)  # except a filter of sorted digits, as composition documents
    targets = torch.full((2, 2000), task.target_length())
    items = make_items(task, "train", torch.tensor(SEEDS), 0, 2000)
    counts = targets if items.counted is None else items.counted.sum(-1)
    assert task.counted_length() == pytest.approx(counts.double().mean().item(), rel=0.05)


@every_task
def test_lengths_and_vocabulary_are_as_declared(name: str):
    task = made(name)
    items = make_items(task, "train", torch.tensor(SEEDS), 0, 300)
    tokens, asked = items.tokens, task.input_length()
    assert tokens.shape == (2, 300, task.sequence_length())
    assert items.targets.shape == (2, 300, task.target_length())
    assert torch.equal(tokens[..., asked:], items.targets[..., :-1])
    assert target_rows(task) == slice(asked - 1, asked - 1 + task.target_length())
    assert tokens[..., :asked].max() < task.input_alphabet() <= task.vocabulary()
    assert items.targets.max() < task.answer_alphabet() <= task.vocabulary()
    assert tokens.min() >= 0
    assert items.targets.min() >= 0
    assert 0 < task.chance() < 1


PARTS: dict[Split, range] = {"train": range(5, 16), "validation": range(4, 5), "test": range(4)}


@every_task
def test_questions_keep_to_their_split(name: str):
    task = made(name)
    decisive = task.questions().decisive or task.questions().length
    for split, parts in PARTS.items():
        made_up = make_items(task, split, torch.tensor(SEEDS), 0, 100).tokens
        asked = made_up[..., : task.input_length()]
        found = set(split_of(asked[..., -decisive:]).flatten().tolist())
        assert (found <= set(parts)) == task.questions().held_out, split


@every_task
def test_an_item_is_the_same_whatever_is_made_with_it(name: str):
    task = made(name)
    whole = make_items(task, "train", torch.tensor(SEEDS), 0, 96)
    alone = make_items(task, "train", torch.tensor(SEEDS[1:]), 32, 16)
    assert torch.equal(whole.tokens[1:, 32:48], alone.tokens)
    assert torch.equal(whole.targets[1:, 32:48], alone.targets)


@every_task
def test_a_task_comes_back_from_json(name: str):
    task = made(name)
    stored = json.loads(task.model_dump_json())
    assert type(task).model_validate(stored) == task
    assert resolve_task(Choice.model_validate(stored), "/task") == task
    assert json.loads(json.dumps(type(task).model_json_schema()))["properties"]["name"]


# Worked by hand


@pytest.mark.parametrize(
    ("task", "question", "answer"),
    [
        (FilterLessThanFirst(), [5, 5, 7, 1, 0, 6, 4, 1, 5, 2], [1, 0, 4, 1, 2, 8, 8, 8, 8, 8]),
        (FilterLessThanFirst(), [0, 5, 7, 1, 0, 6, 4, 1, 5, 2], [8] * 10),
        (Modulo(), [3, 5, 7, 1, 0, 6, 4, 3, 5, 2], [0, 2, 1, 1, 0, 0, 1, 0, 2, 2]),
        (Modulo(), [0, 5, 7, 1, 0, 6, 4, 3, 5, 2], [0, 5, 7, 1, 0, 6, 4, 3, 5, 2]),
        (DoubleHistogram(), [4] * 10, [10] * 10),
        (DoubleHistogram(), [4, 4, 1, 4, 0, 1, 2, 3, 4, 7], [4, 4, 2, 4, 1, 2, 1, 1, 4, 1]),
        (InverseBinary(), [0, 1, 1, 0, 0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 1, 0, 1, 0, 0]),
        (InverseBinary(alphabet=8), [0, 1, 2, 3, 4, 5, 6, 7, 0, 0], [7, 6, 5, 4, 3, 2, 1, 0, 7, 7]),
    ],
)
def test_answers_worked_by_hand(task: DigitTask, question: list[int], answer: list[int]):
    assert items_of(task, torch.tensor([[question]])).targets.tolist() == [[answer]]


def test_the_vocabulary_holds_a_count_of_ten():
    # The published code has ten tokens, 0 to 9, and fails on ten equal digits.
    assert DoubleHistogram().vocabulary() == 11
    assert DoubleHistogram(length=3).vocabulary() == 10  # digits and their headroom


GUESSED = {"double_histogram": 10, "episodes": 2, "filter_less_than_first": 9, "inverse_binary": 2}
"""Of how many tokens a guess is one, where it is not one of eight digits."""
OF_OTHERS = ("mixture", "composition", "cued", "word_translation")


@pytest.mark.parametrize("name", [n for n in DIGIT_TASKS if n not in OF_OTHERS])
def test_chance_is_that_of_uniform_guesses(name: str):
    task, guessed = made(name), GUESSED.get(name, 8)
    assert task.chance_loss() == pytest.approx(math.log(guessed), rel=1e-12)
    if task.end_token() is None:
        assert task.chance() == pytest.approx(guessed ** -task.target_length(), rel=1e-12)


def test_chance_is_never_so_small_that_it_is_none():
    assert 0 < SortAscending(length=512, alphabet=512).chance() < 1e-300
    assert SortAscending(length=512, alphabet=512).chance_loss() == pytest.approx(math.log(512))
    assert 0 < DoubleHistogram(length=512).chance() < 1e-300


def test_the_chance_of_a_filter_is_that_of_guessing_what_counts():
    task = FilterLessThanFirst(length=4, alphabet=5)
    questions = list(product(range(5), repeat=4))
    guesses = [6.0 ** -plain_counted(task, list(question), 0) for question in questions]
    assert task.chance() == pytest.approx(sum(guesses) / len(questions), rel=1e-12)
    assert task.chance_loss() == pytest.approx(math.log(6))
    assert SortAscending().chance_loss() == pytest.approx(math.log(8))
    counted = [plain_counted(task, list(question), 0) for question in questions]
    assert task.counted_length() == pytest.approx(sum(counted) / len(questions), rel=1e-12)
    composed = Composition.model_validate({"name": "composition", "then": task})
    assert (composed.end_token(), composed.chance_loss()) == (5, task.chance_loss())


# Mixtures


def test_which_task_an_item_has_follows_the_weights():
    task = Mixture.model_validate(
        {"name": "mixture", "tasks": ["copy", "reverse", "modulo"], "weights": [1, 2, 5]}
    )
    draws = torch.tensor([plain_draw("train", 3, index) for index in range(8000)])
    chosen = drawn_tasks(task, draws)
    assert chosen.tolist() == [plain_share([1, 2, 5], draw) for draw in draws.tolist()]
    shares = [(chosen == place).double().mean().item() for place in range(3)]
    assert shares == pytest.approx([1 / 8, 1 / 4, 5 / 8], abs=0.027)  # five standard errors


def test_a_mixture_of_cued_tasks_names_the_task_of_each_item():
    task, seeds = made("cued-mixture"), torch.tensor(SEEDS)
    items = make_items(task, "test", seeds, 0, 100)
    for row, seed in enumerate(SEEDS):
        draws = [plain_draw("test", seed, place) for place in range(100)]
        cues = [(12, 10)[plain_share([1, 3], draw)] for draw in draws]
        assert items.tokens[row, :, 0].tolist() == cues
    bare = make_items(made("reverse"), "test", seeds, 0, 100)
    assert torch.equal(items.tokens[..., 1:11], bare.tokens[..., :10])


def test_given_inputs_of_a_cued_task_keep_their_cue():
    task = made("cued-words")
    assert task.written([60, 0, 1]).startswith("[60] ")
    items = items_of(made("cued"), torch.tensor([[[10, 3, 1, 2, 0, 0, 0, 0, 0, 0, 7]]]))
    assert items.tokens[0, 0, :3].tolist() == [10, 3, 1]
    assert items.targets[0, 0].tolist() == [0, 0, 0, 0, 0, 0, 1, 2, 3, 7]


def test_a_mixture_asks_what_its_tasks_ask_and_gives_no_cue():
    task, seeds = Mixture(), torch.tensor(SEEDS)
    mixed = make_items(task, "test", seeds, 0, 400)
    asked = task.input_length()
    alone = [make_items(part, "test", seeds, 0, 400) for part in task.tasks]
    for items in alone:
        assert torch.equal(items.tokens[..., :asked], mixed.tokens[..., :asked])
    right = torch.stack([(items.targets == mixed.targets).all(-1) for items in alone])
    assert bool(right.any(0).all())
    # Four equal shares of 800; sorting both ways agrees on next to no item, the sums on none.
    assert right.double().mean((1, 2)).tolist() == pytest.approx([0.25] * 4, abs=0.08)


def test_the_chance_of_a_mixture_is_the_mean_over_its_tasks():
    task = Mixture.model_validate(
        {"name": "mixture", "tasks": ["copy", "double_histogram"], "weights": [3, 1]}
    )
    assert task.chance() == pytest.approx(0.75 * 8.0**-10 + 0.25 * 1e-10, rel=1e-12)
    assert task.vocabulary() == 11
    assert [part.name for part in task.parts()] == ["copy", "double_histogram"]
    assert SortAscending().parts() == (SortAscending(),)


# Lookups


def test_a_lookup_is_one_map_in_every_split_and_another_for_another_seed():
    task = Lookup(length=2, alphabet=8, answer_length=3)
    learned: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for split in ("train", "validation", "test"):
        items = make_items(task, split, torch.tensor(SEEDS), 0, 400)
        asked, given = items.tokens[..., :2].flatten(0, 1), items.targets.flatten(0, 1)
        assert len(asked.unique(dim=0)) == 64, "nothing is held out"
        for question, answer in zip(asked.tolist(), given.tolist(), strict=True):
            learned.setdefault(tuple(question), set()).add(tuple(answer))
    assert len(learned) == 64
    assert all(len(answers) == 1 for answers in learned.values())
    questions = torch.cartesian_prod(*[torch.arange(8)] * 2).unsqueeze(0)
    here, there = (
        items_of(task.model_copy(update={"map_seed": seed}), questions).targets for seed in (0, 1)
    )
    # 192 answer tokens agree by chance with probability 1/8: 24 ± 5 standard deviations of 4.6
    assert 1 <= (here == there).sum() <= 47


# End to end


def test_an_item_of_a_mixture_is_right_when_its_own_task_is_answered(tmp_path: Path):
    small = {"length": 2, "alphabet": 6, "few_distinct": False}
    parts = [{"name": "copy", **small}, {"name": "reverse", **small}]
    mixture = {"name": "mixture", "tasks": parts, "weights": [3, 1]}
    spec = PretrainSpec.model_validate(
        {
            "name": "mixed",
            "family": {"name": "minigpt", "width": 16},
            "task": mixture,
            "training": {"steps": 150, "batch_size": 32},
            "evaluation": {"tasks": [mixture, *parts], "samples": 200},
            "capture": {"attention": {"inputs": [[3, 0], [1, 2]]}},
        }
    )
    observer = Remembering()
    run(resolve(spec, None), (), tmp_path, observer, device="cpu")
    mixed, *alone = (
        [bool(int(digit, 16) >> (3 - bit) & 1) for digit in found.outcomes for bit in range(4)][
            :200
        ]
        for found in (event.evaluation for event in observer.of(Evaluated))
    )
    chosen = [plain_share([3, 1], plain_draw("test", 0, index)) for index in range(200)]
    assert mixed == [alone[task][index] for index, task in enumerate(chosen)]
    assert 0 < sum(mixed) < 200
    (captured,) = observer.of(AttentionCaptured)
    for place, tokens in enumerate(captured.attention.tokens):
        answer = list(tokens[:2])[:: (1, -1)[chosen[place]]]
        assert tokens[2] == answer[0]
