"""The question that a recommendation answers."""

from typing import Annotated

from pydantic import Field

from adaptlab.specs.spec import Budget, NamedChoice
from adaptlab.values import Name, Value

JsonObject = dict[str, object]


class RecommendationQuestion(Value):
    """A task, a base model and a budget of trainable parameters.

    `max_seconds` limits the duration of a job, which trains all of its seeds and trials. With
    `methods`, only these are considered, and of their runs only those with the given knobs. Jobs
    that other projects share are evidence only with `include_shared`.
    """

    task: NamedChoice
    base_model: Name
    budget: Budget
    max_seconds: Annotated[float, Field(gt=0, le=7 * 24 * 3600)] | None = None
    methods: Annotated[tuple[NamedChoice, ...], Field(max_length=64)] = ()
    include_shared: bool = False
