"""Small jobs on texts, and how their answers agree with their outcomes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tests.engine.making import Remembering
from tests.texts import Stored

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.initial_tensors import initial_trainables
from adaptlab.runs.events import AnswersGiven, Evaluated, ItemsShown
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec

MINIGPT: Mapping[str, Any] = {"name": "minigpt", "layers": 2, "heads": 2, "width": 16}


def pretraining(
    data: Stored, task: Mapping[str, Any], *, watched: Stored | None = None, **changes: Any
) -> Any:
    """Return a resolved pretraining on texts with two seeds, in float64."""
    known = {**data.datasets, **({} if watched is None else watched.datasets)}
    spec = {
        "name": "base",
        "family": MINIGPT,
        "task": dict(task),
        "training": {},
        "seeds": 2,
        "evaluation": {"samples": 40, "shown": 20},
        **changes,
    }
    spec["training"] = {"precision": "float64", "validations": 1, **spec["training"]}
    return resolve(PretrainSpec.model_validate(spec), None, known)


def planned(spec: Any, data: Stored) -> tuple[Plan, Model]:
    """Return the plan of a job, and its model with large random weights."""
    plan = make_plan(spec, "cpu", {}, data.source())
    generator = torch.Generator().manual_seed(5)
    tensors = {
        name: t.detach() + torch.randn(t.shape, dtype=t.dtype, generator=generator) / 2
        for name, t in initial_trainables(plan, {}).tensors.items()
    }
    return plan, Model(plan, {}, tensors)


def outcomes_of(told: Remembering, answers: AnswersGiven, items: ItemsShown) -> list[bool]:
    """Return the outcomes of the shown items of one replicate."""
    (one,) = (
        e.evaluation
        for e in told.of(Evaluated)
        if (e.evaluation.replicate, e.evaluation.attached) == (answers.replicate, answers.attached)
        and e.evaluation.task == items.task
    )
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(one.outcomes), np.uint8))
    return [bool(bit) for bit in bits[: len(answers.answers)]]


def agreements(told: Remembering) -> list[tuple[bool, bool]]:
    """For each given answer, whether it is the expected one, and its outcome."""
    shown = {event.task_place: event for event in told.of(ItemsShown)}
    return [
        (answer == item.expected, bit)
        for event in told.of(AnswersGiven)
        for answer, item, bit in zip(
            event.answers,
            shown[event.task_place].items,
            outcomes_of(told, event, shown[event.task_place]),
            strict=True,
        )
    ]
