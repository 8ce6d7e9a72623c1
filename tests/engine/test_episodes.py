"""Episodes: what is drawn, what is new in a test, and what is trained."""

import pytest
import torch
from tests.engine.plain_tasks import plain_answer

from adaptlab.engine.items.digits import items_of, make_items, split_of
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.engine.tasks.episodes import fixed_pairs
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.splits import EVERY_SPLIT
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice
from adaptlab.tasks.episodes import Episodes

SEEDS = torch.tensor([0, 7])
COUNT = 600


def shown(task: Episodes, items: Items) -> torch.Tensor:
    """Return the demonstrations of items, [..., D, tokens of one]."""
    asked = items.tokens[..., : -task.phrase - 1]
    return asked.unflatten(-1, (task.demonstrations, task.demonstration_length))


def test_an_episode_is_phrases_of_one_class_with_its_label():
    task = Episodes(ways=3, shots=2, phrase=3)
    items = make_items(task, "test", SEEDS, 0, COUNT)
    parts = shown(task, items)
    kinds = parts[..., :3] // task.words
    assert bool((kinds == kinds[..., :1]).all()), "words of one class"
    assert bool((parts[..., 3] == task.separator).all())
    assert bool((parts[..., 5] == task.line_break).all())
    for told, classes in zip(
        parts[..., 4].flatten(0, 1).tolist(), kinds[..., 0].flatten(0, 1).tolist(), strict=True
    ):
        pairs = set(zip(classes, told, strict=True))
        assert len(pairs) == len({kind for kind, _ in pairs}) == len({t for _, t in pairs}) == 3
        assert sorted(classes.count(kind) for kind in set(classes)) == [2, 2, 2]


def test_no_phrase_of_a_scored_query_is_seen_in_training():
    task = Episodes(kinds=3)
    asked = {
        split: make_items(task, split, SEEDS, 0, COUNT).tokens[..., -task.phrase - 1 :]
        for split in EVERY_SPLIT
    }
    for split in EVERY_SPLIT:
        parts = shown(task, make_items(task, split, SEEDS, 0, COUNT))
        hashes = split_of(parts[..., : task.phrase + 1])
        assert int(hashes.min()) >= 5, "demonstrations are training phrases"
    trained = {tuple(row) for row in asked["train"].flatten(0, 1).tolist()}
    for split in ("validation", "test"):
        assert not trained & {tuple(row) for row in asked[split].flatten(0, 1).tolist()}


def test_permuted_labels_change_the_labels_of_demonstrations_alone():
    random = make_items(Episodes(), "test", SEEDS, 0, COUNT)
    permuted = make_items(Episodes(labels="permuted"), "test", SEEDS, 0, COUNT)
    label = torch.zeros(random.tokens.shape[-1], dtype=torch.bool)
    label[list(Episodes().also_trained())] = True
    assert torch.equal(random.tokens[..., ~label], permuted.tokens[..., ~label])
    ordered, shuffled = random.tokens[..., label], permuted.tokens[..., label]
    assert torch.equal(ordered.sort(-1).values, shuffled.sort(-1).values)
    # The answer agrees with what the demonstrations of the query's class say in half of them.
    told = torch.tensor(
        [[plain_answer(Episodes(), row, 0) for row in rows] for rows in permuted.tokens.tolist()]
    )
    agrees = (told == permuted.targets).double().mean().item()
    assert agrees == pytest.approx(0.5, abs=0.07)  # five standard errors of 1,200


def test_natural_labels_are_for_the_first_training_items():
    task = Episodes(natural_share=0.5, natural_items=COUNT)

    def natural(split: str, first: int) -> float:
        items = make_items(task, split, SEEDS, first, COUNT)  # pyright: ignore[reportArgumentType]
        label = items.targets[..., 0] - task.first_label
        return (label == items.tokens[..., -2] // task.words).double().mean().item()

    # Of the others one in eight has it by chance.
    assert natural("train", 0) == pytest.approx(0.5 + 0.5 / 8, abs=0.08)
    assert natural("train", COUNT) == pytest.approx(1 / 8, abs=0.05)
    assert natural("test", 0) == pytest.approx(1 / 8, abs=0.05)


def test_all_labels_are_trained_and_the_last_is_scored():
    task = Episodes()
    plain = make_items(task, "train", SEEDS, 64, 32)
    (_, trained) = items_of_steps(task, SEEDS, 32, range(1, 3))
    (first, _) = items_of_steps(task, SEEDS, 64, range(1, 3))
    assert torch.equal(first.tokens[:, :32], plain.tokens)
    assert trained.targets.shape == (2, 32, task.demonstrations + 1)
    assert trained.answer_rows is not None
    rows = trained.answer_rows + trained.first
    assert torch.equal(first.targets[..., -1:], make_items(task, "train", SEEDS, 64, 64).targets)
    # A row predicts the token after it.
    read = trained.tokens.gather(-1, (rows + 1).clamp(max=trained.tokens.shape[-1] - 1))
    assert torch.equal(read[..., :-1], trained.targets[..., :-1])
    assert rows[0, 0].tolist() == [2, 7, 12, 17, 22]
    assert int(trained.answer_rows.max()) < trained.length


def test_a_query_alone_has_one_of_the_fixed_labels():
    task = Episodes(shots=0, labels="fixed", map_seed=3)
    items = make_items(task, "test", SEEDS, 0, COUNT)
    assert items.tokens.shape == (2, COUNT, task.phrase + 1)
    kinds, labels = fixed_pairs(task, SEEDS.device)
    pairs = dict(zip(kinds.tolist(), labels.tolist(), strict=True))
    asked = (items.tokens[..., 0] // task.words).flatten().tolist()
    assert [pairs[kind] for kind in asked] == items.targets.flatten().tolist()
    assert set(asked) == set(pairs)
    again = make_items(task.model_copy(update={"shots": 2}), "train", SEEDS, 0, 50)
    assert set(again.targets.flatten().tolist()) == set(pairs.values())


def test_tokens_are_written_as_words_and_labels():
    task = Episodes(kinds=2, words=16, phrase=2)
    episode = [3, 4, 34, 33, 35, 17, 16, 34]
    assert task.written(episode) == "0.3 0.4 → L1 ↵ 1.1 1.0 →"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"ways": 9}, "too_many_ways"),
        ({"shots": 0}, "nothing_defines_labels"),
        ({"words": 4}, "too_few_phrases"),
    ],
)
def test_a_task_that_cannot_be_asked_is_refused(options: dict[str, object], code: str):
    with pytest.raises(InvalidSpec) as refused:
        resolve_task(Choice.model_validate({"name": "episodes", **options}), "/task")
    (problem,) = refused.value.problems
    assert problem.code == code
    nearest = {**options, problem.pointer.removeprefix("/task/"): problem.nearest[0]}
    resolve_task(Choice.model_validate({"name": "episodes", **nearest}), "/task")


def test_an_input_without_a_demonstration_of_its_class_is_refused():
    task = Episodes(kinds=3, shots=1)
    asked = [0, 1, 51, 48, 52, 16, 17, 51, 49, 52, 32, 33, 51]
    with pytest.raises(InvalidSpec, match="No demonstration"):
        items_of(task, torch.tensor([[asked]]))
    answered = items_of(task, torch.tensor([[[*asked[:-3], 2, 3, 51]]]))
    assert answered.targets.tolist() == [[[48]]]
