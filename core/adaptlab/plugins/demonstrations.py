"""Common part of the methods that put demonstrations before a question."""

import math
from abc import ABC
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape, TensorShape
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.plugins.task import Task
from adaptlab.values import AUTO, Auto

LONGEST = 4096
"""Limit in tokens of all demonstrations."""
MOST = 128
POOL = 512
"""The most training items of a seed of which the nearest are chosen."""

Separator = Annotated[str, StringConstraints(min_length=1, max_length=20)]


class Demonstrations(Method, ABC):
    """Put `demonstrations` training items with answers before questions.

    They are tokens of the content, with the positions that they have in a text, and are the same
    for all items of a replicate unless the nearest to each are chosen.
    """

    size_knob: ClassVar[str | None] = "demonstrations"
    trains: ClassVar[bool] = False
    moves_content: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    default_learning_rate: ClassVar[float] = 1e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-3)

    demonstrations: Annotated[int, Field(ge=1, le=MOST)] | Auto = 4
    """examples in front of each question"""
    choice: Literal["balanced", "random", "nearest"] = "balanced"
    """balanced: as many of each label as possible; random: whichever come"""
    separator: Separator = "\n\n"
    """text between demonstrations"""
    longest: Annotated[int, Field(ge=1, le=LONGEST)] | Auto = AUTO
    """most tokens of one demonstration; longer ones are not drawn"""

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return no tensor: nothing is trained."""
        return {}

    def extra_context_tokens(self) -> int:
        """Return the most tokens of all demonstrations.

        It is the least number, one token each, while their length depends on a task.
        """
        assert isinstance(self.demonstrations, int)
        return self.demonstrations * self._longest

    @property
    def _longest(self) -> int:
        """The most tokens of a demonstration, 1 while they depend on a task."""
        return 1 if self.longest == AUTO else self.longest

    def demonstrated(self) -> int | None:
        """Return the number of demonstrations of a resolved configuration."""
        assert isinstance(self.demonstrations, int)
        return self.demonstrations

    def is_chosen_by_item(self) -> bool:
        """Return True if every question has demonstrations of its own."""
        return self.choice == "nearest"

    def reports_tokens(self) -> bool:
        """Return True if all questions have the same demonstrations."""
        return not self.is_chosen_by_item()

    def is_sized_by(self, axis: BudgetAxis) -> bool:
        """Return True unless a budget in parameters would size what trains none."""
        return axis != PARAMETERS or self.trains

    def largest_size(self, shape: ModelShape) -> int:
        """Return the most demonstrations; without a task, the most tokens."""
        return LONGEST if self.longest == AUTO else max(1, min(MOST, LONGEST // self.longest))

    def stored_bits(self, shape: ModelShape) -> int:
        """Return the bits of the most tokens of all demonstrations."""
        return math.ceil(self.extra_context_tokens() * math.log2(shape.vocabulary))

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """Return the cost of scores and weighted sums in all layers.

        The passes of the demonstrations themselves are not included.
        """
        return 4 * self.extra_context_tokens() * shape.width * shape.layers

    def for_task(self, task: Task) -> Self:
        """Return the configuration with the longest demonstration of a task."""
        if self.longest != AUTO:
            return self
        longest = task.longest_demonstration(self.separator)
        if longest is None:
            return self
        return self.model_copy(update={"longest": min(longest, LONGEST)})

    def fitting(self, task: Task, family: Family, needed: int) -> Self:
        """Return as many demonstrations as the task and the context have room for."""
        assert isinstance(self.demonstrations, int)
        most = self._room(family, needed) // self._longest
        if (available := task.available("train")) is not None:
            most = min(most, available)
        return self.with_size(max(1, min(self.demonstrations, most)))

    def _room(self, family: Family, needed: int) -> int:
        """Return the tokens that fit before the longest item."""
        return min(family.shape().context - needed, LONGEST)

    def task_problems(self, task: Task, family: Family, needed: int) -> tuple[Problem, ...]:
        """Return the reasons why a task cannot be demonstrated to a model.

        `needed` is the context of the longest item without demonstrations.
        """
        return tuple(self._misfits(task, family, needed))

    def _misfits(self, task: Task, family: Family, needed: int) -> Iterator[Problem]:
        if task.longest_demonstration(self.separator) is None:
            detail = (
                f"{task.name} as configured has no demonstrations. Use a task on texts with label "
                "words or completions, or episodes with `shots: 0`."
            )
            yield Problem("/task", "nothing_to_demonstrate", detail)
            return
        if not family.predicts_next():
            detail = (
                f"{self.name} needs a model that continues a text, and this {family.name} reads in "
                "both directions. Use a decoder."
            )
            yield Problem("/method", "no_continuation", detail)
            return
        assert isinstance(self.demonstrations, int)
        if self.is_chosen_by_item() and task.compares_with_empty():
            detail = (
                "With an empty input no demonstrations are the nearest, so its answers calibrate "
                "nothing. Use another choice, or leave the task's calibration out."
            )
            yield Problem("/method/choice", "nearest_to_nothing", detail)
        available = task.available("train")
        if available is not None and self.demonstrations > available:
            detail = (
                f"The training split has {available:,} items, fewer than {self.demonstrations} "
                f"demonstrations. Use {available} or fewer."
            )
            nearest = (available,)
            yield Problem("/method/demonstrations", "too_few_items", detail, nearest=nearest)
        assert isinstance(self.longest, int)
        room = self._room(family, needed)
        if self.extra_context_tokens() > room:
            fitting = room // self.longest
            detail = (
                f"{self.demonstrations} demonstrations of up to {self.longest} tokens and an item "
                f"of up to {needed} do not fit into a context of {family.shape().context} tokens; "
                f"all demonstrations have at most {LONGEST:,}. "
                + (
                    f"Use {fitting} or fewer, or a lower `longest`."
                    if fitting > 0
                    else "Lower `longest` or the task's `tokens.longest`."
                )
            )
            nearest = (fitting,) if fitting > 0 else ()
            yield Problem("/method/demonstrations", "context_too_small", detail, nearest=nearest)
