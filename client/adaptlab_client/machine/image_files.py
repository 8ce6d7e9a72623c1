"""Images on this machine, as records with an image and a label."""

import io
import json
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adaptlab.figures import counted
from adaptlab.records.gathering import CanonicalLines
from adaptlab.records.pictures import MOST_SIDE, picture_text
from adaptlab.text.splitting import NAMES_OF_SPLITS

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm"})
GREY = frozenset({"1", "L", "LA", "I;16"})
"""Pillow's modes without colour."""
DEEP = frozenset({"I", "F"})
"""Modes whose levels have no largest one."""
MOST_PIXELS = 2**27
"""Limit of an image before it is made smaller."""
ARRAYS = (("images", "labels"), ("x", "y"))
"""Names of the arrays of an .npz, after or before the name of a split, such as x_train."""
MOST_TOLD = 5


class NoImages(ValueError):
    """A folder or file that cannot be read as labelled images."""


class Size(NamedTuple):
    """The height and the width that images are made of, in pixels."""

    height: int
    width: int

    @classmethod
    def read(cls, text: str) -> "Size":
        """Return the size of a text such as `32` or `32x48`; raises `NoImages`."""
        sides = text.lower().split("x")
        if len(sides) > 2 or not all(side.isdecimal() for side in sides):
            raise NoImages(f"{text!r} is no size. Give one number, or height and width: 32x48.")
        size = cls(int(sides[0]), int(sides[-1]))
        if not all(0 < side <= MOST_SIDE for side in size):
            raise NoImages(f"A side has 1 to {MOST_SIDE:,} pixels, not {text}.")
        return size


class ImageFile(NamedTuple):
    """An image with its label, the split that it is in, and where it is."""

    image: "Image.Image"
    label: str
    split: str | None
    place: str


def is_of_images(path: Path) -> bool:
    """Return True for a folder and for an .npz, which hold images."""
    return path.is_dir() or path.suffix.lower() == ".npz"


@contextmanager
def image_records(path: Path, size: Size | None, *, grey: bool = False) -> Generator[Path]:
    """Yield a temporary file with images as JSON lines, from a folder or .npz.

    A folder has a folder of images for each label, optionally inside folders for splits. Images
    become grey if none has colour, or with `grey`. With `size`, each is cropped around its middle
    and resized.

    Raises:
        NoImages: Pillow is not installed, or the images cannot be used.
        InvalidSpec: they are beyond a limit of datasets.
    """
    if find_spec("PIL") is None:  # an extra
        raise NoImages("Images need Pillow: install adaptlab[images] here.")
    if path.is_dir():
        found = _of_folder(path)
        is_grey = all(labelled.image.mode in GREY for labelled in _of_folder(path))
    else:
        parts = _parts_of(path)
        found = _of_arrays(parts)
        is_grey = all(part.images.ndim == 3 or part.images.shape[-1] == 1 for part in parts)
    with tempfile.TemporaryDirectory(prefix="adaptlab-") as folder:
        target = Path(folder) / "records.jsonl"
        with target.open("wb") as lines:
            lines.writelines(
                CanonicalLines(path.name).lines(_records(found, size, grey=grey or is_grey))
            )
        yield target


def _records(
    found: Iterator[ImageFile], size: Size | None, *, grey: bool
) -> Iterator[Mapping[str, str]]:
    from PIL import Image, ImageOps

    first: tuple[int, int] | None = None
    for image, label, split, place in found:
        if image.mode in DEEP:
            raise NoImages(f"{place} has more than 16 bits per channel. Save it with 8.")
        try:
            made = ImageOps.exif_transpose(image).convert("L" if grey else "RGB")
        except (OSError, SyntaxError) as error:
            raise NoImages(f"{place} cannot be read as an image: {error}.") from error
        if size is not None:
            made = ImageOps.fit(made, (size.width, size.height), Image.Resampling.BILINEAR)
        first = first or made.size
        if made.size != first:
            raise NoImages(
                f"{place} has {made.size[0]} × {made.size[1]} pixels, and the first image has "
                f"{first[0]} × {first[1]}. Add --size to make all alike."
            )
        if max(made.size) > MOST_SIDE:
            raise NoImages(
                f"{place} has {made.size[0]} × {made.size[1]} pixels, and a side has {MOST_SIDE:,} "
                "at most. Add --size."
            )
        file = io.BytesIO()
        made.save(file, "PNG")
        record = {"image": picture_text(file.getvalue()), "label": label}
        yield record if split is None else {**record, "split": split}


