"""Handwritten digits as small images."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.images import ImageSize, shade
from adaptlab.plugins.splits import SIXTEENTHS, Split, question_hash
from adaptlab.plugins.task import TASKS
from adaptlab.records.digits_table import digit_rows
from adaptlab.records.pictures import LEVELS, grey_png
from adaptlab.records.record import Record

SIDE = 8
COUNTS: Mapping[Split, tuple[int, ...]] = {
    "train": (116, 127, 116, 119, 118, 135, 129, 121, 112, 128),
    "validation": (12, 14, 15, 18, 17, 12, 10, 9, 12, 10),
    "test": (50, 41, 46, 46, 46, 35, 42, 49, 50, 42),
}
"""The images of every digit in each split."""

Digit = Annotated[int, Field(ge=0, le=9)]


@TASKS.register("digit_images")
class DigitImages(ImageTask):
    """Name the digit in an image of 8 × 8 pixels.

    The images are the 1,797 that ship with scikit-learn, a part of the handwritten digits of the
    UCI repository; the 17 levels of a pixel there are spread over 0 to 255. Only images of
    `digits` are used, in whose order a head answers. A hash of its pixels puts an image
    into a split, so equal images are in the same one. No image is scored twice.
    """

    title: ClassVar[str] = "Digit images"
    summary: ClassVar[str] = "Handwritten digits of 8 × 8 pixels, for models of images."
    reference: ClassVar[str] = "Alpaydin, Kaynak (UCI repository, 1998)"

    levels_are_light: ClassVar[bool] = False

    name: Literal["digit_images"] = "digit_images"
    digits: Annotated[tuple[Digit, ...], Field(min_length=2, max_length=10)] = tuple(range(10))
    """the digits to tell apart"""

    def problems(self) -> tuple[Problem, ...]:
        if len(set(self.digits)) == len(self.digits):
            return ()
        return (Problem("/digits", "class_twice", "A digit occurs twice. List each once."),)

    def image(self) -> ImageSize:
        return ImageSize(1, SIDE, SIDE)

    def class_values(self) -> tuple[str, ...]:
        return tuple(map(str, self.digits))

    def available(self, split: Split) -> int:
        return sum(COUNTS[split][digit] for digit in self.digits)

    def picture(self, item: int, record: Callable[[], Record]) -> bytes:
        """Return the image in black on white."""
        listed = _test_images(self.digits)
        return grey_png(bytes(LEVELS - 1 - level for level in listed[item % len(listed)]), SIDE)

    def written(self, tokens: Sequence[int]) -> str:
        """Return the image as lines of characters, darker for higher levels."""
        signs = [shade(level) for level in tokens]
        lines = ("".join(signs[start : start + SIDE]) for start in range(0, len(signs), SIDE))
        return "\n".join(line.rstrip() for line in lines)


@lru_cache(maxsize=8)
def _test_images(digits: tuple[int, ...]) -> tuple[bytes, ...]:
    """Return the levels of some digits' test images, in the engine's order."""
    listed = [row.levels for row in digit_rows() if row.digit in digits]
    hashes = {levels: question_hash(levels) for levels in set(listed)}
    tested = [levels for levels in listed if hashes[levels] & 15 in SIXTEENTHS["test"]]
    return tuple(sorted(tested, key=lambda levels: _signed(hashes[levels])))


def _signed(value: int) -> int:
    """Return the number with the same 64 bits in two's complement."""
    return value - (value >> 63 << 64)
