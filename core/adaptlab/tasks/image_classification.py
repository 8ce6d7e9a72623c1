"""Classification of the images of a dataset."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import BadDataset, Problem
from adaptlab.figures import counted
from adaptlab.plugins.image_task import ImageTask
from adaptlab.plugins.images import ImageSize, shade
from adaptlab.plugins.labels import problem_of_metric, problems_of_labels
from adaptlab.plugins.metric import LabelMetric
from adaptlab.plugins.records_task import RecordsTask, names_field, problems_of_splits
from adaptlab.plugins.task import TASKS
from adaptlab.records.facts import MOST_VALUES, RecordsFacts
from adaptlab.records.pictures import MOST_SIDE, NotAPicture, picture_size, png_of
from adaptlab.records.record import FieldName, Record
from adaptlab.text.splitting import SplitRule, SplitsByValue, unknown_field
from adaptlab.values import Value

MOST_LEVELS = 2**31
"""Limit of the levels of all images together; a trainer holds them, at one byte each."""

WIDEST_TEXT = 24
"""Characters of a row of an image as text."""

Side = Annotated[int, Field(ge=1, le=MOST_SIDE)]


class ImageLabel(Value):
    """The field with the label.

    `classes` are its values in the order of the outputs of the head, by default in alphabetical
    order.
    """

    field: FieldName = "label"
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_VALUES)] | None = None


class Pixels(Value):
    """The size of images in pixels; `channels` is 1 for grey, 3 for colour."""

    channels: Literal[1, 3]
    height: Side
    width: Side


@TASKS.register("image_classification")
class ImageClassification(RecordsTask, ImageTask):
    """Choose the label of an image of your own dataset.

    A head that is trained with the method answers with one of the labels. All images have one size,
    `pixels`, which follows from the dataset and must be that of the model. Splits are by a hash of
    the image, so equal images are in the same one, or by a field. No image is scored twice.

    With `metric: macro_f1`, trials are chosen by macro-F1 on validation, and comparisons show that
    of every method on test items beside accuracy. Verdicts are given by accuracy.

    Chance is the share of the most common label in the dataset.
    """

    title: ClassVar[str] = "Image classification"
    hub_task: ClassVar[str] = "image-classification"
    summary: ClassVar[str] = "Images of your own dataset with labels, for models of images."
    reference: ClassVar[str] = "Dosovitskiy et al. (ICLR 2021), the class token's head"

    levels_are_light: ClassVar[bool] = True

    name: Literal["image_classification"] = "image_classification"
    image_field: FieldName = "image"
    """field of the dataset that holds the image"""
    label: ImageLabel = ImageLabel()
    """field of the dataset that holds the label"""
    pixels: Pixels | None = None
    """size of the images; follows from the dataset"""
    splits: SplitRule = SplitsByValue()
    """shares of training, validation and test records"""
    metric: LabelMetric = "accuracy"
    """figure by which answers are scored"""

    def other_metric(self) -> str | None:
        return None if self.metric == "accuracy" else self.metric

    def split_rule(self) -> SplitRule:
        """Return the rule with every default filled in."""
        if names_field(self.splits):
            return self.splits
        return self.splits.model_copy(update={"by": self.cluster or self.image_field})

    def answer_field(self) -> tuple[str, str]:
        return "/label/field", self.label.field

    def image(self) -> ImageSize:
        """Return the size of the images; raises `BadDataset` before it is known."""
        if self.pixels is None:
            raise BadDataset("The size of the images has not been looked up yet.")
        return ImageSize(self.pixels.channels, self.pixels.height, self.pixels.width)

    def class_values(self) -> tuple[str, ...]:
        return self.label.classes or ()

    def chance(self) -> float:
        """Return the accuracy of always answering the most common label."""
        return self.reference_to_records().majority or 1 / self.classes()

    def chance_loss(self) -> float:
        """Return the loss of guessing among the classes."""
        return math.log(self.classes())

    def picture(self, item: int, record: Callable[[], Record]) -> bytes:
        """Return the image as it is in the dataset."""
        value = record().get(self.image_field, "")
        try:
            size = picture_size(value)
        except NotAPicture as error:
            raise BadDataset(f"The image of item {item:,} {error}.") from error
        if size != self.image():
            raise BadDataset(f"The image of item {item:,} is {size} instead of {self.image()}.")
        return png_of(value)

    def written(self, tokens: Sequence[int]) -> str:
        """Return the image as lines of characters, darker for lower levels.

        Channels are averaged. Of a wide image, every second, third, … pixel is shown.
        """
        channels, height, width = self.image()
        step = -(-width // WIDEST_TEXT)
        size = height * width
        lines: list[str] = []
        for row in range(0, height, step):
            places = range(row * width, (row + 1) * width, step)
            grey = (sum(tokens[at::size][:channels]) // channels for at in places)
            lines.append("".join(shade(level, is_light=True) for level in grey).rstrip())
        return "\n".join(lines)

    def found_in(self, facts: RecordsFacts) -> "ImageClassification":
        """Return the task with the labels as classes, and the images' size."""
        images, labels = facts.field(self.image_field), facts.field(self.label.field)
        assert images is not None
        assert images.pictures is not None
        assert labels is not None
        found = images.pictures
        pixels = Pixels.model_validate(
            {"channels": found.channels, "height": found.height, "width": found.width}
        )
        classes = self.label.classes or tuple(sorted(one.value for one in labels.values or ()))
        label = self.label.model_copy(update={"classes": classes})
        return self.model_copy(update={"label": label, "pixels": pixels})

    def _own_problems(self) -> Iterator[Problem]:
        if self.image_field == self.label.field:
            detail = "The image and the label are the same field. Name two."
            yield Problem("/label/field", "answer_in_prompt", detail)
        if len(set(self.label.classes or ())) != len(self.label.classes or ()):
            detail = "A class occurs twice. List each once."
            yield Problem("/label/classes", "class_twice", detail)

    def _misfits(self, facts: RecordsFacts) -> Iterator[Problem]:
        if facts.field(self.image_field) is None:
            yield unknown_field("/image_field", self.image_field, facts)
        else:
            yield from self._wrong_images(facts)
        labels = facts.field(self.label.field)
        if labels is None:
            yield unknown_field("/label/field", self.label.field, facts)
        else:
            yield from problems_of_labels(
                facts, self.label.field, self.label.classes, noun="class", place="classes"
            )
            yield from problem_of_metric(self.other_metric(), len(labels.values or ()))
        if facts.field(self.image_field) is not None or names_field(self.splits):
            yield from problems_of_splits(self.split_rule(), self.cluster, facts)

    def _wrong_images(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield the problems of values that are no images of one size."""
        field = facts.field(self.image_field)
        found = field and field.pictures
        if found is None:
            allowed = tuple(one.name for one in facts.fields if one.pictures)
            detail = (
                f"The first {self.image_field!r} of {facts.name!r} is not an image. "
                "`adaptlab datasets upload` makes such a dataset of a folder or an .npz."
            )
            yield Problem("/image_field", "no_images", detail, allowed=allowed)
            return
        size = ImageSize(found.channels, found.height, found.width)
        if found.others:
            detail = (
                f"The first image is {size}, and {counted(found.others, 'record')} of "
                f"{facts.name!r}, the first of them record {found.first_other}, have another size "
                "or no image. Upload them again with `--size`, which resizes all of them."
            )
            yield Problem("/image_field", "images_differ", detail)
        if (levels := size.tokens * facts.records) > MOST_LEVELS:
            detail = (
                f"{facts.records:,} images of {size} have {levels:,} levels, more than "
                f"{MOST_LEVELS:,}. Use smaller images, or fewer."
            )
            yield Problem("/image_field", "too_many_levels", detail, nearest=(MOST_LEVELS,))
        given = self.pixels
        if given and (given.channels, given.height, given.width) != size:
            detail = f"The images of {facts.name!r} are {size}. Leave `pixels` out."
            yield Problem("/pixels", "other_size", detail)
