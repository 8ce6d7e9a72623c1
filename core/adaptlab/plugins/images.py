"""Images as items: their size, and the levels of their pixels."""

from typing import Annotated, NamedTuple

from pydantic import Field

from adaptlab.records.pictures import LEVELS
from adaptlab.values import Value

SHADES = (" ", "\N{LIGHT SHADE}", "\N{MEDIUM SHADE}", "\N{DARK SHADE}", "\N{FULL BLOCK}")


def shade(level: int, *, is_light: bool = False) -> str:
    """Return a character that is darker for a higher level.

    If levels are light, as in photographs, it is darker for a lower one.
    """
    ink = LEVELS - 1 - level if is_light else level
    return SHADES[ink * len(SHADES) // LEVELS]


class ImageSize(NamedTuple):
    """The size of images.

    An item is the levels of all pixels, channel by channel and row by row, so an image has as many
    tokens as levels.
    """

    channels: int
    height: int
    width: int

    @property
    def tokens(self) -> int:
        """The levels of an image."""
        return self.channels * self.height * self.width

    def __str__(self) -> str:
        return f"{self.channels} × {self.height} × {self.width}"


def items_of(image: ImageSize | None) -> str:
    """Return items in words: images of a size, or tokens."""
    return "tokens" if image is None else f"images of {image} levels"


Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
HALF = 0.5
"""The mean and the standard deviation that most published ViTs were trained with."""


class Preprocessor(Value):
    """How a model sees pixels: (level · rescale − mean) / std, by channel."""

    mean: tuple[Finite, ...] = Field(min_length=1, max_length=16)
    std: tuple[Positive, ...] = Field(min_length=1, max_length=16)
    rescale: Positive

    @classmethod
    def default(cls, channels: int) -> "Preprocessor":
        """Return that of a model without a file: numbers from −1 to 1."""
        halves = (HALF,) * channels
        return cls(mean=halves, std=halves, rescale=1 / (LEVELS - 1))
