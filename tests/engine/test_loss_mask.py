"""Answers of several lengths, up to their first end token.

What is behind that token is not looked at.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import (
    SMALL,
    Remembering,
    adaptation,
    base_tensors,
    items,
    perturbed,
    trainables,
)

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import ITEM_SEED, make_items
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.loss import mean_losses
from adaptlab.engine.training.passes import passes
from adaptlab.engine.training.train import Training
from adaptlab.tasks.filter_less_than_first import FilterLessThanFirst

END = 6
FILTER = {"name": "filter_less_than_first", "length": 5, "alphabet": END}


def filtering(**changes: Any) -> Plan:
    return adaptation("full_finetuning", task=FILTER, base_replicates=2, **changes)


def model_of(plan: Plan) -> Model:
    base = base_tensors(plan, 2)
    return Model(plan, base, perturbed(plan, trainables(plan, base).tensors))


def plain_losses(model: Model, made: Items, task_rows: slice) -> list[float]:
    """Return the mean loss over tokens for every replicate.

    The tokens are those up to each item's first end token, taken one by one.
    """
    scores = model.logits(made.tokens, task_rows).log_softmax(-1)
    found: list[float] = []
    for logs, answers in zip(scores, made.targets.tolist(), strict=True):
        losses: list[float] = []
        for row, answer in zip(logs, answers, strict=True):
            for place, token in enumerate(answer):
                losses.append(-row[place, token].item())
                if token == END:
                    break
        found.append(sum(losses) / len(losses))
    return found


def test_the_loss_is_the_mean_over_answers_and_one_end_token_each():
    plan = filtering()
    model, made = model_of(plan), items(plan, 40)
    found = mean_losses(model, made, plan.replicates, None)
    expected = plain_losses(model, made, target_rows(plan.task))
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    everything = Items(made.tokens, made.targets)
    other = mean_losses(model, everything, plan.replicates, None)
    assert not torch.allclose(other, found), "the filling would count"


def test_what_fills_an_answer_up_changes_nothing():
    plan = filtering()
    model, made = model_of(plan), items(plan, 40)
    assert made.counted is not None
    targets = torch.where(made.counted, made.targets, 1)
    tokens = torch.cat([made.tokens[..., :5], targets[..., :-1]], -1)
    refilled = Items(tokens, targets, made.counted)
    found, expected = (mean_losses(model, i, plan.replicates, None) for i in (refilled, made))
    assert torch.allclose(found, expected, rtol=1e-14, atol=0)


def test_a_batch_in_parts_weighs_every_counted_token_alike():
    plan = filtering(tuning={"trials": 2}, training={"precision": "float64", "batch_size": 12})
    base = base_tensors(plan, 2)
    all_of_them = trainables(plan, base)
    made = make_items(plan.task, "train", plan.seeds, 0, 12)
    assert made.counted is not None
    lengths = made.counted.sum(-1).view(2, 3, 4).sum(-1)
    assert len(lengths.unique()) > 1, "the parts differ in how much they count"
    for most in (4, 1):  # all replicates at once, and one by one
        for one in passes(plan, base, range(4), all_of_them.flat, all_of_them.decays, most)[0]:
            whole, losses = one.gradient(made, 0, 1)
            parted, sums = one.gradient(made, 0, 3)
            assert torch.allclose(parted.flat, whole.flat, rtol=0, atol=1e-12)
            assert torch.allclose(sums, losses, rtol=1e-12, atol=0)


def test_the_validation_loss_counts_the_same_tokens():
    plan = filtering()
    model = model_of(plan)
    found = judged(model, plan.task, "validation", 50, plan.replicates).loss
    assert found is not None
    made = make_items(plan.task, "validation", torch.tensor([ITEM_SEED]), 0, 50)
    repeated = made.each(lambda tensor: tensor.expand(2, -1, -1))
    expected = plain_losses(model, repeated, target_rows(plan.task))
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_the_test_loss_counts_them_too_and_stays_with_its_replicate():
    plan = filtering()
    model = model_of(plan)
    made = make_items(plan.task, "test", torch.tensor([ITEM_SEED]), 0, 50)
    repeated = made.each(lambda tensor: tensor.expand(2, -1, -1))
    expected = plain_losses(model, repeated, target_rows(plan.task))
    assert expected[0] != expected[1]
    found = judged(model, plan.task, "test", 50, plan.replicates)
    for rows, losses in (([0, 1], expected), ([1, 0], expected[::-1])):
        kept = found.rows(rows).loss
        assert kept is not None
        assert kept.tolist() == pytest.approx(losses, rel=1e-12)


class Saying:
    """A fake model: the correct digits, then `last`, then zeros."""

    def __init__(self, last: int) -> None:
        self.plan = SimpleNamespace(
            device=torch.device("cpu"), shape=SMALL.resolved(10, 20).shape()
        )
        self.context = None
        self.last = last

    def answers(self, items: Items, *, task: Any, attached: bool) -> torch.Tensor:
        said: list[list[int]] = []
        for question in items.tokens[0, :, : task.length].tolist():
            kept = [digit for digit in question if digit < question[0]]
            said.append([*kept, self.last, *[0] * task.length][: task.length])
        return torch.eye(task.vocabulary())[torch.tensor([said])]


@pytest.mark.parametrize(("last", "is_right"), [(END, True), (0, False)])
def test_an_item_is_right_with_the_answer_and_one_end_token(last: int, is_right: bool):
    model: Any = Saying(last)
    right = outcomes(model, FilterLessThanFirst.model_validate(FILTER), "test", 50, 1)
    assert right.tolist() == [[is_right] * 50]


def test_a_score_is_that_of_generating_until_an_end_token(tmp_path: Path):
    task = {**FILTER, "length": 3}
    training = {"precision": "float64", "steps": 150, "batch_size": 32, "learning_rate": 0.01}
    plan = adaptation("full_finetuning", task=task, training=training)
    base = base_tensors(plan)
    allocated = trainables(plan, base)
    model = Model(plan, base, allocated.tensors)
    Training(plan, model, allocated, Remembering()).run(tmp_path)
    right = outcomes(model, plan.task, "test", 60, 1)[0].tolist()
    made = make_items(plan.task, "test", torch.tensor([ITEM_SEED]), 0, 60)
    for place, question in enumerate(made.tokens[0, :, :3].tolist()):
        wanted = [digit for digit in question if digit < question[0]] + [END]
        assert right[place] == (generated(model, question) == wanted)
    assert 0.2 < sum(right) / 60 < 1


def generated(model: Model, question: list[int]) -> list[int]:
    """Return the tokens that the model generates.

    Each is the most likely token, until an end token or three tokens.
    """
    shown = list(question)
    while len(shown) < 6 and shown[-1] != END:
        tokens = torch.tensor([[shown]])
        shown.append(int(model.logits(tokens, slice(-1, None)).argmax()))
    return shown[3:]
