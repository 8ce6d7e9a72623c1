"""Held-out items that were made before are those that would be made now."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import SMALL

from adaptlab.engine.items import task_items
from adaptlab.engine.items.digits import make_items
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import ITEM_SEED
from adaptlab.engine.measuring import evaluate
from adaptlab.runs.events import Split
from adaptlab.tasks.add import Add
from adaptlab.tasks.copy import Copy

ITEMS = 7
TASK = Add(name="add", k=1, length=9)


class Watching:
    """In a model's place: remembers what it is shown and always answers 0."""

    def __init__(self) -> None:
        self.plan = SimpleNamespace(
            device=torch.device("cpu"), shape=SMALL.resolved(10, 20).shape()
        )
        self.context = None
        self.shown = torch.empty(0)

    def answers(self, items: Items, *, task: Add, attached: bool) -> torch.Tensor:
        self.shown = items.tokens
        return torch.eye(task.vocabulary())[torch.zeros_like(items.targets)]


def test_each_task_and_split_has_its_own_items_the_second_time_too(
    monkeypatch: pytest.MonkeyPatch,
):
    task_items._held_out.cache_clear()  # whatever was asked for in this process before
    made: list[object] = []

    def noting(task: Add, split: Split, *rest: Any):
        made.append((task, split))
        return make_items(task, split, *rest)

    monkeypatch.setattr(task_items.digits, "make_items", noting)
    one, two = TASK, Add(name="add", k=2, length=9)
    wanted: list[tuple[Add, Split]] = [(one, "test"), (two, "test"), (one, "validation")]
    for task, split in (*wanted, *wanted):
        model: Any = Watching()
        right = outcomes(model, task, split, ITEMS, 1)
        fresh = make_items(task, split, torch.tensor([ITEM_SEED]), 0, ITEMS)
        assert torch.equal(model.shown, fresh.tokens)
        assert torch.equal(right, (fresh.targets == 0).all(-1))
    assert made == wanted  # the second time nothing was made


def test_scores_do_not_depend_on_the_items_of_a_pass(monkeypatch: pytest.MonkeyPatch):
    model: Any = Watching()
    short: Any = Copy(name="copy", length=3, alphabet=2)
    whole = outcomes(model, short, "test", 64, 1)
    assert 0 < whole.sum() < 64
    assert len(model.shown[0]) == 64
    monkeypatch.setattr(evaluate, "items_at_once", lambda *_: 21)
    divided = outcomes(model, short, "test", 64, 1)
    assert len(model.shown[0]) == 1, "the last of 64"
    assert torch.equal(divided, whole)
