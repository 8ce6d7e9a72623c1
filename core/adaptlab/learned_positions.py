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
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 3.0)
    restriction: ClassVar[str] = (
        "in every layer it can only mix a few learned vectors into what attention gathers, a bias "
        "of low rank, so that rank, depth and size may be too small"
    )

    length: int | Auto = Field(default=AUTO)
    initial_scale: float = Field(default=1.0, gt=0, le=100)

    def is_read_by_one_layer(self, shape: ModelShape) -> bool:
        """Return True if the only attention of the model reads the embeddings themselves.

        A row that is learned at the input is then a row of that layer.
        """
        return [site.layer for site in shape.layer_sites("attention_input")] == [0]

    def without_size(self) -> Method:
        """Also without the scale at which the rows start."""
        scale = type(self).model_fields["initial_scale"].default
        return super().without_size().model_copy(update={"initial_scale": scale})

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
