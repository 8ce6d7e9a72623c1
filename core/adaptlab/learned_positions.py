"""What methods that learn positions have in common: a length, a start, and what they cost."""

from abc import ABC
from typing import ClassVar

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.method import AttentionClaim, Method
from adaptlab.shapes import ModelShape
from adaptlab.values import AUTO, Auto

LONGEST = 4096


class LearnedPositions(Method, ABC):
    """Learn `length` positions that attention reads beside the content, drawn from a normal law."""

    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    size_knob: ClassVar[str | None] = "length"
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-1)

    length: int | Auto = Field(default=AUTO)
    initial_scale: float = Field(default=1.0, gt=0, le=100)

    def largest_size(self, shape: ModelShape) -> int:
        """A limit on sense, not on the model: learned positions take none of its context."""
        return LONGEST

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """A length outside 1 to the longest."""
        length, limit = self.length, self.largest_size(shape)
        if not isinstance(length, int) or 1 <= length <= limit:
            return ()
        return (
            Problem(
                pointer="/method/length",
                code="length_out_of_range",
                detail=f"The length {length} is outside 1 to {limit}.",
                nearest=(min(max(length, 1), limit),),
            ),
        )

    def extra_context_tokens(self) -> int:
        """As many as are learned."""
        assert isinstance(self.length, int)
        return self.length

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """A score and a weighted sum for every learned position and layer."""
        return 4 * self.extra_context_tokens() * shape.width * shape.layers
