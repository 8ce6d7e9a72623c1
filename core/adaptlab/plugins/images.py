"""Images as items: their size, and the levels of their pixels."""

from typing import NamedTuple

LEVELS = 256
"""The levels of a pixel in one channel, from 0 to 255."""
SHADES = (" ", "\N{LIGHT SHADE}", "\N{MEDIUM SHADE}", "\N{DARK SHADE}", "\N{FULL BLOCK}")


def shade(level: int) -> str:
    """Return a character that is darker for a higher level."""
    return SHADES[level * len(SHADES) // LEVELS]


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
