"""Common part of the methods that learn positions."""

from abc import ABC
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import AttentionClaim, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.values import AUTO, Auto

LONGEST = 4096
EMBEDDING = "embed.weight"
Initialisation = Literal["normal", "vocabulary"]


def _is_default(start: Initialisation) -> bool:
    return start == "normal"


class LearnedPositions(Method, ABC):
    """Learn `length` positions that attention reads besides the content.

    Their initial values are drawn from a normal distribution.
    """

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
        """Return True if the only attention layer reads the embeddings.

        A row learned at the input is then a row of that layer.
        """
        return [site.layer for site in shape.layer_sites("attention_input")] == [0]

    def without_size(self) -> Method:
        """Return the configuration without size and initial scale."""
        scale = type(self).model_fields["initial_scale"].default
        return super().without_size().model_copy(update={"initial_scale": scale})

    def largest_size(self, shape: ModelShape) -> int:
        """Return the longest length; learned positions do not use up the context."""
        return LONGEST

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problem of a length outside 1 to the longest."""
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
        """Return the number of learned positions."""
        assert isinstance(self.length, int)
        return self.length

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """Return the cost of scores and weighted sums in all layers."""
        return 4 * self.extra_context_tokens() * shape.width * shape.layers


class VirtualTokens(LearnedPositions, ABC):
    """Learned positions that can run through all layers like tokens.

    They start at random with standard deviation `initial_scale`, or with `initialisation:
    vocabulary` as embeddings of tokens. Tokens are drawn per seed, without repetition while the
    vocabulary lasts.
    """

    initialisation: Initialisation = Field(
        default="normal",
        exclude_if=_is_default,  # older jobs, which had no choice, keep their digests
        description=(
            "`normal` draws the rows with standard deviation `initial_scale`. `vocabulary` copies "
            "the base model's embeddings of tokens drawn per seed, without repetition while the "
            "vocabulary lasts. Copied rows have no scale: leave `initial_scale` at its default and "
            "`tuning.initial_scales` empty."
        ),
    )

    def virtual_tokens(self, shape: ModelShape) -> TensorShape:
        """Return the learned rows at the input; no position codes are added."""
        assert isinstance(self.length, int)
        start = Initialiser("normal", self.initial_scale)
        if self.initialisation == "vocabulary":
            start = Initialiser("base_rows", source=EMBEDDING, rows=shape.vocabulary)
        return TensorShape((self.length, shape.width), start)

    def without_size(self) -> Method:
        """Return the configuration without size, initial scale and initialisation."""
        return super().without_size().model_copy(update={"initialisation": "normal"})

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problems of the length and of a scale for copied rows."""
        problems = super().problems(shape)
        default: float = type(self).model_fields["initial_scale"].default
        if self.initialisation == "normal" or self.initial_scale == default:
            return problems
        scaled = Problem(
            pointer="/method/initial_scale",
            code="nothing_to_scale",
            detail=(
                "Rows that start as embeddings of tokens are copied unchanged, so an initial "
                f"scale of {self.initial_scale:g} has no effect. Leave it out."
            ),
            nearest=(default,),
        )
        return (*problems, scaled)
