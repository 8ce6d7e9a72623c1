"""Declaration of a model family without torch: options, sites and tensors."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Self

from adaptlab.errors import Problem
from adaptlab.plugins.described_fields import DescribedFields
from adaptlab.plugins.images import ImageSize
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.shapes import ModelShape
from adaptlab.values import PluginName


class Family(DescribedFields, ABC):
    """A family of base models; its fields are the options of a spec."""

    title: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    default_learning_rate: ClassVar[float]
    default_weight_decay: ClassVar[float]

    name: PluginName

    @abstractmethod
    def resolved(self, vocabulary: int, context: int) -> Self:
        """Return the configuration with every `auto` filled in.

        Args:
            vocabulary: tokens that the tasks need.
            context: positions that the tasks need.
        """

    @abstractmethod
    def shape(self) -> ModelShape:
        """Return dimensions, sites and tensors of a resolved configuration."""

    def shape_with_classes(self, classes: int) -> ModelShape:
        """Return the shape with a head for classes in place of the model's own."""
        return self.shape().with_classes(classes)

    def problems(self) -> tuple[Problem, ...]:
        """Return the errors of the configuration, with pointers below `/family`."""
        return ()

    def predicts_tokens(self) -> bool:
        """Return True if the model has a head of its own, which predicts tokens."""
        return True

    def can_classify(self) -> bool:
        """Return True if a head for classes can take the place of the model's own.

        Items differ in length, so the model must leave out what comes behind a shorter one.
        """
        return not self.fills_in()

    def fills_in(self) -> bool:
        """Return True if answer tokens are masked at the input.

        That is so where every position attends to all others. The model reads `mask_token()` and
        answers all positions at once.
        """
        return False

    def predicts_next(self) -> bool:
        """Return True if the model predicts the token after those it has read."""
        return self.predicts_tokens() and not self.fills_in()

    def attends_to_all(self) -> bool:
        """Return True if every position attends to all others."""
        return self.fills_in()

    def padding_problem(self, code: str) -> Problem | None:
        """Return the problem of a model that cannot leave out padding."""
        if self.can_classify():
            return None
        detail = (
            f"This {self.name} attends to all positions, and would also attend to what comes "
            "behind a shorter text. Use a causal model or an imported encoder."
        )
        return Problem("", code, detail)

    def attends_twice(self) -> bool:
        """Return True if two attention layers follow each other directly."""
        return False

    def mask_token(self) -> int:
        """Return the id of the mask.

        By default it is the size of the vocabulary, which no token has.
        """
        return self.shape().vocabulary

    def mask(self) -> int | None:
        """Return the id of the mask, None if the model fills none in."""
        return self.mask_token() if self.fills_in() else None

    def predicts_in_place(self) -> bool:
        """Return True if logits are of a position's own token, not the next.

        The content is then one position longer: the last answer token has one as well.
        """
        return False

    def image(self) -> ImageSize | None:
        """Return the size of the images that the model reads.

        The result is None if it reads tokens.
        """
        return None

    def patches(self) -> tuple[int, int]:
        """Return the rows and columns of patches of an image.

        They are the content positions after the first, row by row.
        """
        return (0, 0)

    def places_learned(self) -> bool:
        """Return True if learned positions stand in every item's sequence.

        They then cost as much as tokens; otherwise attention alone reads them.
        """
        return False

    def positions_of(self, tokens: int) -> int:
        """Return the number of content positions that some tokens take."""
        return tokens

    def content_length(self, sequence_length: int) -> int:
        """Return the number of content positions of an item.

        The item is one of a task with `sequence_length`.
        """
        return self.positions_of(sequence_length) + self.predicts_in_place()

    def answer_start(self, input_length: int) -> int:
        """Return the position that produces the first answer token."""
        return input_length - 1 + self.predicts_in_place()

    def positions_before_content(self) -> int:
        """Return the number of visible pad positions before the content."""
        return 0


FAMILIES: Registry[type[Family]] = Registry("family", "adaptlab.families")

AnyFamily = Annotated[Family, ByName(FAMILIES)]
"""A field with any registered family, read by name."""
