"""Common part of the methods that learn positions."""

from abc import ABC
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import AttentionClaim, LearningRates, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.values import AUTO, Auto, Value

LONGEST = 4096
EMBEDDING = "embed.weight"
LONGEST_TEXT = 20_000


class TextStart(Value):
    """The tokens of a text, repeated from its beginning until none is left."""

    text: str = Field(min_length=1, max_length=LONGEST_TEXT)


Initialisation = Literal["normal", "vocabulary"] | TextStart


def _is_default(start: Initialisation) -> bool:
    return start == "normal"


def text_start_problems(tokens: int, length: int) -> tuple[Problem, ...]:
    """Return the problem of a text with more tokens than positions, or none."""
    pointer = "/method/initialisation/text"
    if not tokens:
        detail = "The text has no tokens. Give a text that the base model's tokeniser reads."
        return (Problem(pointer, "no_tokens", detail),)
    if tokens <= length:
        return ()
    detail = (
        f"The text has {tokens:,} tokens, and the method has {length:,} learned positions. Shorten "
        f"the text, or use a length of {tokens:,}."
    )
    return (Problem(pointer, "text_too_long", detail, nearest=(tokens,)),)


class ContextPositions(Method, ABC):
    """Add `length` positions that attention reads besides the content."""

    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    size_knob: ClassVar[str | None] = "length"
    restriction: ClassVar[str] = (
        "in every layer it can only mix a few learned vectors into what attention gathers, a bias "
        "of low rank"
    )

    length: int | Auto = Field(default=AUTO)
    """learned positions; auto: from the budget"""

    def largest_size(self, shape: ModelShape) -> int:
        """Return the longest length; learned positions do not use up the context."""
        return LONGEST

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problems of the length."""
        return tuple(self._length_problems(shape))

    def _length_problems(self, shape: ModelShape) -> Iterator[Problem]:
        length, limit = self.length, self.largest_size(shape)
        if isinstance(length, int) and not 1 <= length <= limit:
            yield Problem(
                pointer="/method/length",
                code="length_out_of_range",
                detail=f"The length {length} is outside 1 to {limit}.",
                nearest=(min(max(length, 1), limit),),
            )

    def extra_context_tokens(self) -> int:
        """Return the number of learned positions."""
        assert isinstance(self.length, int)
        return self.length

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """Return the cost of scores and weighted sums in all layers."""
        return 4 * self.extra_context_tokens() * shape.width * shape.layers


class LearnedPositions(ContextPositions, ABC):
    """Learn `length` positions that attention reads besides the content.

    They start at random with standard deviation `initial_scale`, or as tokens: at the input as
    embeddings, in a layer as the activations of the base model. With `initialisation: vocabulary`
    tokens are drawn per seed, without repetition while the vocabulary lasts. With `initialisation:
    {text: …}` they are those of a text, repeated if it is shorter.
    """

    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 3.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(3e-2, (1e-3, 1.0))
    initial_scale: float = Field(default=1.0, gt=0, le=100)
    """standard deviation of the first values"""
    initialisation: Initialisation = Field(
        default="normal",
        exclude_if=_is_default,  # older jobs, which had no choice, keep their digests
        description=(
            "normal: at random; vocabulary: tokens drawn per seed; "
            '{"text": "…"}: the tokens of a text, repeated to the length'
        ),
    )

    def layer_start(self, shape: ModelShape, source: str) -> Initialiser:
        """Return the initial values of rows that attention reads at `source`."""
        if self.initialisation != "normal":
            rows, text = shape.vocabulary, self._text
            return Initialiser("token_states", source=source, rows=rows, text=text)
        return Initialiser("normal", self.initial_scale)

    def starting_texts(self) -> tuple[tuple[str, int], ...]:
        """Return the text and the length, if a text is given."""
        assert isinstance(self.length, int)
        return ((self._text, self.length),) if self._text else ()

    @property
    def _text(self) -> str:
        start = self.initialisation
        return start.text if isinstance(start, TextStart) else ""

    def is_read_by_one_layer(self, shape: ModelShape) -> bool:
        """Return True if the only attention layer reads the embeddings.

        A row learned at the input is then a row of that layer.
        """
        return [site.layer for site in shape.layer_sites("attention_input")] == [0]

    def without_size(self) -> Method:
        """Return the configuration without size, initial scale and initialisation."""
        scale = type(self).model_fields["initial_scale"].default
        start = {"initial_scale": scale, "initialisation": "normal"}
        return super().without_size().model_copy(update=start)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problems of the length, and of rows that start as tokens."""
        return (*super().problems(shape), *self._start_problems(shape))

    def _start_problems(self, shape: ModelShape) -> Iterator[Problem]:
        if self.initialisation == "normal":
            return
        if EMBEDDING not in shape.tensors:
            yield Problem(
                pointer="/method/initialisation",
                code="no_vocabulary",
                detail=(
                    f"This {shape.family} has no embeddings of tokens from which {self.name} could "
                    "start. Use `initialisation: normal`."
                ),
                allowed=("normal",),
            )
        default: float = type(self).model_fields["initial_scale"].default
        if self.initial_scale != default:
            yield Problem(
                pointer="/method/initial_scale",
                code="nothing_to_scale",
                detail=(
                    "Rows that start as tokens are copied unchanged, so an initial scale of "
                    f"{self.initial_scale:g} has no effect. Leave it out."
                ),
                nearest=(default,),
            )


class VirtualTokens(LearnedPositions, ABC):
    """Learned positions that can run through all layers like tokens."""

    def virtual_tokens(self, shape: ModelShape) -> TensorShape:
        """Return the learned rows at the input; no position codes are added."""
        assert isinstance(self.length, int)
        start = Initialiser("normal", self.initial_scale)
        if self.initialisation != "normal":
            text, scale, rows = self._text, shape.embedding_scale, shape.vocabulary
            start = Initialiser("base_rows", scale, source=EMBEDDING, rows=rows, text=text)
        return TensorShape((self.length, shape.width), start)
