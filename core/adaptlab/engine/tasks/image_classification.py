"""The images of a dataset of records."""

import hashlib
import io
from collections.abc import Iterator

import torch
from torch import Tensor

from adaptlab.engine.images import ENGINE_IMAGES, Labelled
from adaptlab.errors import BadDataset
from adaptlab.plugins.images import ImageSize
from adaptlab.plugins.splits import Split
from adaptlab.records.content import read_content
from adaptlab.records.pictures import NotAPicture, png_of
from adaptlab.tasks.image_classification import ImageClassification

MODES = {1: "L", 3: "RGB"}
"""Pillow's names for grey and for red, green and blue."""
PIECE_BYTES = 2**20


@ENGINE_IMAGES.register("image_classification")
def images(task: ImageClassification, split: Split) -> Labelled:
    """Return the images of a split, in the order of a hash.

    Raises:
        BadDataset: Pillow is not installed, or the content is not what the task was resolved with.
    """
    size, count = task.image(), task.available(split)
    levels = torch.empty((count, size.tokens), dtype=torch.uint8)
    classes, lines = torch.empty(count, dtype=torch.int64), torch.empty(count, dtype=torch.int64)
    keys: list[bytes] = []
    place_of = {value: place for place, value in enumerate(task.class_values())}
    for line, value, label in _records(task, split):
        if len(keys) == count or label not in place_of:
            raise BadDataset(f"Record {line:,} of the dataset is not what the task was given.")
        levels[len(keys)] = _levels(value, size, line)
        classes[len(keys)], lines[len(keys)] = place_of[label], line
        # The line keeps equal images apart, so that their order is the same everywhere.
        keys.append(hashlib.sha256(f"{line} {value}".encode()).digest())
    if len(keys) != count:
        raise BadDataset(f"The {split} split has {len(keys):,} images instead of {count:,}.")
    order = torch.tensor(sorted(range(count), key=keys.__getitem__), dtype=torch.int64)
    return Labelled(levels[order], classes[order], lines[order])


def _records(task: ImageClassification, split: Split) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the image and the label of every record of a split."""
    source, rule = task.source(), task.split_rule()
    with source.content.open("rb") as content:
        pieces = iter(lambda: content.read(PIECE_BYTES), b"")
        for line, record in enumerate(read_content(pieces, source.digest), 1):
            if rule.split_of(record) == split:
                yield line, record[task.image_field], record[task.label.field]


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
