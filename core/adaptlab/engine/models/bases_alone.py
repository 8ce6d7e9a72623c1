"""The base models of replicates, without what was trained."""

from collections.abc import Sequence
from dataclasses import replace

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.runs.events import ReplicateResult


def bases_alone(model: Model, chosen: Sequence[ReplicateResult]) -> tuple[Model, list[int]]:
    """Return the bases alone, each once, and the place of every row's base."""
    started_from = bases_of(model.plan, chosen)
    bases = list(dict.fromkeys(started_from))
    first = [started_from.index(base) for base in bases]
    alone = replace(
        model,
        base={name: t if t.shape[0] == 1 else t[first] for name, t in model.base.items()},
        trained={},
    )
    return alone, [bases.index(base) for base in started_from]


def bases_of(plan: Plan, chosen: Sequence[ReplicateResult]) -> list[int]:
    """Return the replicate of the base that every row started from."""
    return [plan.spec.base_replicates[result.replicate // plan.trials] for result in chosen]