def _of_folder(folder: Path) -> Iterator[ImageFile]:
    """Yield the images of a folder, in the order of their names."""
    from PIL import Image

    tops = sorted(path for path in folder.iterdir() if path.is_dir())
    splits = {top: NAMES_OF_SPLITS.get(top.name.lower()) for top in tops}
    are_splits = bool(tops) and all(splits.values())
    labels = [
        (label, splits[top])
        for top in tops
        for label in (sorted(p for p in top.iterdir() if p.is_dir()) if are_splits else [top])
    ]
    count = 0
    for label, split in labels:
        for file in sorted(label.rglob("*")):
            if file.suffix.lower() not in SUFFIXES or not file.is_file():
                continue
            place, count = str(file.relative_to(folder)), count + 1
            try:
                opened = Image.open(file)
            except (OSError, SyntaxError, Image.DecompressionBombError) as error:
                raise NoImages(f"{place} cannot be read as an image: {error}.") from error
            with opened as image:
                if image.width * image.height > MOST_PIXELS:
                    raise NoImages(f"{place} has more than {MOST_PIXELS:,} pixels.")
                yield ImageFile(image, label.name, split if are_splits else None, place)
    if not count:
        raise NoImages(
            f"{folder.name} has no images in folders with the names of their labels, such as "
            "leaves/oak/1.png, with or without folders train, validation and test around them."
        )


class _Part(NamedTuple):
    """Images of one array with their labels, and the split that they are in."""

    split: str | None
    name: str
    images: Any  # arrays of numpy, which is loaded late
    labels: Any


def _of_arrays(parts: Iterable[_Part]) -> Iterator[ImageFile]:
    """Yield the images of arrays, in their order."""
    import numpy as np
    from PIL import Image

    for split, name, images, labels in parts:
        for place, (levels, label) in enumerate(zip(images, labels.reshape(-1), strict=True)):
            flat = levels[..., 0] if levels.ndim == 3 and levels.shape[-1] == 1 else levels
            image = Image.fromarray(np.ascontiguousarray(flat))
            yield ImageFile(image, str(label), split, f"{name}[{place}]")


def _parts_of(path: Path) -> Sequence[_Part]:
    """Return the arrays of an .npz with usual names, checked."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            read = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        detail = f"{path.name} cannot be read as an npz without objects: {error}."
        raise NoImages(detail) from error
    parts = tuple(_named_parts(read))
    if not parts:
        listed = ", ".join(sorted(read)[:MOST_TOLD]) or "no array"
        raise NoImages(
            f"{path.name} has {listed}. Name the arrays images and labels, or x and y, alone or "
            "with a split: x_train, y_train, x_test, y_test."
        )
    for part in parts:
        _check(path, part.name, part.images, part.labels)
    return parts


def _named_parts(arrays: Mapping[str, Any]) -> Iterator[_Part]:
    for images, labels in ARRAYS:
        if images in arrays and labels in arrays:
            yield _Part(None, images, arrays[images], arrays[labels])
            return
    for images, labels in ARRAYS:
        for word, split in NAMES_OF_SPLITS.items():
            for form in ("{part}_{split}", "{split}_{part}"):
                name = form.format(part=images, split=word)
                other = form.format(part=labels, split=word)
                if name in arrays and other in arrays:
                    yield _Part(split, name, arrays[name], arrays[other])


def _check(path: Path, name: str, images: Any, labels: Any) -> None:
    is_image = images.ndim == 3 or (images.ndim == 4 and images.shape[-1] in (1, 3))
    if not is_image or str(images.dtype) != "uint8":
        raise NoImages(
            f"{name} of {path.name} has the shape {json.dumps(images.shape)} and the type "
            f"{images.dtype}. Images are N × H × W or N × H × W × 3 of uint8, from 0 to 255."
        )
    if labels.size != len(images) or labels.dtype.kind not in "iuU":
        raise NoImages(
            f"{path.name} has {counted(len(images), 'image')} in {name}, and "
            f"{counted(labels.size, 'label')} of the type {labels.dtype} for them. Give every "
            "image one label, a whole number or a text."
        )
