"""Searches for tokens on a random base of two layers and two replicates."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.engine.making import Remembering, base_tensors, trainables
from tests.engine.tiny import adapting, pretraining
from torch import Tensor

from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.loss import mean_losses
from adaptlab.engine.training.train import Training
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import Trial

TRAINING = {"precision": "float64", "steps": 9, "batch_size": 8, "validations": 0}


def plan_of(method: dict[str, Any], **changes: Any) -> Plan:
    """A plan on a random base of two layers."""
    facts = BaseModelFacts(
        name="tiny",
        digest="0" * 64,
        family=resolve(pretraining(), None).family,
        task=resolve(pretraining(), None).task,
        replicates=2,
    )
    spec = adapting(method, **{"training": TRAINING, "seeds": 2, **changes})
    return make_plan(resolve(spec, facts), "cpu")


def at_rates(plan: Plan, *rates: float) -> Plan:
    """The plan with other rates, larger than the spec's limit.

    The loss of a random base changes little from one token to the next.
    """
    assert isinstance(plan.spec, ResolvedAdapt)
    trials = tuple(Trial(learning_rate=rate, weight_decay=0) for rate in rates)
    training = plan.training.model_copy(update={"trials": trials})
    return replace(plan, spec=plan.spec.model_copy(update={"training": training}))


def searched(plan: Plan, folder: Path) -> tuple[dict[str, Tensor], Tensor]:
    """The base's weights, and the rows [R, P, C] at the end of a search."""
    base = base_tensors(plan, groups=2)
    found = trainables(plan, base)
    Training(plan, Model(plan, base, found.tensors), found, Remembering()).run(folder)
    return base, found.flat.unflatten(1, (2, -1)).detach()


def losses_of(plan: Plan, base: dict[str, Tensor], rows: Tensor, step: int) -> Tensor:
    """The losses [R] of prompts on the items of a step, without any search."""
    (items,) = items_of_steps(plan.task, plan.seeds, 8, range(step, step + 1))
    return mean_losses(Model(plan, base, {PROMPT: rows}), items, plan.replicates, None)
