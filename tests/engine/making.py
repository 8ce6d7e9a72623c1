"""Small models in float64, and an observer that remembers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import torch

from adaptlab.engine.allocate import Trainables, allocate
from adaptlab.engine.digits import Items, make_items
from adaptlab.engine.plan import Plan, make_plan
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.families.minigpt import MiniGPT
from adaptlab.family import Family
from adaptlab.method import METHODS, Method
from adaptlab.resolve import BaseModelFacts, resolve
from adaptlab.results import Event
from adaptlab.spec import AdaptSpec

E = TypeVar("E")

SMALL = MiniGPT(layers=2, heads=2, width=12)
SMALL_OF_EACH: dict[str, Family] = {
    "minigpt": SMALL,
    "gpt2": GPT2(layers=2, heads=2, width=12, hidden=20),
    "llama": Llama(
        layers=2,
        heads=2,
        key_value_heads=1,
        width=12,
        head_size=8,
        hidden=16,
        attention_biases="qkv",
    ),
}
TINY_OF_EACH: dict[str, Family] = {
    "minigpt": MiniGPT(layers=2, heads=2, width=4),
    "gpt2": GPT2(layers=2, heads=2, width=4, hidden=6),
    "llama": Llama(
        layers=2,
        heads=2,
        key_value_heads=1,
        width=4,
        head_size=4,
        hidden=6,
        attention_biases="qkv",
        tied_head=True,
    ),
}


class Remembering:
    """An observer for tests: keeps every event and can ask to stop."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.events: list[Event] = []
        self.stop_after = stop_after

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def should_stop(self) -> bool:
        steps = sum(event.event == "progress" for event in self.events)
        return self.stop_after is not None and steps >= self.stop_after

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


def adaptation(
    method: str | dict[str, object],
    budget: int | None = None,
    *,
    family: Family = SMALL,
    base_replicates: int = 1,
    **changes: object,
) -> Plan:
    """The plan of an adaptation of a small base to `sort_descending` of five digits."""
    task = {"name": "sort_descending", "length": 5, "alphabet": 6}
    spec = AdaptSpec.model_validate(
        {
            "base_model": "base",
            "task": task,
            "method": method,
            "budget": {"trainable_parameters": budget},
            "training": {"precision": "float64", "steps": 4, "batch_size": 3},
            **changes,
        }
    )
    facts = BaseModelFacts(
        name="base",
        digest="0" * 64,
        family=family.resolved(8, 9).model_dump(mode="json"),
        task=task,
        replicates=base_replicates,
    )
    return make_plan(resolve(spec, facts), "cpu")


def sized(name: str) -> Method:
    """A method at a size that leaves something to check: two of whatever it counts."""
    method = METHODS.get(name)(name=name)
    return method.with_size(2)


def base_tensors(plan: Plan, groups: int = 1) -> dict[str, torch.Tensor]:
    """Random base weights [G, ...], larger than at the start of training so that all matters."""
    generator = torch.Generator().manual_seed(5)
    return {
        name: torch.randn(groups, *tensor.shape, dtype=plan.dtype, generator=generator) * 0.3
        for name, tensor in plan.shape.tensors.items()
    }


def trainables(plan: Plan, base: dict[str, torch.Tensor]) -> Trainables:
    return allocate(plan.trained_shapes, plan.replicate_seeds, base, plan.dtype)


def perturbed(plan: Plan, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The trained tensors moved by noise, so that nothing is zero by its initialisation."""
    generator = torch.Generator().manual_seed(9)
    return {
        name: t.detach() + 0.3 * torch.randn(t.shape, dtype=plan.dtype, generator=generator)
        for name, t in tensors.items()
    }


def items(plan: Plan, count: int = 3) -> Items:
    """Some items for every replicate of the plan."""
    found = make_items(plan.task, "train", plan.seeds, 0, count)
    return Items(
        found.tokens.repeat_interleave(plan.trials, 0),
        found.targets.repeat_interleave(plan.trials, 0),
    )


def single(plan: Plan, replicate: int) -> Plan:
    """The plan of one replicate alone."""
    seed, trial = divmod(replicate, plan.trials)
    training = plan.spec.training
    rates = (training.learning_rates[trial],)
    spec = plan.spec.model_copy(
        update={
            "seeds": (plan.spec.seeds[seed],),
            "base_replicates": (plan.spec.base_replicates[seed],),
            "training": training.model_copy(update={"learning_rates": rates}),
        }
    )
    return replace(plan, spec=spec)
