"""What methods that learn positions have in common: a length, a start, and what they cost."""

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


class VirtualTokens(LearnedPositions, ABC):
    """Learned positions that can run through all layers like tokens.

    They start at random, with standard deviation `initial_scale`, or with `initialisation:
    vocabulary` as embeddings of tokens drawn per seed, none of them again before all are used.
    """

    initialisation: Initialisation = Field(
        default="normal",
        exclude_if=_is_default,  # so that jobs from before there was a choice keep their digests
        description=(
            "`normal` draws the rows with standard deviation `initial_scale`. `vocabulary` copies "
            "embeddings of the base model, of tokens drawn per seed without repetition while the "
            "vocabulary lasts; it has no scale, so `initial_scale` has to stay at its default and "
            "`tuning.initial_scales` are refused."
        ),
    )

    def virtual_tokens(self, shape: ModelShape) -> TensorShape:
        """The learned rows at the input; positions have no part in how they start."""
        assert isinstance(self.length, int)
        start = Initialiser("normal", self.initial_scale)
        if self.initialisation == "vocabulary":
            start = Initialiser("base_rows", source=EMBEDDING, rows=shape.vocabulary)
        return TensorShape((self.length, shape.width), start)

    def without_size(self) -> Method:
        """Also without the choice of how the rows start."""
        return super().without_size().model_copy(update={"initialisation": "normal"})

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Also a scale of rows that are copied."""
        faults = super().problems(shape)
        default: float = type(self).model_fields["initial_scale"].default
        if self.initialisation == "normal" or self.initial_scale == default:
            return faults
        scaled = Problem(
            pointer="/method/initial_scale",
            code="nothing_to_scale",
            detail=(
                "Rows that start as embeddings of tokens are copied unchanged, so an initial "
                f"scale of {self.initial_scale:g} has no effect. Leave it out."
            ),
            nearest=(default,),
        )
        return (*faults, scaled)
