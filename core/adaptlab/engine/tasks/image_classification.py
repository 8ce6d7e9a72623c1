"""The images of a dataset of records."""

import hashlib
import io
from collections.abc import Iterator

import torch
from torch import Tensor

from adaptlab.engine.items.images import ENGINE_IMAGES, Labelled
from adaptlab.errors import BadDataset, InvalidSpec
from adaptlab.plugins.images import ImageSize
from adaptlab.plugins.splits import Split
from adaptlab.records.content import read_content
from adaptlab.records.pictures import NotAPicture, png_of
from adaptlab.records.record import Record
from adaptlab.tasks.image_classification import ImageClassification
from adaptlab.text.clusters import Groups

MODES = {1: "L", 3: "RGB"}
"""Pillow's names for grey and for red, green and blue."""
PIECE_BYTES = 2**20


@ENGINE_IMAGES.register("image_classification")
def images(task: ImageClassification, split: Split) -> Labelled:
    """Return the images of a split, in the order of a hash.

    Raises:
        InvalidSpec: the records of a group are in several splits.
        BadDataset: Pillow is not installed, or the content is not what the task was resolved with.
    """
    size, count = task.image(), task.available(split)
    levels = torch.empty((count, size.tokens), dtype=torch.uint8)
    classes, lines = torch.empty(count, dtype=torch.int64), torch.empty(count, dtype=torch.int64)
    keys: list[bytes] = []
    groups, of_images = Groups(task.cluster), list[int]()
    place_of = {value: place for place, value in enumerate(task.class_values())}
    for line, record, place in _records(task):
        group = groups.number_of(record, place, line)
        if place != split:
            continue
        value, label = record[task.image_field], record[task.label.field]
        if len(keys) == count or label not in place_of:
            raise BadDataset(f"Record {line:,} of the dataset is not what the task was given.")
        levels[len(keys)] = _levels(value, size, line)
        classes[len(keys)], lines[len(keys)] = place_of[label], line
        # The line keeps equal images apart, so that their order is the same everywhere.
        if group is not None:
            of_images.append(group)
        keys.append(hashlib.sha256(f"{line} {value}".encode()).digest())
    if len(keys) != count:
        raise BadDataset(f"The {split} split has {len(keys):,} images instead of {count:,}.")
    if problems := tuple(groups.problems()):
        raise InvalidSpec(*problems)
    order = torch.tensor(sorted(range(count), key=keys.__getitem__), dtype=torch.int64)
    ordered = torch.tensor(of_images)[order] if of_images else None
    return Labelled(levels[order], classes[order], lines[order], ordered)


def _records(task: ImageClassification) -> Iterator[tuple[int, Record, Split]]:
    """Yield every record with its line, counted from 1, and its split."""
    source, rule = task.source(), task.split_rule()
    with source.content.open("rb") as content:
        pieces = iter(lambda: content.read(PIECE_BYTES), b"")
        for line, record in enumerate(read_content(pieces, source.digest), 1):
            yield line, record, rule.split_of(record)


def _levels(value: str, size: ImageSize, line: int) -> Tensor:
    """Return the levels [C · H · W] of an image, by channel and row."""
    try:
        from PIL import Image
    except ImportError as error:
        raise BadDataset(
            "Images are read by Pillow, which is not installed. Install adaptlab[images] for the "
            "worker."
        ) from error
    try:
        with Image.open(io.BytesIO(png_of(value)), formats=("PNG",)) as image:
            if (image.mode, image.height, image.width) != (MODES[size.channels], *size[1:]):
                raise NotAPicture(f"is not {size}")
            pixels = bytearray(image.tobytes())
    except (NotAPicture, OSError, SyntaxError, ValueError) as error:  # what Pillow raises
        raise BadDataset(f"The image of record {line:,} cannot be read: {error}.") from error
    rows = torch.frombuffer(pixels, dtype=torch.uint8).view(*size[1:], size.channels)
    return rows.permute(2, 0, 1).flatten()
