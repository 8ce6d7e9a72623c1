"""The images of digits that ship with scikit-learn."""

import gzip
import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch

from adaptlab.engine.images import ENGINE_IMAGES, Labelled, in_split
from adaptlab.errors import BadDataset
from adaptlab.plugins.images import LEVELS
from adaptlab.plugins.splits import Split
from adaptlab.tasks.digit_images import DigitImages

PLACE = "datasets/data/digits.csv.gz"
DIGEST = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
"""The SHA-256 of the table, unpacked."""
DARKEST = 16


@ENGINE_IMAGES.register("digit_images")
def images(task: DigitImages, split: Split) -> Labelled:
    """Return the images of the task's digits in a split.

    Raises:
        BadDataset: they are not installed, or are others.
    """
    every = _every()
    chosen = torch.tensor(task.digits)
    classes = (every.classes.unsqueeze(1) == chosen).int()
    kept = classes.any(1)
    return in_split(Labelled(every.levels[kept], classes[kept].argmax(1)), split)


@lru_cache(maxsize=1)
def _every() -> Labelled:
    found = find_spec("sklearn")  # found, not imported
    if found is None or not found.submodule_search_locations:
        raise BadDataset(
            "The images of digits ship with scikit-learn, which is not installed. Install "
            "adaptlab[images] for the worker."
        )
    path = Path(found.submodule_search_locations[0]) / PLACE
    try:
        table = gzip.decompress(path.read_bytes())
    except OSError as error:
        raise BadDataset(f"{PLACE} of scikit-learn cannot be read: {error}.") from error
    if hashlib.sha256(table).hexdigest() != DIGEST:
        raise BadDataset(
            f"{PLACE} of the installed scikit-learn is not the file that the splits were made of. "
            "Install the version of constraints.txt."
        )
    rows = torch.tensor([[float(cell) for cell in line.split(b",")] for line in table.split()])
    levels = (rows[:, :-1] * (LEVELS - 1) / DARKEST).round().to(torch.uint8)
    return Labelled(levels, rows[:, -1].to(torch.int64))
