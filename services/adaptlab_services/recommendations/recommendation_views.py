"""Recommendations as everybody sees them: what to use, on what evidence, what would settle it."""

from typing import Annotated

from pydantic import Field

from adaptlab.specs.spec import Budget, NamedChoice
from adaptlab.values import Name, Value

JsonObject = dict[str, object]


class RecommendationQuestion(Value):
    """Which method for a task and a base model, within a budget of trainable parameters?

    `max_seconds` is the longest that a job may have taken, which trains all of its seeds and
    trials. With `methods` only these are considered, and of them only runs with the knobs given.
    """

    task: NamedChoice
    base_model: Name
    budget: Budget
    max_seconds: Annotated[float, Field(gt=0, le=7 * 24 * 3600)] | None = None
    methods: Annotated[tuple[NamedChoice, ...], Field(max_length=64)] = ()
