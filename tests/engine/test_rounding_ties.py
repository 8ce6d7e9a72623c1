"""Decisions that rounding could turn: batches, and near ties."""

from typing import Any

import pytest
import torch
from tests.engine.text_jobs import planned, pretraining
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.model import Model

ITEMS = 30
TOLERANCE = 1e-4
"""Logits of one item in two batches differ by less, in float32."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A random model in single precision, and so with rounding."""
    data: Stored = stored(tmp_path_factory.mktemp("data"), reviews(200))
    spec: Any = pretraining(data, COMPLETION, training={"precision": "float32"})
    return planned(spec, data)[1]


def margins(model: Model, records: torch.Tensor) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Return the likeliest tokens of records, and their leads, [R, M]."""
    items = texts_of(model.plan.task).items(records.unsqueeze(0))  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        top = model.answers(items).topk(2, -1)
    leads = top.values[..., 0] - top.values[..., 1]
    return {
        int(record): (top.indices[:, place, :, 0], leads[:, place])
        for place, record in enumerate(records)
    }


def test_only_tokens_within_the_tolerance_depend_on_the_batch(model: Model) -> None:
    texts = texts_of(model.plan.task)  # pyright: ignore[reportArgumentType]
    records = texts.of_split["test"][:ITEMS]
    together, turned = margins(model, records), margins(model, records.flip(0))
    by_two = {k: v for part in records.split(2) for k, v in margins(model, part).items()}
    for record, (tokens, leads) in together.items():
        for others, other_leads in (turned[record], by_two[record]):
            count = min(tokens.shape[-1], others.shape[-1])  # padding follows the answer
            assert (leads[:, :count] - other_leads[:, :count]).abs().max() < TOLERANCE
            differs = tokens[:, :count] != others[:, :count]
            assert (leads[:, :count][differs] < TOLERANCE).all()


def test_outcomes_and_answers_are_the_same_in_any_batch(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = judged(model, model.plan.task, "test", ITEMS, 2, with_answers=True)
    for name in ("items_kept_at_once", "items_at_once"):
        monkeypatch.setattr(f"adaptlab.engine.measuring.evaluate.{name}", lambda *_: 4)
    apart = judged(model, model.plan.task, "test", ITEMS, 2, with_answers=True)
    assert torch.equal(together.right, apart.right)
    assert together.told == apart.told
