"""Tasks whose items are images, answered with a class."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from adaptlab.errors import Problem
from adaptlab.plugins.images import ImageSize
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import Task, only_own_items
from adaptlab.records.pictures import LEVELS
from adaptlab.records.record import Record


class ImageTask(Task, ABC):
    """A task whose items are images, answered by a head for classes.

    The tokens of an item are the levels of its pixels.
    """

    levels_are_light: ClassVar[bool]
    """True if the highest level is white, as in photographs; False if it is ink."""

    @abstractmethod
    def image(self) -> ImageSize:
        """Return the size of the images."""

    @abstractmethod
    def available(self, split: Split) -> int:
        """Return the number of images in a split."""

    @abstractmethod
    def written(self, tokens: Sequence[int]) -> str:
        """Return an image as people read it in text."""

    @abstractmethod
    def picture(self, item: int, record: Callable[[], Record]) -> bytes:
        """Return the image of a test item, counted from 0, as a PNG.

        `record` reads the item's record in the task's dataset.

        Raises:
            BadDataset: the image is damaged, or it is not installed.
        """

    def vocabulary(self) -> int:
        """Return the number of levels of a pixel."""
        return LEVELS

    def input_length(self) -> int:
        """Return the number of levels of an image."""
        return self.image().tokens

    def input_problem(self) -> Problem:
        """Return the reason why only its images can be asked."""
        return only_own_items(self.name, "images of its own", "inputs_of_images")

    def target_length(self) -> int:
        """Return 1, for the class."""
        return 1

    def classes(self) -> int:
        """Return the number of classes."""
        return len(self.class_values())

    def sequence_length(self) -> int:
        """Return the levels of an image; a class is not read."""
        return self.input_length()

    def chance(self) -> float:
        """Return the accuracy of guessing among the classes."""
        return 1 / self.classes()

    def chance_loss(self) -> float:
        """Return the loss of guessing among the classes."""
        return math.log(self.classes())
